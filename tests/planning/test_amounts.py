"""Rates and leads as people write them mean one number each, or are refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bestarm import Problem
from bestarm.errors import InvalidInputError
from bestarm.planning import PlanRequest, plan_experiment
from bestarm.planning.amounts import describe_lift, in_percent, read_lead, read_rate
from bestarm.planning.request import read_request
from bestarm.planning.worlds import PlannedWorld

PROBLEM = Problem(np.eye(3), noise=0.5, source_labels=["old", "new", "bold"])


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("2 %", 0.02),
        ("2%", 0.02),
        (" 0.02 ", 0.02),
        ("2e-2", 0.02),
        ("2.5\N{NO-BREAK SPACE}%", 0.025),
        ("-3", -3.0),
        ("−3", -3.0),
        ("1,200", 1200.0),
        ("1.2k", 1200.0),
        (0.02, 0.02),
        ("200 %", 2.0),
    ],
)
def test_rates(text: Any, rate: float) -> None:
    assert read_rate(text, "base") == rate


@pytest.mark.parametrize(
    ("text", "lead"),
    [
        *((text, 0.002) for text in ("+10 %", "+10%", "+ 10 %", "0.2 pp", "+0.2 pp")),
        *((text, 0.002) for text in ("0.002", "+0.002", ".002", 0.002)),
        ("+300 %", 0.06),
        ("+1,000 %", 0.2),
        ("0.002k", 2.0),
    ],
)
def test_leads_over_two_percent(text: Any, lead: float) -> None:
    assert read_lead(text, 0.02) == pytest.approx(lead, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "must be a lead like") for text in ("+-3", "-3 %", "ten", "", "+10 % pp")),
        *((text, "must be a lead like") for text in ("1,5 pp", "1_0")),
        *((text, "must be positive") for text in ("0 %", "+0", -1)),
        ("10 %", "could mean a share of the base rate or percentage points"),
    ],
)
def test_what_is_not_a_lead(text: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        read_lead(text, 0.02)
    assert caught.value.field == "gap"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("base", "words"), [(None, "needs a base rate"), (-1.0, "must then be pos")]
)
def test_a_share_of_no_base_rate(base: float | None, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        read_lead("+10 %", base)
    assert caught.value.field == "base"


@pytest.mark.parametrize(
    "text", ["two", "2 %%", "%", "2,5 %", "+2 %", "1e9999", True, float("nan")]
)
def test_what_is_not_a_rate(text: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_rate(text, "base")
    assert caught.value.field == "base"
    assert caught.value.remedy == "Write '2.5 %'." or text != "2,5 %"


def test_words() -> None:
    assert describe_lift(0.0028, 0.02, rates=True) == "+14 % (2 % → 2.28 %)"
    assert describe_lift(0.3, 3.0, rates=False) == "+10 % (3 → 3.3)"
    assert describe_lift(0.5, -1.0, rates=False) == "+0.5 (-1 → -0.5)"
    assert in_percent(0.0) == "0 %"


def means(request: PlanRequest) -> np.ndarray:
    """What the options pay, at the middle of the drift."""
    assert request.gap is not None
    _, assumed = PlannedWorld(request, request.drifts[0], float(request.gap)).make()
    values = request.problem.source @ np.array(assumed.theta)
    return np.asarray(values - (values.max() + values.min()) / 2 + assumed.level)


@pytest.mark.parametrize("baseline", [1.0, 0.0])
def test_the_base_rate_is_that_of_all_but_the_best(baseline: float) -> None:
    problem = PROBLEM.with_baseline(baseline)
    request = PlanRequest(problem, gap="+10 %", base="2 %", bounds=(0, 1))
    assert np.sort(means(request)) == pytest.approx([0.02, 0.02, 0.022])


def test_with_features_the_base_rate_is_that_of_the_next_best() -> None:
    features = np.array([[1.0, 0.0], [0.6, 0.6], [0.0, 1.0], [-0.5, 0.2]])
    request = PlanRequest(Problem(features, noise=0.5), gap=0.01, base=0.2, bounds=(0, 1))
    *_, second, best = np.sort(means(request))
    assert (second, best) == (pytest.approx(0.2), pytest.approx(0.21))


def test_a_plan_for_a_lift_in_percent_is_the_plan_for_its_lead() -> None:
    document = {"options": ["a", "b"], "delta": 0.05, "runs": 3, "policies": ["anytime"]}
    relative = read_request(document | {"gap": "+50 %", "base": "20 %"})
    assert (relative.bounds, relative.problem.noise) == ((0, 1), 0.5)  # yes and no
    points = read_request(document | {"gap": "10 pp", "base": 0.2, "bounds": [0, 1]})
    plan = plan_experiment(relative)
    assert plan.forecasts == plan_experiment(points).forecasts
    assert plan.scenarios[0].base == 0.2
    words = plan.scenarios[0].describe("outcomes", rates=plan.bounds == (0, 1))
    assert "'a' leads all others by 10.0 points, +50 % (20 % → 30 %) of the base rate;" in words
    # Outcomes that are not yes and no have a noise instead.
    assert read_request(document | {"gap": "+10 %", "base": 50, "noise": 20}).bounds is None


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"base": "200 %", "gap": "+10 %"}, "base", "must lie between the bounds 0 and 1; got 2"),
        ({"base": 0, "gap": 0.1}, "base", "must lie between the bounds 0 and 1; got 0"),
        ({"base": "60 %", "gap": "+80 %"}, "gap", "makes 1.08, above the highest outcome, 1"),
        ({"gap": "+10 %"}, "base", "needs a base rate"),
    ],
)
def test_what_does_not_fit_together(options: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        plan_experiment(PlanRequest(PROBLEM, bounds=(0, 1), **options))
    assert caught.value.field == field
    assert caught.value.remedy
