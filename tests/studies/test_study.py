"""Studies do not depend on workers or interruptions, and lose no finished run."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest
from tiny_studies import run_slowly, tiny
from workers_started import processes

from bestarm.simulation import Results
from bestarm.studies import Row, Table, run_study

RUNS = 24


def journals(out: Path) -> dict[str, list[str]]:
    """Each journal's first line, then its runs in order."""
    texts = {path.name: path.read_text().splitlines() for path in (out / "journal").iterdir()}
    return {name: [lines[0], *sorted(set(lines[1:]))] for name, lines in texts.items()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone") / "out"
    run_study(tiny(), runs=RUNS, seed=3, out=out)
    return out


def test_two_workers_find_what_one_finds(alone: Path, tmp_path: Path, pool: Executor) -> None:
    replication = run_study(
        tiny(),
        runs=RUNS,
        seed=3,
        out=tmp_path / "out",
        executor=pool,
    )
    assert not replication.interrupted
    assert journals(tmp_path / "out") == journals(alone)


def test_an_interrupted_replication_goes_on_where_it_was(alone: Path, tmp_path: Path) -> None:
    out, seen = tmp_path / "out", 0

    def stop(_table: Table, row: Row, done: int, _total: int) -> None:
        nonlocal seen
        seen += 1
        if row.key == "rage-1" and done == 5 and seen == RUNS + 5:
            raise KeyboardInterrupt

    settings: Any = {"runs": RUNS, "seed": 3, "out": out}
    cut = run_study(tiny(), **settings, progress=stop)
    assert cut.interrupted
    assert list(cut.results) == [("small-gap", "sbe")]
    before = seen
    finished: list[tuple[str, str, Results]] = []
    again = run_study(
        tiny(),
        resume=True,
        **settings,
        progress=stop,
        finished=lambda table, row, found: finished.append((table.key, row.key, found)),
    )
    assert not again.interrupted
    assert journals(out) == journals(alone)
    # Once a row that was begun (at its known runs), then once a run that was missing.
    assert seen - before == 2 + (RUNS - 5) + 2 * RUNS
    assert [entry[:2] for entry in finished] == [
        (table.key, row.key) for table in tiny().tables for row in table.rows
    ]


def test_a_killed_replication_loses_no_finished_run(alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = processes.Process(target=run_slowly, args=(out, RUNS))
    process.start()
    journal = out / "journal" / "small-gap.rage-1.csv"
    deadline = time.monotonic() + 120
    while not (journal.exists() and len(journal.read_text().splitlines()) > 3):
        assert process.is_alive(), "it finished before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.join()
    made = len(journal.read_text().splitlines()) - 1
    assert made < RUNS
    counts: list[int] = []
    run_study(
        tiny(),
        runs=RUNS,
        seed=3,
        out=out,
        resume=True,
        progress=lambda _, row, done, total: counts.append(done) if row.key == "rage-1" else None,
    )
    assert counts[0] >= made
    assert journals(out) == journals(alone)


def test_more_runs_extend_and_fewer_take_the_first(alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    settings: Any = {"seed": 3, "out": out, "resume": True}
    few = run_study(tiny(), runs=6, **settings)
    run_study(tiny(), runs=RUNS, **settings)
    assert journals(out) == journals(alone)
    again = run_study(tiny(), runs=6, **settings)
    for key, results in few.results.items():
        assert again.results[key].outcomes() == results.outcomes()
