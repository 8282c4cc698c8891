"""What a plan will cost is estimated before it is simulated, by a clock that is given."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bestarm import Problem
from bestarm.errors import InvalidInputError
from bestarm.planning import Effort, JobEffort, PlanRequest, plan_experiment
from bestarm.planning import plan as planning_module
from bestarm.planning.plan import Job, describe_time, estimate_effort
from bestarm.policies import Policy
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary

PROBLEM = Problem(np.eye(2), delta=0.05)
PER_PULL, PER_PLAN = 5e-8, 1e-3  # seconds, on the clock of these tests


class Time:
    """A clock that only what is simulated here moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Sized(Policy):
    """A policy whose plans have the sizes it is told, until its pulls are enough."""

    problem = PROBLEM

    def __init__(
        self, time: Time, size: Callable[[int], int], enough: int, per_plan: float
    ) -> None:
        self._time, self._size, self._enough, self._per_plan = time, size, enough, per_plan
        self._pulls = self._plans = 0

    def plan(self) -> Plan | None:
        if self._pulls >= self._enough:
            return None
        self._time.now += self._per_plan
        return Plan.randomised([0.5, 0.5], self._size(self._pulls), phase=self._plans + 1)

    def adopt(self, plan: Plan) -> None:
        raise AssertionError("nobody hands plans to a run that is only watched")

    def update(self, summary: Summary) -> None:
        self._pulls += int(summary.counts.sum())
        self._plans += 1

    def recommend(self) -> Recommendation:
        raise AssertionError("nobody asks a run that is only watched")


class World:
    """Pulls that take their time."""

    name, best, gap = "timed", 0, 0.1

    def __init__(self, time: Time) -> None:
        self._time = time

    def instance(self, _rng: np.random.Generator) -> World:
        return self

    def problem(self, _delta: float) -> Problem:
        return PROBLEM

    def begin(self, _rng: np.random.Generator) -> World:
        return self

    def pull(self, plan: Plan) -> Summary:
        self._time.now += PER_PULL * plan.pulls
        counts = np.array([plan.pulls, 0])
        return Summary(counts, np.zeros(2), np.zeros(2))


def estimated(
    size: Callable[[int], int],
    enough: int,
    *,
    bound: float = 1.0,
    cap: int = 10**12,
    per_plan: float = PER_PLAN,
) -> JobEffort:
    time = Time()

    def method(problem: Problem, *, seed: int) -> Policy:
        return Sized(time, size, enough, per_plan)

    world: Any = World(time)
    assumed: Any = SimpleNamespace(scenario="timed", gap=0.1, lower_bound=bound)
    job = Job("mine", 1, method, world, assumed, cap)
    found = estimate_effort([job], PlanRequest(PROBLEM, gap=1, runs=7), clock=time)
    assert found.runs == 7
    return found.jobs[0]


def test_short_runs_are_watched_to_their_end() -> None:
    found = estimated(lambda _: 100, 1000)
    assert found.pulls == 1000
    # Ten plans of 100 pulls. Whether there is an eleventh costs nothing here.
    assert found.seconds == pytest.approx(1000 * PER_PULL + 10 * PER_PLAN)


def test_long_runs_of_short_batches_cost_by_their_plans() -> None:
    """As those of the anytime rule on a fast wave: 40,000 plans, each 10 times its pulls' time."""
    found = estimated(lambda _: 100, 10**9, bound=800_000)
    assert found.pulls == 5 * 800_000  # what is usual where nothing is known of a policy
    assert found.seconds == pytest.approx(4e6 * PER_PULL + 4e4 * PER_PLAN, rel=0.1)


