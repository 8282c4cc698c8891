"""Worlds of a plan: leads are the gap, drifts move as declared, means stay within the bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bestarm import Problem, design
from bestarm.environments.baselines import Constant, Moving
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.planning import AssumedWorld, Drift, ExperimentPlan, PlanRequest, plan_experiment
from bestarm.planning.request import scales
from bestarm.planning.worlds import PlannedWorld, hardest_parameter


def gaps(problem: Problem, theta: np.ndarray) -> np.ndarray:
    values = problem.target @ theta
    return np.sort(values.max() - np.delete(values, values.argmax()))


@pytest.mark.parametrize("seed", range(4))
def test_the_lead_is_exactly_the_gap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem(rng.normal(size=(9, 3)) + 4, rng.normal(size=(7, 3)))
    assert gaps(problem, hardest_parameter(problem, 0.03))[0] == pytest.approx(0.03, rel=1e-9)


def test_unrelated_options_are_all_as_close_as_the_gap() -> None:
    theta = hardest_parameter(Problem(np.eye(6)), 0.2)
    assert gaps(Problem(np.eye(6)), theta) == pytest.approx(np.full(5, 0.2))
    assert theta.argmax() == 0  # all are equally hard, so the first


def test_the_others_are_as_close_as_a_general_solver_brings_them() -> None:
    import cvxpy  # noqa: PLC0415  loads slowly

    cp: Any = cvxpy  # its annotations stop half way
    rng = np.random.default_rng(3)
    problem = Problem(rng.normal(size=(8, 3)))
    theta = hardest_parameter(problem, 1.0)
    best = int((problem.target @ theta).argmax())
    contrasts = problem.target[best] - np.delete(problem.target, best, axis=0)
    free = cp.Variable(3)
    objective = cp.Minimize(cp.sum_squares(contrasts @ free))
    least = cp.Problem(objective, [contrasts @ free >= 1]).solve(solver="CLARABEL")
    assert np.sum((contrasts @ theta) ** 2) == pytest.approx(least, rel=1e-5)


def test_of_all_that_can_be_the_best_the_hardest_is() -> None:
    # On a line only the ends can lead; the lonely one leads by the gap with the flatter slope.
    problem = Problem([[0.0], [1.0], [5.0], [9.0]])
    theta = hardest_parameter(problem, 0.5)
    assert theta == pytest.approx([0.5 / 4])
    other = -theta * 0.5 / gaps(problem, -theta)[0]
    assert design.complexity(problem, theta).value > design.complexity(problem, other).value


def test_how_features_are_written_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    features, mix = rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    first, second = Problem(features), Problem(features @ mix + [3, -2, 50])
    one, two = hardest_parameter(first, 0.1), hardest_parameter(second, 0.1)
    assert gaps(second, two) == pytest.approx(gaps(first, one), rel=1e-6)


def test_many_targets_are_planned_for_as_well() -> None:
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(10, 4)), rng.normal(size=(300, 4)))
    assert gaps(problem, hardest_parameter(problem, 0.1))[0] == pytest.approx(0.1)


ROUNDS = 400_000
LEVEL, SIZE, PERIOD = 0.5, 0.75, 200.0
GAP = 0.4  # of the best to the two others: the base rate lies 0.2 below the level


def world_of(drift: Drift, **given: Any) -> tuple[Any, AssumedWorld]:
    problem = Problem(np.eye(3), noise=0.1, baseline=2.0)
    request = PlanRequest(problem, gap=GAP, base=LEVEL - GAP / 2, drift=drift, **given)
    return PlannedWorld(request, drift, GAP).make()


def levels(drift: Drift, *, seed: int = 0, rounds: int = ROUNDS, **given: Any) -> Array:
    """The middle of the arm means in every round."""
    world, _ = world_of(drift, **given)
    assert isinstance(world.baseline, Moving)
    chunks, path = world.baseline.chunks(np.random.default_rng(seed)), np.empty(0)
    while len(path) < rounds:
        path = np.concatenate([path, next(chunks)])
    means = world.problem(0.1).source @ world.theta
    return np.asarray(path[:rounds] + (means.max() + means.min()) / 2)


@pytest.mark.parametrize(("period", "given"), [(PERIOD, {}), (None, {}), (None, {"per_day": 365})])
def test_a_sine_is_a_wave_of_its_size_and_period(
    period: float | None, given: dict[str, Any]
) -> None:
    drift = Drift("sine", size=SIZE, period=period)
    rounds = period or given.get("per_day", 1000)
    wave = LEVEL + SIZE * np.sin(2 * math.pi * np.arange(1, ROUNDS + 1) / rounds)
    np.testing.assert_allclose(levels(drift, **given), wave, atol=1e-8)
    assert world_of(drift, **given)[1].period == rounds


def test_a_walk_begins_at_its_level_and_moves_by_its_size_within_a_period() -> None:
    """Steps of a walk add up: their variance over a period is the square of the size."""
    path = levels(Drift("walk", size=SIZE, period=10_000.0))
    step = SIZE / math.sqrt(10_000)
    assert abs(path[0] - LEVEL) < 5 * step
    assert np.abs(path - LEVEL).max() <= SIZE * (1 + 1e-12)
    assert np.diff(path).std() == pytest.approx(step, rel=0.02)  # walls turn few of them
    # A hundredth of a period moves a walk by a tenth of its size; ± 4 standard errors of 20.
    slow = Drift("walk", size=SIZE, period=1e6)
    paths = [levels(slow, seed=seed, rounds=10_000) for seed in range(20)]
    moved = np.std([path[-1] - LEVEL for path in paths])
    assert 0.4 < moved / (SIZE / 10) < 1.6


def test_switches_jump_between_two_levels_once_per_period() -> None:
    path = levels(Drift("switches", size=SIZE, period=PERIOD))
    np.testing.assert_allclose(np.unique(path.round(9)), [LEVEL - SIZE, LEVEL + SIZE])
    jumps = np.count_nonzero(np.diff(path))
    expected = ROUNDS / PERIOD
    assert abs(jumps - expected) < 5 * math.sqrt(expected)  # a binomial number
    lengths = np.diff(np.flatnonzero(np.diff(path)))
    assert lengths.std() == pytest.approx(PERIOD, rel=0.1)  # at random times: geometric ones


def test_people_have_a_level_of_their_own_in_every_round() -> None:
    path = levels(Drift("people", size=SIZE))
    assert len(np.unique(path)) > 0.99 * ROUNDS
    assert np.abs(path - LEVEL).max() <= SIZE * (1 + 1e-12)
    apart = path - path.mean()
    assert abs((apart[1:] @ apart[:-1]) / (apart @ apart)) < 5 / math.sqrt(ROUNDS)


@pytest.mark.parametrize(
    ("kind", "close"), [("sine", 1e-2), ("people", 1e-2), ("switches", 0.2), ("walk", 0.2)]
)
def test_the_places_that_noise_is_averaged_over_are_those_of_the_path(
    kind: str, close: float
) -> None:
    """Compared by quantiles, or by shares where there are two places; slow paths vary more."""
    drift = Drift(kind, size=SIZE, period=PERIOD)
    path, places = levels(drift) - LEVEL, drift.places(SIZE)
    assert np.abs(places).max() == pytest.approx(np.abs(path).max(), rel=0.01)
    assert places.std() == pytest.approx(path.std(), rel=close)
    if kind == "switches":
        assert (path > 0).mean() == pytest.approx((places > 0).mean(), abs=close)
        return
    quantiles = np.linspace(0.05, 0.95, 19)
    found, declared = np.quantile(path, quantiles), np.quantile(places, quantiles)
    np.testing.assert_allclose(found, declared, atol=close * SIZE)


@pytest.mark.parametrize("kind", ["sine", "walk", "switches", "people"])
def test_by_default_a_drift_goes_as_far_as_the_declared_baseline_allows(kind: str) -> None:
    _, assumed = world_of(Drift(kind))
    assert assumed.drift == kind
    assert (assumed.level, assumed.size) == pytest.approx((LEVEL, 2.0 - LEVEL))
    path = levels(Drift(kind, period=PERIOD))
    assert np.abs(path).max() == pytest.approx(2.0, rel=0.01)
    assert np.abs(path - LEVEL).max() == pytest.approx(1.5, rel=0.01)


def test_none_stays_at_its_level() -> None:
    world, assumed = world_of(Drift("none"))
    means = world.problem(0.1).source @ world.theta
    assert isinstance(world.baseline, Constant)
    assert world.baseline.level == pytest.approx(LEVEL - (means.max() + means.min()) / 2)
    assert (assumed.drift, assumed.size) == ("none", 0.0)
    assert assumed.level == pytest.approx(LEVEL)


# No combination of these two features is the same for all three arms.
FEATURES = np.array([[1, 0], [0, 1], [0.6, 0.7]])
UNIT = (0.0, 1.0)


def requested(
    source: Any = FEATURES, *, bounds: tuple[float, float] = UNIT, **given: Any
) -> PlanRequest:
    noise, baseline = scales(bounds, given.pop("noise", None), given.pop("baseline", None))
    problem = Problem(source, delta=0.05, noise=noise, baseline=baseline)
    given.setdefault("gap", 0.1)
    return PlanRequest(problem, bounds=bounds, policies=["anytime"], runs=40, **given)


def bounded_world(request: PlanRequest) -> TwoPoint:
    assert request.gap is not None
    world, _ = PlannedWorld(request, request.drifts[0], float(request.gap)).make()
    assert isinstance(world, TwoPoint)
    return world


def contradictions(plan: ExperimentPlan) -> list[str]:
    return [each for each in plan.warnings if "that policies are told" in each]


@pytest.mark.parametrize("drift", ["none", "sine", "walk", "switches"])
def test_without_a_baseline_arms_pay_what_their_features_say(drift: str) -> None:
    request = requested(bounds=(-1.0, 1.0), baseline=0.0, drift=drift)
    world = bounded_world(request)
    assert world.baseline == Constant(0.0)
    plan = plan_experiment(request)
    (assumed,) = plan.scenarios
    # a − b and a − c are both 0.1 at θ = (−0.1, −0.2) alone, where means are −0.1, −0.2, −0.2.
    assert assumed.theta == pytest.approx((-0.1, -0.2))
    assert (assumed.drift, assumed.size, assumed.baseline) == ("none", 0.0, 0.0)
    assert assumed.level == pytest.approx(-0.15)
    # The reward ±1 of an arm with mean m has variance 1 − m².
    assert assumed.noise**2 == pytest.approx(1 - 0.2**2)
    words = assumed.describe("outcomes", rates=False)
    assert words.endswith("stays as it is; arm means lie about -0.15, with a baseline of 0")
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


@pytest.mark.parametrize(("base", "middle"), [(None, 0.5), (0.25, 0.3)])
def test_features_that_can_express_the_level_do(base: float | None, middle: float) -> None:
    """As options without features can: each has a mean of its own."""
    request = requested(np.eye(3), baseline=0.0, base=base)
    world = bounded_world(request)
    means = np.eye(3) @ world.theta
    assert world.baseline == Constant(0.0)
    assert np.sort(means) == pytest.approx([middle - 0.05, middle - 0.05, middle + 0.05])
    plan = plan_experiment(request)
    assert plan.scenarios[0].baseline == 0.0
    assert plan.scenarios[0].level == pytest.approx(middle)
    assert contradictions(plan) == []
    assert plan.forecasts[0].wrong <= 7


@pytest.mark.parametrize("bounds", [UNIT, None])
def test_a_base_rate_beyond_a_baseline_of_zero_is_a_contradiction(bounds: Any) -> None:
    """What counts is what is added to x·θ: means are −0.1, −0.2 and −0.2 without it."""
    problem = Problem(FEATURES, noise=0.5, baseline=0)
    request = PlanRequest(problem, gap=0.1, bounds=bounds, base=0.45, runs=1, max_pulls=50)
    plan = plan_experiment(request)
    assert plan.scenarios[0].baseline == pytest.approx(0.65)
    (sentence,) = contradictions(plan)
    assert "the baseline reaches 0.65, beyond the 0 that" in sentence


def test_a_drift_beyond_a_baseline_of_zero_is_a_contradiction() -> None:
    wave = Drift("sine", size=0.2)
    plan = plan_experiment(requested(np.eye(3), baseline=0.0, drift=wave, max_pulls=50))
    assert (plan.scenarios[0].drift, plan.scenarios[0].size) == ("sine", 0.2)
    (sentence,) = contradictions(plan)
    assert "the baseline reaches 0.2, beyond the 0 that" in sentence


@pytest.mark.parametrize(
    ("baseline", "base", "size"),
    [
        (None, None, 0.225),  # half of the way to the bounds, as that is less
        (0.6, None, 0.1),  # 0.5 of the 0.6 is the level
        (0.2, 0.05, 0.025),
        (0.11, 0.05, 0.01),
    ],
)
def test_a_declared_baseline_limits_the_drift(
    baseline: float | None, base: float | None, size: float
) -> None:
    plan = plan_experiment(requested(baseline=baseline, base=base, max_pulls=50))
    assert plan.scenarios[0].size == pytest.approx(size)
    assert contradictions(plan) == []


def test_scales_that_contradict_the_bounds_are_listed() -> None:
    plan = plan_experiment(requested(baseline=0.1, noise=0.2, max_pulls=50))
    assert (plan.scenarios[0].drift, plan.scenarios[0].size) == ("none", 0.0)
    baseline, noise = contradictions(plan)
    assert "the baseline reaches 0.5, beyond the 0.1 that" in baseline
    # Arms at 0.45 and 0.55 have variance 0.2475.
    assert f"the noise is {0.2475**0.5:.4g}, beyond the 0.2 that" in noise
