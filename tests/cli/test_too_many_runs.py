"""More runs than memory holds are refused in a sentence, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run

from bestarm import SPBAI, environments
from bestarm.errors import InvalidInputError
from bestarm.simulation import simulate
from bestarm.simulation.results import MOST_RUNS, run_count

MANY = 999_999_999_999


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "--method", "lucb", "--out", "runs.csv"),
        ("demo", "--out", "out"),
        ("leaderboard", "--only", "lucb", "--workers", "1", "--out", "out"),
        ("plan", "options.csv", "--gap", "0.5"),
        ("reproduce", "small-gap", "--workers", "1", "--out", "out"),
    ],
)
def test_commands_refuse_them(command: tuple[str, ...], folder: Path) -> None:
    (folder / "options.csv").write_text("old,1,0\nnew,0,1\n", encoding="utf-8")
    message = run(*command, "--runs", str(MANY), code=2)[1]
    assert "`runs` must be at most 10,000,000" in message
    assert [path.name for path in folder.iterdir()] == ["options.csv"]


def test_so_does_the_library() -> None:
    with pytest.raises(InvalidInputError, match="must be at most") as refused:
        simulate(SPBAI, environments.small_gap(), runs=MANY)
    assert (refused.value.field, refused.value.value) == ("runs", MANY)
    assert "different seeds" in refused.value.remedy


def test_the_most_that_is_allowed() -> None:
    assert run_count(MOST_RUNS) == MOST_RUNS
    with pytest.raises(InvalidInputError, match="got 10,000,001"):
        run_count(MOST_RUNS + 1)
    with pytest.raises(InvalidInputError, match="of at least 2; got 1"):
        run_count(1, least=2)
