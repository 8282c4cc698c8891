"""Rounding must not make evidence: far from zero, with many pulls, added up in the plainest way."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem
from bestarm.live import Experiment
from bestarm.numerics.geometry import Array
from bestarm.policies import BernsteinElimination, Policy
from bestarm.policies.anytime.bets import BatchOutcome, Frame, Scale, StakeGrid, Totals
from bestarm.policies.anytime.group import totals_by_arm
from bestarm.policies.anytime.readout import read
from bestarm.records import Counts, Plan, Summary

FAR = 1e6 + 1 / 3  # no sum of such numbers is exact
EPSILON = float(np.finfo(float).eps)
Rule = Callable[[tuple[float, float]], Policy]
RULES: dict[str, Rule] = {
    "anytime": lambda bounds: AnytimeBAI(Problem(np.eye(2), delta=0.05), bounds=bounds),
    "bernstein": lambda bounds: BernsteinElimination(Problem(np.eye(2), delta=0.05), bounds=bounds),
}


def one_frame(guess: Array, *, center: float = 0.0) -> Frame:
    even, ones = np.full((1, 2), 0.5), np.ones((1, 2))
    return Frame.under(
        Scale(-1e7, 1e7, center=center),
        even,
        guess=guess[None],
        spread=ones,
        sizes=np.array([100]),
        pulls=np.array([0]),
        reader=read(np.array([[-0.5], [0.5]]), even, ones),
        grid=StakeGrid.around(0.04),
        leaders=np.array([[0, 1]]),
    )


def of_summary(arms: Counts, rewards: Array, guess: Array, center: float) -> Totals:
    """As a live experiment adds them up."""
    summary = Summary.from_pulls(arms, rewards, size=2, center=center)
    return BatchOutcome(one_frame(guess, center=center), summary).totals.select(0)


def of_group(arms: Counts, rewards: Array, guess: Array, center: float) -> Totals:
    """As simulations do, for runs side by side; this is the second of two."""
    cells = np.concatenate([np.zeros(5, dtype=np.int64), 2 + arms])
    sums, extremes = totals_by_arm(cells, np.concatenate([np.ones(5), rewards - center]), (2, 2))
    return Totals.about(np.stack([guess, guess]), sums, extremes).select(1)


@pytest.mark.parametrize("made", [of_summary, of_group])
@pytest.mark.parametrize("center", [0.0, FAR + 0.5])
@pytest.mark.parametrize("pulls", [1, 10, 1000, 200_000])
def test_totals_are_no_farther_off_than_is_allowed_for(
    pulls: int, center: float, made: Callable[[Counts, Array, Array, float], Totals]
) -> None:
    """Against sums without rounding (`math.fsum` of exact differences, in extended precision)."""
    rng = np.random.default_rng(pulls)
    arms = rng.integers(0, 2, pulls)
    rewards = FAR + rng.random(pulls)
    guess = np.array([FAR + 0.25, FAR + 0.75]) - center
    totals = made(arms, rewards, guess, center)
    for arm in range(2):
        # r − center is exact here (Sterbenz); so is taking the guess off in extended precision.
        off = (rewards[arms == arm] - center).astype(np.longdouble) - guess[arm]
        first = math.fsum(off.tolist())
        second = math.fsum((off * off).tolist())
        third = math.fsum((off * off * off).tolist())
        assert totals.counts[arm] == len(off)
        assert abs(totals.first[arm] - first) <= totals.rounding[arm]
        assert totals.second[arm] >= second
        assert abs(totals.third[arm] - third) <= totals.third_rounding[arm]
        assert totals.under[arm] >= -float(off.min(initial=0.0))
        assert totals.over[arm] >= float(off.max(initial=0.0))
        if center:  # about the middle of the bounds nothing worth mentioning is lost
            assert totals.second[arm] - second <= 1e-9 * max(second, 1e-3) * max(pulls, 10)


def test_adding_up_one_by_one_loses_more_than_any_constant() -> None:
    """Why the allowance must grow with the number of pulls: 64 ε was not enough."""
    rewards = np.full(200_000, FAR)
    summary = Summary.from_pulls(np.zeros(len(rewards), dtype=int), rewards, size=1)
    exact = math.fsum((rewards.astype(np.longdouble) ** 2).tolist())
    error = abs(float(summary.squares[0]) - exact)
    assert error > 500 * EPSILON * exact
    assert error <= len(rewards) * EPSILON * exact


def told_at_once(make: Rule, low: float, gap: float, seed: int) -> tuple[bool, int]:
    """An experiment of 40 000 outcomes, 0 or 1 above `low`; whether it is decided, and for whom."""
    rng = np.random.default_rng(seed)
    policy = make((low, low + 1))
    experiment = Experiment(policy, seed=seed)
    while not experiment.finished and experiment.status().pulls < 40_000:
        batch = experiment.ask(40_000)
        hits = rng.random(len(batch)) < 0.5 + gap * (np.asarray(batch.arms) - 0.5)
        experiment.tell_many(dict(zip(batch.ids, (low + hits).tolist(), strict=True)))
    answer = experiment.recommendation()
    return answer.final, answer.target


@pytest.mark.parametrize("rule", RULES)
def test_equal_arms_far_from_zero_have_no_winner(rule: str) -> None:
    """At most 2δ = 0.1 of experiments may name one: all of 4 do with probability 1e-4 then."""
    assert not all(told_at_once(RULES[rule], FAR, 0.0, seed)[0] for seed in range(4))


@pytest.mark.parametrize("rule", RULES)
def test_far_from_zero_an_experiment_goes_as_it_does_at_zero(rule: str) -> None:
    """The same outcomes, moved: as many pulls, and the same answer."""
    ends = []
    for low in (0.0, FAR, -1e9):
        policy = RULES[rule]((low, low + 1))
        rng = np.random.default_rng(4)
        pulls = 0
        while (plan := policy.plan()) is not None:
            arms = drawn(plan, rng)
            rewards = low + (rng.random(len(arms)) < np.array([0.4, 0.6])[arms])
            policy.update(Summary.from_pulls(arms, rewards, size=2, center=plan.center))
            pulls += len(arms)
        ends.append((pulls, policy.recommend().target))
    assert len(set(ends)) == 1
    assert ends[0][1] == 1


def drawn(plan: Plan, rng: np.random.Generator) -> Counts:
    if plan.counts is not None:
        return np.repeat(np.arange(plan.arms), plan.counts)
    return rng.choice(plan.arms, plan.pulls, p=plan.weights)


@pytest.mark.parametrize("rule", RULES)
def test_totals_about_zero_are_taken_and_cost_only_pulls(rule: str) -> None:
    """Who adds up without a center is told nothing wrong; far from zero, next to nothing at all."""
    policy = RULES[rule]((FAR, FAR + 1))
    rng = np.random.default_rng(5)
    for _ in range(60):
        plan = policy.plan()
        if plan is None:
            break
        arms = drawn(plan, rng)
        policy.update(Summary.from_pulls(arms, FAR + rng.integers(0, 2, len(arms)), size=2))
    assert not policy.recommend().final


def test_a_summary_about_another_center_is_refused() -> None:
    policy = AnytimeBAI(Problem(np.eye(2)), bounds=(2, 4))
    plan = policy.plan()
    assert plan is not None
    assert plan.center == 3.0
    arms = np.arange(plan.pulls) % 2
    with pytest.raises(Exception, match="center 1; the plan asks for 3"):
        policy.update(Summary.from_pulls(arms, np.full(plan.pulls, 2.5), size=2, center=1.0))
