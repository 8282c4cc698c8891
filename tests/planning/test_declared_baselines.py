"""A plan for bounded rewards simulates the baseline that was declared, or says where it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bestarm import Problem
from bestarm.environments.baselines import Constant
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError
from bestarm.planning import Drift, ExperimentPlan, PlanRequest, Scenario, plan_experiment
from bestarm.planning.request import scales
from bestarm.planning.worlds import ScenarioWorld

# No combination of these two features is the same for all three arms.
FEATURES = np.array([[1, 0], [0, 1], [0.6, 0.7]])
UNIT = (0.0, 1.0)


def requested(
    source: Any = FEATURES, *, bounds: tuple[float, float] = UNIT, **given: Any
) -> PlanRequest:
    noise, baseline = scales(bounds, given.pop("noise", None), given.pop("baseline", None))
    problem = Problem(source, delta=0.05, noise=noise, baseline=baseline)
    if "scenarios" not in given:
        given.setdefault("gap", 0.1)
    return PlanRequest(problem, bounds=bounds, policies=["anytime"], runs=40, **given)


def world_of(request: PlanRequest) -> TwoPoint:
    world, _ = ScenarioWorld(request, request.wanted_scenarios()[0]).make()
    assert isinstance(world, TwoPoint)
    return world


def contradictions(plan: ExperimentPlan) -> list[str]:
    return [each for each in plan.warnings if "that policies are told" in each]


@pytest.mark.parametrize("drift", ["none", "sine", "walk", "switches"])
def test_without_a_baseline_arms_pay_what_their_features_say(drift: str) -> None:
    request = requested(bounds=(-1.0, 1.0), baseline=0.0, drift=drift)
    world = world_of(request)
    assert world.baseline == Constant(0.0)
    plan = plan_experiment(request)
    (assumed,) = plan.scenarios
    # a − b and a − c are both 0.1 at θ = (−0.1, −0.2) alone, where means are −0.1, −0.2, −0.2.
    assert assumed.theta == pytest.approx((-0.1, -0.2))
    assert (assumed.drift, assumed.size, assumed.baseline) == ("none", 0.0, 0.0)
    assert assumed.level == pytest.approx(-0.15)
    # The reward ±1 of an arm with mean m has variance 1 − m².
    assert assumed.noise**2 == pytest.approx(1 - 0.2**2)
    assert "the baseline stays at 0, and arm means lie about -0.15" in assumed.words("outcomes")
    assert contradictions(plan) == []
    # δ is 0.05: more than 7 of 40 wrong have probability below 0.001.
    assert plan.forecasts[0].wrong <= 7


@pytest.mark.parametrize("drift", ["none", "sine"])
def test_without_a_baseline_means_that_leave_the_bounds_are_refused(drift: str) -> None:
    with pytest.raises(
        InvalidInputError, match=r"about -0\.15, as no baseline is declared"
    ) as caught:
        plan_experiment(requested(baseline=0.0, drift=drift))
    assert caught.value.field == "baseline"
    assert "Declare a baseline" in caught.value.remedy


@pytest.mark.parametrize(("level", "middle"), [(None, 0.5), (0.3, 0.3)])
def test_features_that_can_express_the_level_do(level: float | None, middle: float) -> None:
    """As options without features can: each has a mean of its own."""
    request = requested(np.eye(3), baseline=0.0, level=level)
    world = world_of(request)
    means = np.eye(3) @ world.theta
    assert world.baseline == Constant(0.0)
    assert np.sort(means) == pytest.approx([middle - 0.05, middle - 0.05, middle + 0.05])
    plan = plan_experiment(request)
    assert (plan.scenarios[0].baseline, plan.scenarios[0].level) == (0.0, middle)
    assert contradictions(plan) == []
    assert plan.forecasts[0].wrong <= 7


def test_a_parameter_in_numbers_is_not_moved() -> None:
    given = [Scenario("mine", theta=(0.4, 0.3), drift=Drift("none"))]
    world = world_of(requested(baseline=0.0, scenarios=given))
    assert (world.theta.tolist(), world.baseline) == ([0.4, 0.3], Constant(0.0))
    given = [Scenario("mine", theta=(0.4, 0.3, 0.2), drift=Drift("none"))]
    world = world_of(requested(np.eye(3), baseline=0.0, scenarios=given))
    assert (world.theta.tolist(), world.baseline) == ([0.4, 0.3, 0.2], Constant(0.0))


@pytest.mark.parametrize("bounds", [UNIT, None])
def test_a_level_beyond_a_baseline_of_zero_is_a_contradiction(bounds: Any) -> None:
    """The level is 0 here as well: what counts is what is added to x·θ."""
    problem = Problem(FEATURES, noise=0.5, baseline=0)
    level = 0.0 if bounds is None else 0.5
    request = PlanRequest(
        problem, gap=0.1, bounds=bounds, level=level, runs=1, policies=["anytime"], max_pulls=50
    )
    plan = plan_experiment(request)
    assert plan.scenarios[0].baseline == pytest.approx(level + 0.15)
    (said,) = contradictions(plan)
    assert f"the baseline reaches {level + 0.15:.4g}, beyond the 0 that" in said


def test_a_drift_beyond_a_baseline_of_zero_is_a_contradiction() -> None:
    wave = Drift("sine", size=0.2)
    plan = plan_experiment(requested(np.eye(3), baseline=0.0, drift=wave, max_pulls=50))
    assert (plan.scenarios[0].drift, plan.scenarios[0].size) == ("sine", 0.2)
    (said,) = contradictions(plan)
    assert "the baseline reaches 0.2, beyond the 0 that" in said


@pytest.mark.parametrize(
    ("baseline", "level", "size"),
    [
        (None, None, 0.225),  # half of the way to the bounds, as that is less
        (0.6, None, 0.1),  # 0.5 of the 0.6 is the level
        (0.2, 0.1, 0.025),
        (0.11, 0.1, 0.01),
    ],
)
def test_a_declared_baseline_limits_the_drift(
    baseline: float | None, level: float | None, size: float
) -> None:
    plan = plan_experiment(requested(baseline=baseline, level=level, max_pulls=50))
    assert plan.scenarios[0].size == pytest.approx(size)
    assert contradictions(plan) == []


def test_scales_that_contradict_the_bounds_are_listed() -> None:
    plan = plan_experiment(requested(baseline=0.1, noise=0.2, max_pulls=50))
    assert (plan.scenarios[0].drift, plan.scenarios[0].size) == ("none", 0.0)
    baseline, noise = contradictions(plan)
    assert "the baseline reaches 0.5, beyond the 0.1 that" in baseline
    # Arms at 0.45 and 0.55 have variance 0.2475.
    assert f"the noise is {0.2475**0.5:.4g}, beyond the 0.2 that" in noise
