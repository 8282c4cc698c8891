"""Late outcomes: a simulation with a delay does what a live experiment with a window does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from chained_policies import PROBLEM, Chained, Scripted

from bestarm import SPBAI, AnytimeBAI, Problem
from bestarm.environments.baselines import Constant
from bestarm.environments.environment import Foresee, Pulls
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.live import Experiment
from bestarm.live.draws import choose, uniforms
from bestarm.numerics.geometry import Array
from bestarm.policies import LUCB, Method, Policy
from bestarm.records import Plan, Summary
from bestarm.simulation import run_once, simulate
from bestarm.simulation.engine import carry_out
from bestarm.simulation.results import Outcome

MOST = 20_000  # pulls
SIZES = (6, 5, 9, 4, 30, 1, 17, 8, 3, 12)


class Clock:
    """One second per round."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class LiveDraws:
    """A stream whose arms are those of a live experiment with the same seed.

    Args:
        seed: of the experiment.
        rewards: one row per pull, one column per arm.
    """

    def __init__(self, seed: int, rewards: Array) -> None:
        self._seed, self._rewards = seed, rewards
        self.pulls = 0

    def pull(self, plan: Plan) -> Summary:
        return self.pull_less(plan, lambda pulls, _plan: np.zeros(len(pulls.arms)))

    def pull_less(self, plan: Plan, foresee: Foresee) -> Summary:
        assert plan.weights is not None
        numbers = np.arange(self.pulls, self.pulls + plan.pulls)
        self.pulls += plan.pulls
        arms = choose(plan.weights, uniforms(self._seed, start=int(numbers[0]), count=len(numbers)))
        rewards = self._rewards[numbers, arms]
        foresee(Pulls(arms.astype(np.uint32), rewards), plan)
        return Summary.from_pulls(arms, rewards, size=plan.arms, center=plan.center)


def live(policy: Policy, seed: int, delay: int, rewards: Array) -> tuple[int, int]:
    """Pulls and rounds of a live experiment: one assignment per second, reported a second later."""
    clock = Clock()
    start = clock.now
    with Experiment(policy, seed=seed, window=delay, otherwise=0, clock=clock) as experiment:
        while not experiment.finished:
            batch = experiment.ask(1)
            clock.now += 1
            if len(batch.ids):
                number, arm = int(batch.ids[0]), int(batch.arms[0])
                experiment.tell(number, float(rewards[number, arm]))
            else:
                experiment.expire()
        return experiment.status().pulls, round(clock.now - start)


def told_by(policy: Policy) -> list[Any]:
    """What a policy was told, to the last bit, with the plans."""
    assert isinstance(policy, (Chained, Recording))
    names = ("counts", "sums", "squares", "pending", "least", "largest")
    return [[getattr(each, name).tolist() for name in names] for each in policy.summaries]


class Recording(AnytimeBAI):
    """Remembers what it is told."""

    def __init__(self, problem: Problem, **options: Any) -> None:
        super().__init__(problem, **options)
        self.summaries: list[Summary] = []

    def update(self, summary: Summary) -> None:
        self.summaries.append(summary)
        super().update(summary)

    def amend(self, summary: Summary, *, phase: int) -> None:
        self.summaries.append(summary)
        super().amend(summary, phase=phase)


Make = Callable[[], Policy]
PAGES = Problem(np.eye(3), delta=0.1)
MAKERS: dict[str, Make] = {
    "provisional": partial(Chained, PROBLEM, kind="provisional", sizes=SIZES),
    "open": partial(Chained, PROBLEM, kind="open", sizes=SIZES),
    "turning": partial(Chained, PROBLEM, kind="turning", sizes=SIZES),
    "closed": partial(Chained, PROBLEM, kind="randomised", sizes=SIZES),
    "anytime": partial(Recording, PAGES, bounds=(0, 1)),
    "anytime, capped": partial(Recording, PAGES, bounds=(0, 1), max_pulls=150),
    "anytime, unbounded": partial(
        Recording, Problem(np.eye(3), delta=0.1, noise=0.5, baseline=0.0)
    ),
    "anytime, unbounded, capped": partial(Recording, PAGES, max_pulls=150),
}


