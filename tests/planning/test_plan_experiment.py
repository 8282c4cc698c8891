"""A plan's figures are those of the simulation: alone, in blocks and with a window."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bestarm import SPBAI, AnytimeBAI, Problem, environments, simulate
from bestarm.environments.baselines import Independent
from bestarm.errors import InvalidInputError
from bestarm.planning import Drift, ExperimentPlan, PlanRequest, plan_experiment, simulating
from bestarm.planning import plan as planning_module
from bestarm.planning.worlds import PlannedWorld
from bestarm.simulation.results import wilson

PROBLEM = Problem(np.eye(3), delta=0.05)


def planned(problem: Problem, **options: Any) -> ExperimentPlan:
    return plan_experiment(PlanRequest(problem, **options))


@pytest.fixture(scope="module")
def plan() -> ExperimentPlan:
    return planned(
        PROBLEM, gap=0.4, drift=["none", "sine"], policies=["anytime", "sp-bai"], runs=30
    )


def test_figures_are_those_of_the_simulation(plan: ExperimentPlan) -> None:
    world = environments.Semiparametric(
        np.eye(3),
        [0.4, 0, 0],
        baseline=environments.baselines.sinusoid(1, offset=-0.2, frequency=2 * math.pi / 1000),
        declared_baseline=1.0,
    )
    results = simulate(SPBAI, world, runs=30, delta=0.05)
    (found,) = [f for f in plan.of("sine") if f.policy == "sp-bai"]
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
        PROBLEM, gap=0.4, drift=["none", "sine"], policies=["anytime", "sp-bai"], runs=7
    )
    with ThreadPoolExecutor(3) as pool:
        shared = plan_experiment(request, executor=pool)
    assert shared == plan_experiment(request)


def test_an_interruption_gives_what_was_finished_and_says_so() -> None:
    calls: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        calls.append((done, total))
        if done == 25:
            raise KeyboardInterrupt

    policies = ["sp-bai", "sbe", "rage"]
    cut = plan_experiment(PlanRequest(PROBLEM, gap=0.5, policies=policies, runs=20), progress=stop)
    assert (cut.interrupted, cut.timed_out) == (True, False)
    # Six of each came first. Of the next batch, which was not finished, nothing counts.
    assert cut.forecasts == planned(PROBLEM, gap=0.5, policies=policies, runs=6).forecasts
    assert cut.warnings[0] == (
        "Interrupted: the figures are partial, from 6 of 20 simulated experiments."
    )
    assert list(dict.fromkeys(calls)) == [(i, 60) for i in range(26)]


def test_an_interruption_before_there_is_a_figure_of_every_policy() -> None:
    def stop(done: int, _total: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    cut = plan_experiment(
        PlanRequest(PROBLEM, gap=0.5, policies=["sp-bai", "sbe"], runs=20), progress=stop
    )
    assert [(each.policy, each.runs) for each in cut.forecasts] == [("sp-bai", 6)]
    assert "some are missing" in cut.warnings[0]

    def stop_at_once(done: int, _total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan_experiment(PlanRequest(PROBLEM, gap=0.5, runs=20), progress=stop_at_once)


@pytest.mark.parametrize("runs", [1, 5, 6, 7, 96, 100, 2000])
def test_batches_grow_to_all_runs(runs: int) -> None:
    found = simulating.batches(runs)
    assert found == sorted(set(found))
    assert found[-1] == runs
    assert found[0] >= min(runs, 6)


def test_a_time_limit_ends_a_batch_by_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alarm rings in the middle of the second batch, which then does not count."""
    limits: list[float] = []

    def batch(*given: Any, runs: int, **options: Any) -> Any:
        if runs > 6:
            signal.raise_signal(signal.SIGALRM)
        return simulate(*given, runs=runs, **options)

    before = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(signal, "setitimer", lambda _, seconds: limits.append(seconds))
    monkeypatch.setattr(simulating, "simulate", batch)
    request = PlanRequest(PROBLEM, gap=0.5, runs=20)
    cut = plan_experiment(request, seconds=600)
    assert limits == [600, 0]
    assert signal.getsignal(signal.SIGALRM) is before
    assert (cut.interrupted, cut.timed_out) == (False, True)
    assert cut.forecasts == planned(PROBLEM, gap=0.5, runs=6).forecasts
    assert cut.warnings[0] == (
        "The time limit of 600 seconds was reached: the figures are partial, from 6 of 20 "
        "simulated experiments."
    )


