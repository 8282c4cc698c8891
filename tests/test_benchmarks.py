"""Every benchmark says what it measures before it measures anything, and few runs will do."""

from __future__ import annotations

import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benchmarks import changes

FOLDER = Path(changes.__file__).parent
PROGRAMS = sorted(
    file.stem for file in FOLDER.glob("*.py") if "__main__" in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_measures_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("usage:")


@pytest.mark.parametrize(("runs", "interval"), [(1, False), (3, False), (6, True)])
def test_costs_of_few_runs_have_no_interval(
    runs: int,
    interval: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(changes, "outcomes_until_decided", lambda seed, **_: (100 + seed, False))
    with ThreadPoolExecutor(1) as pool:
        changes.print_costs(runs, pool)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(changes.COSTS)
    for line in lines:
        assert f"{np.median(100 + np.arange(runs)):,.0f}" in line
        assert (" to " in line) is interval
        assert line.endswith(f"0 of {runs}")