@pytest.mark.parametrize("delay", [2, 40, 300])
@pytest.mark.parametrize("name", MAKERS)
def test_does_what_a_live_experiment_with_a_window_does(name: str, delay: int) -> None:
    # Rewards of quarters: sums are exact in any order.
    for seed in range(2):
        make = MAKERS[name]
        rng = np.random.default_rng([seed, delay])
        one, other = make(), make()
        chances = np.linspace(0.1, 0.9, one.problem.arms)
        rewards = np.where(rng.random((MOST, len(chances))) < chances, 1.0, 0.25)
        pulls, rounds = live(one, seed, delay, rewards)
        found = carry_out(other, LiveDraws(seed, rewards), delay=delay)
        assert (found[0], found[1], found[3]) == (pulls, rounds, True)
        assert told_by(other) == told_by(one)
        assert len(told_by(one)) > 1
        assert other.recommend().target == one.recommend().target


WORLD = TwoPoint.for_problem(
    Problem(np.eye(3)), np.array([0.1, 0.3, 0.6]), bounds=(0, 1), baseline=Constant(0.0), name="abc"
)
ANYTIME = partial(AnytimeBAI, bounds=(0, 1), max_pulls=5000)


@pytest.mark.parametrize("method", [ANYTIME, SPBAI])
@pytest.mark.parametrize("delay", [0, 1])
def test_a_delay_of_at_most_a_round_changes_nothing(method: Method, delay: int) -> None:
    assert _rows(method, delay=delay) == _rows(method)


def _rows(method: Method, **options: Any) -> list[Outcome]:
    return list(simulate(method, WORLD, runs=4, seed=1, delta=0.1, **options).outcomes())


def test_closed_plans_wait_for_their_last_outcome() -> None:
    for prompt, late in zip(_rows(SPBAI), _rows(SPBAI, delay=500), strict=True):
        assert late == prompt._replace(rounds=prompt.rounds + 499 * prompt.plans)
        assert late.plans > 1


def test_index_rules_wait_after_every_plan() -> None:
    method = partial(LUCB, max_pulls=400)
    assert method(WORLD.problem(0.1), seed=0).traits.follows
    for prompt, late in zip(_rows(method), _rows(method, delay=50), strict=True):
        assert late == prompt._replace(rounds=prompt.rounds + 49 * prompt.plans)


def test_open_plans_do_not_wait_and_take_longer() -> None:
    prompt, late = _rows(ANYTIME), _rows(ANYTIME, delay=400)
    for each in late:
        assert each.rounds == each.pulls > 400
        assert each.correct
    assert sum(each.pulls for each in late) > sum(each.pulls for each in prompt) + 4 * 400


def test_workers_and_repeated_runs_know_the_delay() -> None:
    here = _rows(ANYTIME, delay=100)
    with ProcessPoolExecutor(1) as executor:
        assert _rows(ANYTIME, delay=100, executor=executor) == here
    again = run_once(ANYTIME, WORLD, run=2, seed=1, delta=0.1, delay=100)
    assert again.pulls <= here[2].pulls  # some were drawn after the last that was told
    assert again.pulls > run_once(ANYTIME, WORLD, run=2, seed=1, delta=0.1).pulls


class Totals:
    """A stream that gives totals only."""

    def pull(self, plan: Plan) -> Summary:
        raise NotImplementedError


def test_what_cannot_be_simulated_late_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="does not tell its single pulls"):
        carry_out(ANYTIME(PROBLEM, seed=0), Totals(), delay=5)
    with pytest.raises(InvalidInputError, match="Forecasts cannot be simulated with a delay"):
        simulate(ANYTIME, WORLD, runs=1, forecaster="default", delay=5)
    with pytest.raises(InvalidInputError, match="`delay` must be a whole number of at least 0"):
        simulate(ANYTIME, WORLD, runs=1, delay=-1)
    blocks = Chained(PROBLEM, kind="blocks")
    with pytest.raises(InvalidInputError, match="Rounds of several pulls"):
        carry_out(blocks, LiveDraws(0, np.zeros((1, 4))), delay=5)


def test_a_plan_that_can_never_be_closed_is_an_error() -> None:
    plan = Plan.randomised(np.full(4, 0.25), 9, phase=1, open=True, most=5, provisional=True)
    with pytest.raises(ProtocolError, match="can never be carried out"):
        carry_out(Scripted(plan), LiveDraws(0, np.zeros((9, 4))), delay=5)