def test_long_runs_of_growing_batches_cost_by_their_pulls() -> None:
    """Batches of half of the pulls before: 35 plans or so, whose time does not count."""
    found = estimated(lambda pulls: max(100, pulls // 2), 10**12, bound=2e9)
    assert found.seconds == pytest.approx(1e10 * PER_PULL, rel=0.1)


@pytest.mark.parametrize("per_plan", [1e-4, 1e-3, 1e-2, 3e-2])
def test_batches_that_begin_to_grow_late_are_not_taken_for_equal_ones(per_plan: float) -> None:
    """As those of the anytime rule: 24 pulls at first, and 5 % of those before later on.

    Taken for equal ones, a run of 10⁹ pulls would have 40 million plans and not 300.
    """

    def size(pulls: int) -> int:
        return max(24, pulls // 20)

    pulls = plans = 0
    while pulls < 10**9:
        pulls += size(pulls)
        plans += 1
    found = estimated(size, 10**12, bound=2e8, per_plan=per_plan)
    truth = 1e9 * PER_PULL + plans * per_plan
    assert truth / 4 < found.seconds < 4 * truth


def test_very_slow_plans_are_guessed_between_growing_and_equal_ones() -> None:
    found = estimated(lambda _: 100, 10**12, bound=200_000, per_plan=0.3)
    # 14 plans were seen: 1,400 pulls of a million. Equal ones would be 10,000 plans of 0.3 s.
    assert 1 < found.seconds < 0.1 * 10_000 * 0.3


def test_a_cap_and_a_plan_that_is_known_bound_the_estimate() -> None:
    assert estimated(lambda _: 100, 10**9, bound=1e9, cap=600_000).pulls == 600_000
    # One plan that is larger than what is usual, and too large to be carried out for an estimate.
    huge = estimated(lambda _: 10**9, 10**9, bound=1000)
    assert huge.pulls == 10**9
    assert huge.seconds == pytest.approx(1e9 * PER_PULL, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.01, "1 s"),
        (42.4, "42 s"),
        (90, "1.5 min"),
        (3600, "1 h"),
        (86_400, "1 day"),
        (86_400 * 3, "3 days"),
        (86_400 * 99.7, "100 days"),
        (86_400 * 365 * 1234, "1,200 years"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert describe_time(seconds) == words


def costing(seconds: float, pulls: float = 40_000.0) -> Effort:
    return Effort(
        200,
        (
            JobEffort("anytime", "sine", 0.1, pulls, seconds),
            JobEffort("sbe", "sine", 0.1, 3 * pulls, 2 * seconds),
        ),
    )


def test_an_estimate_in_words_and_its_limit() -> None:
    found = costing(0.3)
    assert found.seconds == pytest.approx(180)
    assert found.describe() == "about 3 min; 400 runs of about 40,000 to 120,000 outcomes"
    assert found.describe(workers=2).startswith("about 1.5 min;")
    found.refuse_beyond(180.1, expected=found.seconds, runs=200)
    with pytest.raises(InvalidInputError, match="out of reach: 200 runs of each policy") as caught:
        found.refuse_beyond(179.9, expected=found.seconds, runs=200)
    assert "A run of sbe under 'sine' has about 120,000 outcomes" in caught.value.message
    assert (caught.value.field, caught.value.value) == ("gap", 0.1)
    for remedy in ("larger gap", "tighter bounds", "fewer runs", "`max_pulls`"):
        assert remedy in caught.value.remedy


def test_it_is_told_before_anything_is_simulated_and_can_end_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def simulated(*_: object, **__: object) -> None:
        raise AssertionError("simulated")

    def refuse(found: Effort) -> None:
        found.refuse_beyond(1.0, expected=found.seconds, runs=found.runs)

    told: list[tuple[int, int]] = []
    monkeypatch.setattr(planning_module, "estimate_effort", lambda *_, **__: costing(100))
    monkeypatch.setattr(planning_module, "simulate", simulated)
    with pytest.raises(InvalidInputError, match="out of reach"):
        plan_experiment(
            PlanRequest(PROBLEM, gap=0.5, policies=["anytime"]),
            progress=lambda done, total: told.append((done, total)),
            on_estimate=refuse,
        )
    assert told == [(0, 200)]  # there was a sign before the estimate, too


def test_it_does_not_change_the_plan() -> None:
    found: list[Effort] = []
    common: Any = {"gap": 0.5, "policies": ["anytime", "lucb", "sp-bai"], "runs": 3}
    plan = plan_experiment(PlanRequest(PROBLEM, **common), on_estimate=found.append)
    assert plan == plan_experiment(PlanRequest(PROBLEM, **common))
    assert [job.policy for job in found[0].jobs] == ["anytime", "lucb", "sp-bai"]
    assert all(job.seconds > 0 and job.pulls > 0 for job in found[0].jobs)
