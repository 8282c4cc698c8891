"""A plan's figures are those of the simulation, and it says how far they go."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from bestarm import SPBAI, AnytimeBAI, Problem, environments, simulate
from bestarm.errors import InvalidInputError
from bestarm.planning import Drift, ExperimentPlan, PlanRequest, Scenario, plan_experiment
from bestarm.planning import plan as planning_module
from bestarm.planning.request import as_scenario
from bestarm.simulation.results import wilson

PROBLEM = Problem(np.eye(3), delta=0.05)
SHARP = partial(SPBAI, design="centered", stability="actual")


@pytest.fixture(scope="module")
def plan() -> ExperimentPlan:
    return plan_experiment(
        PlanRequest(
            PROBLEM, gap=0.4, drift=["none", "sine"], policies=["anytime", "sp-bai-sharp"], runs=30
        )
    )


def test_figures_are_those_of_the_simulation(plan: ExperimentPlan) -> None:
    world = environments.Semiparametric(
        np.eye(3),
        [0.4, 0, 0],
        baseline=environments.baselines.sinusoid(1, offset=-0.2, frequency=2 * math.pi / 1000),
        declared_baseline=1.0,
    )
    results = simulate(SHARP, world, runs=30, delta=0.05)
    (found,) = [f for f in plan.of("sine") if f.policy == "sp-bai-sharp"]
    # θ here is that of the plan but for a constant, which moved into the baseline.
    assert found.pulls.median == pytest.approx(np.median(results.pulls), rel=0.02)
    assert found.pulls.mean == pytest.approx(results.mean_pulls, rel=0.02)
    pulls = found.pulls
    assert pulls.median_interval is not None
    assert pulls.low <= pulls.median_interval[0] <= pulls.median <= pulls.median_interval[1]
    assert found.rounds == pulls
    assert found.error_interval == wilson(found.wrong, 30)
    assert found.ratio == pytest.approx(found.pulls.mean / plan.scenarios[1].lower_bound)


def test_the_bound_is_the_closed_form_of_unrelated_arms(plan: ExperimentPlan) -> None:
    # One best arm and K − 1 tied behind: τ* = (1 + √(K − 1))² / gap².
    tau = (1 + math.sqrt(2)) ** 2 / 0.4**2
    doubt = 0.9 * math.log(0.95 / 0.05)
    for assumed in plan.scenarios:
        assert assumed.complexity == pytest.approx(tau, rel=2e-3)
        assert assumed.lower_bound == pytest.approx(2 * tau * doubt, rel=2e-3)
    assert all(f.ratio is not None and f.ratio > 1 for f in plan.forecasts)


def test_who_makes_the_runs_does_not_matter() -> None:
    request = PlanRequest(
        PROBLEM, gap=0.4, drift=["none", "sine"], policies=["anytime", "sp-bai-sharp"], runs=7
    )
    with ThreadPoolExecutor(3) as pool:
        shared = plan_experiment(request, executor=pool)
    assert shared == plan_experiment(request)


def test_it_goes_through_json_whole(plan: ExperimentPlan) -> None:
    document = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert [f["policy"] for f in document["forecasts"]] == ["anytime", "sp-bai-sharp"] * 2
    assert document["forecasts"][0]["days"] is None
    assert document["scenarios"][1]["drift"] == "sine"
    assert document["interrupted"] is False


def test_an_interruption_gives_what_was_finished_and_says_so() -> None:
    calls: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        calls.append((done, total))
        if done == 25:
            raise KeyboardInterrupt

    policies = ["sp-bai-sharp", "sp-bai", "sbe"]
    cut = plan_experiment(PlanRequest(PROBLEM, gap=0.5, policies=policies, runs=20), progress=stop)
    assert cut.interrupted
    assert [(f.policy, f.runs) for f in cut.forecasts] == [("sp-bai-sharp", 20), ("sp-bai", 5)]
    assert "partial" in cut.warnings[0]
    assert calls == [(i, 60) for i in range(26)]
    whole = plan_experiment(PlanRequest(PROBLEM, gap=0.5, policies=policies, runs=20))
    assert cut.forecasts[0] == whole.forecasts[0]


def test_capped_experiments_are_counted_and_named() -> None:
    short = plan_experiment(
        PlanRequest(PROBLEM, gap=0.1, policies=["anytime"], runs=5, max_pulls=300)
    )
    (found,) = short.forecasts
    assert (found.capped, found.wrong, found.pulls.median) == (5, 0, 300)
    assert any("had no winner in 5 of 5" in sentence for sentence in short.warnings)


@pytest.mark.parametrize("gap", [1e-4, 1e-12, 1e-90])
def test_a_gap_that_no_simulation_can_reach_is_refused_before_any(
    monkeypatch: pytest.MonkeyPatch, gap: float
) -> None:
    """And what is cut is not: the pulls to come are known beforehand then."""

    def simulated(*_: object, **__: object) -> None:
        raise AssertionError("simulated")

    with monkeypatch.context() as patched:
        patched.setattr(planning_module, "simulate", simulated)
        with pytest.raises(InvalidInputError, match="outcomes by any rule") as caught:
            plan_experiment(PlanRequest(PROBLEM, gap=gap))
        assert caught.value.field == "gap"
        assert "`max_pulls`" in caught.value.remedy
        with pytest.raises(InvalidInputError, match="the limit is"):
            plan_experiment(PlanRequest(PROBLEM, gap=gap, max_pulls=10**10))
    plan = plan_experiment(
        PlanRequest(PROBLEM, gap=gap, max_pulls=200, runs=2, policies=["anytime"])
    )
    assert plan.forecasts[0].capped == 2


def test_fewer_experiments_or_policies_are_fewer_pulls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit is on all of them together: that of 30 experiments here."""
    known = plan_experiment(PlanRequest(PROBLEM, gap=0.5, runs=1, policies=["sbe"], max_pulls=1))
    bound = known.scenarios[0].lower_bound
    monkeypatch.setattr(planning_module, "_MOST", 30.5 * bound)
    for runs, policies in ((30, ["sbe"]), (15, ["sbe", "rage"])):
        plan_experiment(PlanRequest(PROBLEM, gap=0.5, runs=runs, policies=policies))
        with pytest.raises(InvalidInputError, match="the limit is"):
            plan_experiment(PlanRequest(PROBLEM, gap=0.5, runs=runs + 1, policies=policies))


