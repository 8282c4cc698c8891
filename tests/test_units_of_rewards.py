"""Numbers in words are grammatical, whatever the number, and nothing is written of what is not."""

from __future__ import annotations

import math

import pytest

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.live.watch.overview import Watch
from bestarm.units import Unit, plural, rough


@pytest.mark.parametrize("percent", [True, False])
@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_value_that_is_not_known_has_no_unit(percent: bool, value: float | None) -> None:
    unit = Unit(percent=percent)
    assert unit.value(value) == unit.difference(value, signed=True) == "–"


@pytest.mark.parametrize("relative", [0.0, 0.0004, -0.0004])
def test_a_lead_that_is_nothing_relative_to_the_control_is_not_said_to_be(relative: float) -> None:
    assert Unit().lead(2.0, -1.0, 5.0, relative) == "+2.00 (−1.00 to 5.00)"


def test_one_is_in_the_singular() -> None:
    assert (plural(1, "option"), plural(0, "option")) == ("1 option", "0 options")
    assert (rough(0.6, "outcome"), rough(1234, "outcome")) == ("1 outcome", "1,200 outcomes")


def test_one_outcome_is_in_the_singular_wherever_outcomes_are_counted() -> None:
    problem = Problem(["old", "new"])
    experiment = Experiment(AnytimeBAI(problem, bounds=(0, 1), max_pulls=1), seed=1)
    [only] = experiment.ask(1)
    experiment.tell(only, 1)
    assert experiment.recommendation().statement.startswith("Not decided after 1 outcome: ")
    findings = [check.finding for check in experiment.health()]
    assert "Traffic split matches the plan (1 assignment)." in findings
    assert "Outcome split matches the plan (1 settled outcome)." in findings


def test_one_loss_is_in_the_singular() -> None:
    experiment = Experiment(["old", "new"], bounds=(0, 1), seed=1)
    first, second = experiment.ask(2)
    experiment.tell(first, 1)
    experiment.fail(second.id)
    findings = [check.finding for check in experiment.health()]
    assert "1 of 2 outcomes is missing, of all options alike." in findings


def test_one_item_is_in_the_singular(sqlite_url: str) -> None:
    options = {"items": 1, "block": 2}
    with Experiment.create(
        sqlite_url, "only", ["old", "new"], bounds=(0, 1), policy_options=options
    ) as experiment:
        experiment.tell_many((each.id, each.arm) for each in experiment.ask(1))
        found, headline = experiment.recommendation(), Watch(experiment).headline()
    best = "'new' is the best of 2 options over the only item. No option was ruled out before it "
    assert found.statement == f"{best}was judged, so this is exact."
    assert headline.endswith("exactly: no option was ruled out before the only item was judged.")
    assert found.assumptions[0].startswith("The items, 1 in all, come in a random order")