def test_a_time_limit_in_a_thread_is_looked_at_between_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0

    def late(done: int, _total: int) -> None:
        nonlocal now
        now = 700.0 if done == 8 else now

    monkeypatch.setattr(simulating, "time", SimpleNamespace(monotonic=lambda: now))
    request = PlanRequest(PROBLEM, gap=0.5, policies=["sp-bai"], runs=20)
    with ThreadPoolExecutor(1) as pool:
        cut = pool.submit(plan_experiment, request, seconds=600, progress=late).result()
    assert (cut.timed_out, cut.forecasts[0].runs) == (True, 6)


def test_a_time_limit_before_there_is_a_figure_is_an_error() -> None:
    """Six runs of millions of pulls take longer than a millisecond on any machine."""
    with pytest.raises(InvalidInputError, match=r"Within 0\.001 seconds too few") as caught:
        plan_experiment(PlanRequest(PROBLEM, gap=0.001, runs=6), seconds=0.001)
    assert (caught.value.field, caught.value.value) == ("seconds", 0.001)
    assert "Allow more seconds" in caught.value.remedy
    with pytest.raises(InvalidInputError, match="`seconds` must be positive"):
        plan_experiment(PlanRequest(PROBLEM, gap=0.5), seconds=0)


@pytest.mark.parametrize("gap", [1e-4, 1e-12, 1e-90])
def test_a_gap_that_no_simulation_can_reach_is_refused_before_any(
    monkeypatch: pytest.MonkeyPatch, gap: float
) -> None:
    """And what is cut is not: the pulls to come are known beforehand then."""

    def simulated(*_: object, **__: object) -> None:
        raise AssertionError("simulated")

    with monkeypatch.context() as patched:
        patched.setattr(simulating, "simulate", simulated)
        with pytest.raises(InvalidInputError, match="outcomes by any rule") as caught:
            planned(PROBLEM, gap=gap)
        assert caught.value.field == "gap"
        assert "`max_pulls`" in caught.value.remedy
        with pytest.raises(InvalidInputError, match="the limit is"):
            planned(PROBLEM, gap=gap, max_pulls=10**10)
    plan = planned(PROBLEM, gap=gap, max_pulls=200, runs=2, policies=["anytime"])
    assert plan.forecasts[0].capped == 2