def test_a_policy_that_is_told_too_little_is_reported_wrong() -> None:
    plan = plan_experiment(
        PlanRequest(
            Problem(np.eye(2), delta=0.05),
            scenarios=[Scenario("jumps", gap=0.2, drift=Drift("switches", size=30.0, period=400))],
            policies=["sp-bai"],
            runs=60,
        )
    )
    (found,) = plan.forecasts
    assert found.wrong > 10
    assert any("more often than δ" in sentence for sentence in plan.warnings)
    assert any("beyond the 1 that policies are told" in sentence for sentence in plan.warnings)


def test_yes_and_no_are_planned_at_their_level() -> None:
    problem = Problem(np.eye(2), delta=0.1, noise=0.5)
    scenarios = [
        Scenario("half", gap=0.1, level=0.5, drift=Drift("none")),
        Scenario("rare", gap=0.1, level=0.15, drift=Drift("none")),
        Scenario("wave", gap=0.1, level=0.5, drift=Drift("sine", size=0.4)),
    ]
    plan = plan_experiment(
        PlanRequest(problem, scenarios=scenarios, bounds=(0, 1), policies=["anytime"], runs=24)
    )
    half, rare, _ = plan.forecasts
    # p(1 − p) is 0.2475 at the arms 0.45 and 0.55, and at least 0.09 at 0.1 and 0.2. Over a wave
    # 1/(p(1 − p)) is averaged, which for p = ½ + ½s is 4/(1 − s²).
    waves = 0.4 * np.sin(np.linspace(0, 2 * np.pi, 40_001))
    learnt = np.mean(4 / (1 - (2 * (np.abs(waves) + 0.05)) ** 2))
    assert plan.scenarios[0].noise ** 2 == pytest.approx(0.2475)
    assert plan.scenarios[1].noise ** 2 == pytest.approx(0.09)
    assert plan.scenarios[2].noise ** -2 == pytest.approx(learnt, rel=1e-3)
    assert rare.pulls.mean < 0.75 * half.pulls.mean
    assert sum(f.wrong for f in plan.forecasts) <= 5  # δ is 0.1: at most 7 of 72 expected


