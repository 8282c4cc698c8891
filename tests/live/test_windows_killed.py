"""Whoever is killed within a window: what was acknowledged is on record, and counts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bestarm import Experiment, Problem

WORKER = Path(__file__).with_name("workers_windows.py")
KILLS, PROCESSES, CALLS = 3, 2, 60


@pytest.mark.parametrize("store", ["sqlite_url", "postgres_url"])
def test_acknowledged_reports_survive_kills(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue(store)
    problem = Problem(np.eye(3), source_labels=["old", "new", "video"], delta=1e-9)
    limits = {"window": 0.2, "otherwise": 0.25}
    Experiment.create(url, "shop", problem, bounds=(0, 1), seed=3, **limits).close()  # type: ignore[arg-type]
    files = [tmp_path / f"{n}.txt" for n in range(PROCESSES)]
    for kill in range(KILLS):
        command = [sys.executable, str(WORKER), url]
        before = [len(lines(file)) for file in files]
        workers = [subprocess.Popen([*command, str(file), f"{kill} {file.name}"]) for file in files]
        while any(len(lines(f)) < n + CALLS for f, n in zip(files, before, strict=True)):
            assert all(worker.poll() is None for worker in workers)
            time.sleep(0.01)
        for worker in workers:
            worker.kill()
            worker.wait()
    with Experiment.open(url, "shop") as experiment:
        while experiment.status().outstanding:
            time.sleep(0.05)
            experiment.expire()
        reports, outcomes = experiment.reports(), experiment.outcomes()
        assert experiment.verify().findings == ()
        experiment.replay()
    columns = zip(reports["id"], reports["reward"], reports["late"], strict=True)
    known = Counter((int(number), float(to), bool(late)) for number, to, late in columns)
    acknowledged = Counter(line for file in files for line in lines(file))
    assert not acknowledged - known
    # A process that is killed may have one call that was carried out and not acknowledged.
    assert (known - acknowledged).total() <= KILLS * PROCESSES
    last = {number: to for number, to, late in known_in_order(reports) if not late}
    for number, reward in zip(outcomes["id"], outcomes["reward"], strict=True):
        assert reward == last.get(number, 0.25)
    assert len(outcomes) > len(last) > 0


def known_in_order(reports: object) -> list[tuple[int, float, bool]]:
    frame: list[tuple[int, float, bool]] = reports[["id", "reward", "late"]].to_numpy().tolist()  # type: ignore[index]
    return frame


def lines(file: Path) -> list[tuple[int, float, bool]]:
    """What was acknowledged; the last line may be cut."""
    text = file.read_text() if file.exists() else ""
    parts = [line.split() for line in text.split("\n")[:-1]]
    return [(int(number), float(to), late == "1") for number, to, late in parts]