def test_fewer_experiments_or_policies_are_fewer_pulls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit is on all of them together: that of 30 experiments here."""
    known = planned(PROBLEM, gap=0.5, runs=1, policies=["sbe"], max_pulls=1)
    bound = known.scenarios[0].lower_bound
    monkeypatch.setattr(planning_module, "MOST_PULLS", 30.5 * bound)
    for runs, policies in ((30, ["sbe"]), (15, ["sbe", "rage"])):
        planned(PROBLEM, gap=0.5, runs=runs, policies=policies)
        with pytest.raises(InvalidInputError, match="the limit is"):
            planned(PROBLEM, gap=0.5, runs=runs + 1, policies=policies)


def test_a_policy_that_is_told_too_little_is_reported_wrong() -> None:
    plan = planned(
        Problem(np.eye(2), delta=0.05),
        gap=0.2,
        drift=Drift("switches", size=30.0, period=400),
        policies=["sp-bai"],
        runs=60,
    )
    (found,) = plan.forecasts
    assert found.wrong > 10
    assert any("more often than δ" in sentence for sentence in plan.warnings)
    assert any("beyond the 1 that policies are told" in sentence for sentence in plan.warnings)


def test_yes_and_no_are_planned_at_their_level() -> None:
    problem = Problem(np.eye(2), delta=0.1, noise=0.5)
    plans = [
        planned(problem, gap=0.1, base=base, drift=drift, bounds=(0, 1), runs=24)
        for base, drift in ((0.45, "none"), ("10 %", "none"), (0.45, Drift("sine", size=0.4)))
    ]
    (half,), (rare,), (wave,) = (plan.forecasts for plan in plans)
    still, low, moving = (plan.scenarios[0] for plan in plans)
    # p(1 − p) is 0.2475 at the arms 0.45 and 0.55, and at least 0.09 at 0.1 and 0.2. Over a wave
    # 1/(p(1 − p)) is averaged, which for p = ½ + ½s is 4/(1 − s²).
    waves = 0.4 * np.sin(np.linspace(0, 2 * np.pi, 40_001))
    learnt = np.mean(4 / (1 - (2 * (np.abs(waves) + 0.05)) ** 2))
    assert still.noise**2 == pytest.approx(0.2475)
    assert low.noise**2 == pytest.approx(0.09)
    assert moving.noise**-2 == pytest.approx(learnt, rel=1e-3)
    assert rare.pulls.mean < 0.75 * half.pulls.mean
    # Of 72 runs, each wrong with probability δ = 0.1, more than 16 are with probability 6·10⁻⁴.
    assert half.wrong + rare.wrong + wave.wrong <= 16


def test_the_anytime_rule_is_told_the_bounds() -> None:
    told = []

    def method(problem: Problem, *, bounds: object = None, seed: int) -> AnytimeBAI:
        told.append(bounds)
        return AnytimeBAI(problem, bounds=(0, 1), seed=seed)

    planned(
        Problem(np.eye(2)), gap=0.6, bounds=(0, 1), policies={"mine": method}, runs=1, drift="none"
    )
    assert set(told) == {(0.0, 1.0)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs the smallest lead worth finding. For example gap=0.002"),
        ({"gap": 0.0}, "`gap` must be positive"),
        ({"gap": math.nan}, "`gap` must be a finite"),
        ({"gap": 1e300}, "too large or too small"),
        ({"gap": 0.1, "base": 1e308}, "`base` implies rewards of size 1e.308"),
        ({"gap": 0.1, "policies": ["best"]}, "`policies` must be one of .*; got 'best'"),
        ({"gap": 0.1, "policies": []}, "at least one policy"),
        ({"gap": 0.1, "drift": "tide"}, "`drift` must be one of"),
        ({"gap": 0.1, "drift": ["sine", "sine"]}, "planned for once; got sine, sine"),
        ({"gap": 0.1, "drift": []}, "planned for once; got none at all"),
        ({"gap": 0.1, "per_day": -1}, "`per_day` must be positive"),
        ({"gap": 0.1, "runs": 0}, "`runs` must be a whole number"),
        ({"gap": 2.0, "bounds": (0, 1)}, "would leave the bounds"),
        ({"gap": 0.1, "bounds": (0, 1), "base": 1.5}, "must lie between the bounds 0 and 1"),
        ({"gap": 0.1, "bounds": (1, 0)}, "the lower one first"),
        ({"gap": 0.1, "drift": Drift(size=0.46), "bounds": (0, 1)}, "leaves ±0.45"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_a_sentence(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        planned(PROBLEM, **arguments)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("noise", lambda: PlanRequest(Problem(np.eye(2), noise=1e200), gap=0.3)),
        ("baseline", lambda: PlanRequest(Problem(np.eye(2), baseline=1e200), gap=0.3)),
        ("size", lambda: Drift(size=1e200)),
        ("base", lambda: PlanRequest(Problem(np.eye(2)), gap=0.3, base=-1e200)),
    ],
)
def test_scales_too_large_to_compute_with_are_refused(
    field: str, make: Callable[[], object]
) -> None:
    with pytest.raises(InvalidInputError, match="too large or too small") as refused:
        make()
    assert refused.value.field == field
    assert refused.value.remedy


def test_small_and_absent_levels_can_be_computed_with() -> None:
    assert PlanRequest(PROBLEM, gap=1.0, base=0.0).base_rate == 0.0
    assert PlanRequest(PROBLEM, gap=1.0, base=1e-300).base_rate == 1e-300
    PlanRequest(Problem(np.eye(2), baseline=0), gap=0.3)


def test_an_experiment_that_dropped_the_best_of_tied_others_does_not_count_as_a_success() -> None:
    def blind(problem: Problem, *, max_pulls: int = 0, seed: int) -> AnytimeBAI:
        """Told a noise far too small, so that it drops the best soon and has ties left."""
        small = Problem(problem.source, delta=0.4, noise=0.02, baseline=0.02)
        return AnytimeBAI(small, max_pulls=max_pulls, seed=seed)

    plan = planned(
        Problem(np.eye(6), delta=0.4),
        gap=0.01,
        drift="none",
        policies={"blind": blind},
        runs=15,
        max_pulls=20_000,
    )
    (found,) = plan.forecasts
    assert found.astray > 0
    assert found.pulls.most == 20_000
    assert any(f"In {found.astray} of them" in sentence for sentence in plan.warnings)


# Of two points on a line the sum tells as well as the difference, if nothing drifts.
LINE = [[1.0], [2.0]]


def still(**given: Any) -> ExperimentPlan:
    return planned(Problem(LINE, delta=0.1, **given), gap=0.3, drift="none", runs=20)


def test_a_plan_says_what_assuming_no_baseline_buys_and_risks() -> None:
    with_one, without = still(baseline=0.5), still(baseline=0)
    (moving,), (calm,) = with_one.scenarios, without.scenarios
    assert (with_one.drifts, without.drifts) == (True, False)
    assert calm.other_bound > 2 * calm.lower_bound
    for found in (with_one.warnings, without.warnings):
        (sentence,) = [each for each in found if "baseline" in each and "bound from" in each]
        assert "a wrong winner may be named" in sentence
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
    calm = planned(problem, gap=0.5, policies=["anytime"], runs=3)
    assert any("which saves nothing here" in each for each in calm.warnings)


PEOPLE = Problem(np.eye(3), delta=0.05, noise=0.3, baseline=2.0)


def planned_pairs(**options: Any) -> ExperimentPlan:
    given = {"gap": 0.4, "block": 2, "runs": 8, "per_day": 20} | options
    return planned(PEOPLE, **given)


@pytest.fixture(scope="module")
def pairs_plan() -> ExperimentPlan:
    return planned_pairs()


def test_rounds_and_pulls_are_those_of_the_simulation(pairs_plan: ExperimentPlan) -> None:
    theta = np.array(pairs_plan.scenarios[0].theta)
    level = -(theta.max() + theta.min()) / 2
    world = environments.Semiparametric.for_problem(
        PEOPLE, theta, baseline=Independent(2.0, level), noise=0.3, block=2
    )
    (pairs,) = pairs_plan.forecasts
    assert (pairs.policy, pairs.block, pairs.name) == ("anytime", 2, "anytime ×2")
    found = simulate(partial(AnytimeBAI, block=2), world, runs=8, delta=0.05)
    assert pairs.pulls.mean == found.mean_pulls == 2 * pairs.rounds.mean
    assert pairs.rounds.mean == found.mean_rounds
    assert pairs.rounds.median == np.median(found.rounds)
    assert pairs.pulls.mean_interval == pytest.approx(found.pulls_interval())
    assert pairs.counted is pairs.rounds


def test_days_are_of_rounds(pairs_plan: ExperimentPlan) -> None:
    """`per_day` counts people, however many outcomes each of them gives."""
    (pairs,) = json.loads(json.dumps(pairs_plan.to_dict()))["forecasts"]
    assert (
        pairs["days"]["median"] == pairs["rounds"]["median"] / 20 != pairs["pulls"]["median"] / 20
    )
    assert pairs_plan.scenarios[0].period == 20


def test_blocks_take_far_fewer_rounds_where_people_differ(pairs_plan: ExperimentPlan) -> None:
    """By far more than their own outcomes do: pairs need few of them."""
    (pairs,), (single,) = pairs_plan.forecasts, planned_pairs(block=1, drift="people").forecasts
    assert pairs.rounds.mean < 0.4 * single.rounds.mean


def test_the_cap_is_on_pulls_in_blocks_too() -> None:
    cut = planned_pairs(max_pulls=60, runs=2)
    (pairs,) = cut.forecasts
    assert (pairs.capped, pairs.rounds.most) == (2, 30)
    assert any(each.startswith("anytime ×2 had no winner in 2 of 2") for each in cut.warnings)


def test_yes_and_no_in_blocks() -> None:
    problem = Problem(np.eye(2), delta=0.1, noise=0.5)
    apart = Drift("switches", size=0.35, period=2)
    (pairs,), (single,) = (
        planned(problem, gap=0.3, drift=apart, bounds=(0, 1), block=block, runs=10).forecasts
        for block in (2, 1)
    )
    assert pairs.rounds.mean < single.rounds.mean / 2  # half of it as of two options, and more
    assert single.wrong + pairs.wrong <= 5


def test_the_usual_drift_and_policy() -> None:
    single, pairs = PlanRequest(PEOPLE, gap=0.4), PlanRequest(PEOPLE, gap=0.4, block=2)
    assert [each.kind for each in single.drifts] == ["sine"]
    assert [each.kind for each in pairs.drifts] == ["people"]
    assert list(single.methods()) == list(pairs.methods()) == ["anytime"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"block": 4}, "`block` must be a whole number from 1 to 3; got 4"),
        ({"block": 0}, "`block` must be a whole number from 1 to 3; got 0"),
        ({"policies": ["anytime", "sp-bai"]}, "sp-bai does not take `block`"),
        ({"policies": {"mine": lambda problem, seed: None}}, "mine does not take `block`"),
        ({"max_pulls": 1}, "One round alone has 2 pulls"),
    ],
)
def test_what_cannot_be_planned_in_blocks_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        planned_pairs(**options)


def test_without_a_baseline_there_is_nothing_that_blocks_cancel() -> None:
    still = PEOPLE.with_baseline(0)
    with pytest.raises(InvalidInputError, match="nothing that blocks could cancel"):
        planned(still, gap=0.4, block=2)


def test_options_may_come_and_go_as_in_experiments_unless_the_policy_excludes_it() -> None:
    """The reserve for what is decided after a change is part of the plan."""
    policies = {
        "usual": AnytimeBAI,
        "fixed": partial(AnytimeBAI, changes=False),
        "two": partial(AnytimeBAI, top=2),
    }
    # All others are tied here, so that a best two do not exist.
    usual, fixed, two = planned(
        PROBLEM, gap=0.9, policies=policies, runs=10, max_pulls=800
    ).forecasts
    assert usual.pulls.mean > fixed.pulls.mean
    assert two.runs == 10


YES_NO = Problem(np.eye(3), delta=0.1, noise=0.5)
ASKED: dict[str, Any] = {
    "gap": 0.4,
    "drift": "none",
    "bounds": (0, 1),
    "policies": ["anytime", "sp-bai"],
    "per_day": 200,
    "runs": 12,
    "seed": 5,
}


@pytest.fixture(scope="module")
def late_plan() -> ExperimentPlan:
    return planned(YES_NO, **ASKED, window="2d")


def test_figures_are_those_of_a_simulation_with_the_delay(late_plan: ExperimentPlan) -> None:
    assert (late_plan.window, late_plan.delay) == (2 * 86_400, 400)
    request = PlanRequest(YES_NO, **ASKED)
    environment, _ = PlannedWorld(request, Drift("none"), 0.4).make()
    method = partial(AnytimeBAI, bounds=(0, 1), max_pulls=10**6, changes=True)
    results = simulate(method, environment, runs=12, seed=5, delta=0.1, delay=400)
    found = late_plan.forecasts[0]
    assert found.pulls.mean == results.mean_pulls
    assert found.rounds.mean == results.rounds.mean()
    assert found.counted is found.pulls


def test_an_open_plan_goes_on_and_a_closed_one_waits(late_plan: ExperimentPlan) -> None:
    prompt = planned(YES_NO, **ASKED)
    opened, closed = late_plan.forecasts
    assert late_plan.waiting(opened) == 0
    assert opened.pulls.mean > prompt.forecasts[0].pulls.mean + 400
    assert closed.pulls == prompt.forecasts[1].pulls
    # A phase or more, each of which ends two days after its last pull.
    waiting = late_plan.waiting(closed)
    assert waiting is not None
    assert waiting == pytest.approx((closed.rounds.mean - closed.pulls.mean) / 200)
    assert waiting > 399 / 200
    assert late_plan.days(closed.rounds.median) == closed.rounds.median / 200
    assert [prompt.waiting(each) for each in prompt.forecasts] == [None, None]


def test_a_document_has_the_window_and_the_waiting(late_plan: ExperimentPlan) -> None:
    document = late_plan.to_dict()
    assert (document["window"], document["delay"]) == (172_800, 400)
    days = [each["days"] for each in document["forecasts"]]
    waiting = [late_plan.waiting(each) for each in late_plan.forecasts]
    assert [each["waiting"] for each in days] == waiting
    assert days[1]["median"] == late_plan.forecasts[1].rounds.median / 200


@pytest.mark.parametrize(
    ("window", "per_day", "delay"),
    [(None, 500, 0), ("7d", 500, 3500), (86_400, 10.5, 11), ("1h", 5, 1), ("90s", 960, 1)],
)
def test_the_delay_in_rounds(window: Any, per_day: float, delay: int) -> None:
    assert PlanRequest(YES_NO, gap=1, window=window, per_day=per_day).delay == delay


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"window": "7d"}, "per_day", "A window needs `per_day`"),
        ({"window": 0, "per_day": 10}, "window", "`window` must be positive"),
        ({"window": "soon", "per_day": 10}, "window", "a time like 90s"),
        ({"window": "7d", "per_day": 10, "block": 2}, "window", "together with blocks"),
        ({"window": "7d", "per_day": 1e9}, "window", "7e.09 outcomes are assigned; at most 10,000"),
    ],
)
def test_windows_that_cannot_be_planned_are_refused(
    options: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words) as refused:
        PlanRequest(YES_NO, gap=1, **options)
    assert refused.value.field == field
    assert refused.value.remedy or field == "window"
