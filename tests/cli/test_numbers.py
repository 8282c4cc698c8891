"""Numbers of options: as commands print them and as people type them, or refused with a hint."""

from __future__ import annotations

import re
from pathlib import Path

import commands
import pytest

from bestarm import Experiment
from bestarm.defaults import STORE

pytestmark = pytest.mark.usefixtures("folder")

PLAN = ("plan", "--base", "20 %", "--runs", "2", "--drift", "none", "--policy", "anytime")


@pytest.mark.parametrize(
    ("text", "visitors"),
    [("20,000", 20_000), ("20k", 20_000), ("1e4", 10_000), ("1.5 K", 1500), ("400", 400)],
)
def test_counts(text: str, visitors: int) -> None:
    assert commands.data(*PLAN, "--visitors", text)["visitors"] == visitors


def test_error_probabilities_and_bounds() -> None:
    Path("arms.csv").write_text("a\nb\n")
    for text in ("5%", "5 %", "5\N{NARROW NO-BREAK SPACE}%", "0.05", "5e-2"):
        assert commands.data("check", "arms.csv", "--delta", text)["delta"] == 0.05
    names = ("--options", "a", "b", "--floor", "a=20 %", "--seed", "12,345,678,901,234,567")
    bounds = ("--bounds", "−1", "1,000.5")
    made = commands.data("experiment", "create", "x", *names, *bounds)
    assert int(made["seed"]) == 12_345_678_901_234_567
    with Experiment.open(STORE, "x") as experiment:
        assert experiment.traits.bounds == (-1.0, 1000.5)
        assert experiment.stored_spec("read").options["floors"] == {"a": 0.2}
    assert len(commands.data("experiment", "ask", "x", "1e3")["assignments"]) == 1000


@pytest.mark.parametrize(
    "command",
    [
        ("check", "arms.csv"),
        ("plan", "--gap", "1"),
        ("compare",),
        ("demo",),
        ("leaderboard",),
        ("evaluate", "judge.py", "--options", "a,b", "--items", "arms.csv"),
        ("experiment", "create", "x", "--options", "a", "b"),
    ],
)
def test_a_confidence_is_not_taken_for_the_probability_of_an_error(command: tuple[str]) -> None:
    """Nobody can tell whether 60 % means a δ of 0.6 or of 0.4, so that the remedy asks."""
    Path("arms.csv").write_text("name\na\nb\n")
    Path("judge.py").write_text("def judge(option, item):\n    return 1\n")
    message = commands.refused(*command, "--delta", "95%")
    assert "`delta` must lie in (0, 0.5]; got 0.95." in message
    assert message.endswith("It is the probability of an error. Did you mean 0.05?\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--visitors", "20,00"), "'20,00' is not a whole number. Commas separate thousands"),
        (("--visitors", "2.5"), "'2.5' is not a whole number."),
        (("--visitors", "20.000"), "'20.000' is not a whole number. Commas separate thousands"),
        (("--visitors", "50 %"), "'50 %' is not a whole number."),
        (("--visitors", "2_000"), "'2_000' is not a whole number."),
        (("--delta", "0,050"), "'0,050' is not a number. Commas separate thousands"),
        (("--delta", "nan"), "'nan' is not a number."),
        (("--delta", "5%%"), "'5%%' is not a number."),
    ],
)
def test_what_is_not_a_number(options: tuple[str, str], words: str) -> None:
    _, err = commands.run(*PLAN, *options, code=2)
    assert words in re.sub(r"[\s│]+", " ", err)