def test_the_anytime_rule_is_told_the_bounds() -> None:
    told = []

    def method(problem: Problem, *, bounds: object = None, seed: int) -> AnytimeBAI:
        told.append(bounds)
        return AnytimeBAI(problem, bounds=(0, 1), seed=seed)

    plan_experiment(
        PlanRequest(
            Problem(np.eye(2)),
            gap=0.6,
            bounds=(0, 1),
            policies={"mine": method},
            runs=1,
            drift="none",
        )
    )
    assert set(told) == {(0.0, 1.0)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either a gap or scenarios"),
        ({"gap": 0.1, "scenarios": [Scenario("a", gap=1)]}, "either a gap or scenarios"),
        ({"gap": 0.0}, "`gap` must be positive"),
        ({"gap": math.nan}, "`gap` must be a finite"),
        ({"gap": 1e300}, "too large or too small"),
        ({"gap": 1e-300}, "too large or too small"),
        ({"gap": 0.1, "level": 1e308}, "`level` implies rewards of size 1e.308"),
        ({"gap": 0.1, "level": -1e308}, "`level` implies rewards of size 1e.308"),
        ({"gap": 0.1, "policies": ["best"]}, "`policies` must be one of .*; got 'best'"),
        ({"gap": 0.1, "policies": []}, "at least one policy"),
        ({"gap": 0.1, "drift": "tide"}, "`drift` must be one of"),
        ({"gap": 0.1, "drift": ["sine", "sine"]}, "a different name"),
        ({"gap": 0.1, "per_day": -1}, "`per_day` must be positive"),
        ({"gap": 0.1, "runs": 0}, "`runs` must be a whole number"),
        ({"gap": 2.0, "bounds": (0, 1)}, "would leave the bounds"),
        ({"gap": 0.1, "bounds": (0, 1), "level": 1.5}, "would leave the bounds"),
        ({"gap": 0.1, "bounds": (1, 0)}, "the lower one first"),
        (
            {"scenarios": [Scenario("a", gap=0.1, drift=Drift(size=0.46))], "bounds": (0, 1)},
            "leaves ±0.45",
        ),
        ({"scenarios": [Scenario("a", gap=0.1, noise=2)], "bounds": (0, 1)}, "follows from"),
        ({"scenarios": [Scenario("a", theta=(1, 1, 0))]}, "equally good"),
        ({"scenarios": [Scenario("a", theta=(1, 1))]}, "theta"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_a_sentence(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        plan_experiment(PlanRequest(PROBLEM, **arguments))


@pytest.mark.parametrize(("field", "value"), [("noise", 1e200), ("baseline", 1e200)])
def test_scales_too_large_to_compute_with_are_refused(field: str, value: float) -> None:
    scales: dict[str, Any] = {field: value}
    with pytest.raises(InvalidInputError, match="too large or too small") as refused:
        plan_experiment(PlanRequest(Problem(np.eye(2), **scales), gap=0.3))
    assert (refused.value.field, refused.value.value) == (field, value)
    assert refused.value.remedy


@pytest.mark.parametrize("field", ["size", "theta"])
def test_assumptions_too_large_to_compute_with_are_refused(field: str) -> None:
    with pytest.raises(InvalidInputError, match="too large or too small") as refused:
        Drift(size=1e200) if field == "size" else Scenario("a", theta=(0.0, -1e200))
    assert refused.value.field == field


def test_small_and_absent_levels_can_be_computed_with() -> None:
    assert Scenario("a", gap=1.0, level=0.0).level == 0.0
    assert Scenario("a", gap=1.0, level=1e-300).level == 1e-300
    assert Scenario("a", theta=(0.0, 1e-300)).theta == (0.0, 1e-300)
    PlanRequest(Problem(np.eye(2), baseline=0), gap=0.3)


def test_a_scenario_from_a_document() -> None:
    document = {"name": "x", "theta": [1, 0, 0.5], "drift": {"kind": "walk", "size": 2}}
    assert as_scenario(document, name="1") == Scenario(
        "x", theta=(1.0, 0.0, 0.5), drift=Drift("walk", size=2)
    )
    assert as_scenario({"gap": 1, "drift": "none"}, name="1").name == "1"
    with pytest.raises(InvalidInputError, match="Unknown key 'gaps'"):
        as_scenario({"gaps": 1}, name="1")
    with pytest.raises(InvalidInputError, match="Unknown key 'speed'"):
        as_scenario({"gap": 1, "drift": {"speed": 1}}, name="1")
    with pytest.raises(InvalidInputError, match="leave `gap` out"):
        as_scenario({"gap": 1, "theta": [1, 0, 0]}, name="1")


def test_days_and_years() -> None:
    plan = plan_experiment(
        PlanRequest(PROBLEM, gap=0.5, policies=["sp-bai-sharp"], runs=5, per_day=2)
    )
    (found,) = plan.forecasts
    median = found.rounds.median
    assert plan.days(median) == median / 2
    assert plan.to_dict()["forecasts"][0]["days"]["median"] == median / 2
    assert plan.scenarios[0].period == 2
    assert any("years" in sentence for sentence in plan.warnings) == (median / 2 > 365)


def test_an_experiment_that_dropped_the_best_of_tied_others_does_not_count_as_a_success() -> None:
    def blind(problem: Problem, *, max_pulls: int = 0, seed: int) -> AnytimeBAI:
        """Told a noise far too small, so that it drops the best soon and has ties left."""
        small = Problem(problem.source, delta=0.4, noise=0.02, baseline=0.02)
        return AnytimeBAI(small, max_pulls=max_pulls, seed=seed)

    plan = plan_experiment(
        PlanRequest(
            Problem(np.eye(6), delta=0.4),
            gap=0.01,
            drift="none",
            policies={"blind": blind},
            runs=15,
            max_pulls=20_000,
        )
    )
    (found,) = plan.forecasts
    assert found.astray > 0
    assert found.pulls.most == 20_000
    assert any(f"In {found.astray} of them" in sentence for sentence in plan.warnings)


SOARE = [*np.eye(3), [np.cos(0.5), np.sin(0.5), 0]]


def still(**given: Any) -> ExperimentPlan:
    problem = Problem(SOARE, noise=1.0, delta=0.1, **given)
    calm = [Scenario("calm", theta=(2, 0, 0), drift=Drift("none"))]
    return plan_experiment(PlanRequest(problem, scenarios=calm, policies=["anytime"], runs=20))


def test_a_plan_says_what_assuming_no_baseline_buys_and_risks() -> None:
    with_one, without = still(baseline=0.5), still(baseline=0)
    (moving,), (calm,) = with_one.scenarios, without.scenarios
    assert (with_one.drifts, without.drifts) == (True, False)
    assert calm.other_bound > 2 * calm.lower_bound
    for found in (with_one.warnings, without.warnings):
        (said,) = [each for each in found if "baseline" in each and "bound from" in each]
        assert "a wrong winner may be named" in said
    bound = f"from {moving.lower_bound:,.0f} outcomes to {moving.other_bound:,.0f}"
    assert any(f"baseline=0 lowers the bound {bound}" in each for each in with_one.warnings)
    bound = f"from {calm.other_bound:,.0f} outcomes to {calm.lower_bound:,.0f}"
    assert any(f"which lowers the bound {bound}" in each for each in without.warnings)
    # In a world without a baseline, the rule that is told so is quicker and right.
    assert calm.drift == "none"
    assert without.forecasts[0].wrong <= 4  # 5 of 20 have probability below 0.05 at worst
    assert without.forecasts[0].pulls.mean < with_one.forecasts[0].pulls.mean / 2


def test_without_features_assuming_no_baseline_saves_nothing(plan: ExperimentPlan) -> None:
    for assumed in plan.scenarios:
        assert assumed.other_bound == pytest.approx(assumed.lower_bound, rel=2e-3)
    assert not any("baseline=0" in each for each in plan.warnings)
    problem = PROBLEM.with_baseline(0)
    calm = plan_experiment(PlanRequest(problem, gap=0.5, policies=["anytime"], runs=3))
    assert any("which saves nothing here" in each for each in calm.warnings)
