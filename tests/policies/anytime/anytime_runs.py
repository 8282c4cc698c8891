"""Runs and frames of the anytime rule: what tests of it have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bestarm import AnytimeBAI, Plan, Summary
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import STAKES, Frame, Scale, StakeGrid
from bestarm.policies.anytime.readout import read
from bestarm.records import BlockPlan, Counts

__all__ = [
    "Pull",
    "clicks",
    "made_for_short_runs",
    "make_frame",
    "next_block_plan",
    "next_plan",
    "pays",
    "play",
    "weights_of",
]

Pull = Callable[[Plan], Summary]


def next_plan(policy: AnytimeBAI) -> Plan:
    plan = policy.plan()
    assert plan is not None
    return plan


def weights_of(plan: Plan) -> Array:
    assert plan.weights is not None
    return plan.weights


def next_block_plan(policy: AnytimeBAI) -> BlockPlan:
    plan = policy.plan()
    assert isinstance(plan, BlockPlan)
    return plan


def clicks(rates: object, rng: np.random.Generator) -> Pull:
    """Yes-or-no rewards with a rate for each arm."""

    def pull(plan: Plan) -> Summary:
        assert plan.weights is not None
        counts = rng.multinomial(plan.pulls, plan.weights)
        yes = rng.binomial(counts, np.asarray(rates)).astype(float)
        return Summary(counts, yes, yes)

    return pull


def pays(rewards: Callable[[Counts], Array], rng: np.random.Generator) -> Pull:
    """Rewards of arms that are drawn with the plan's probabilities."""

    def pull(plan: Plan) -> Summary:
        arms = rng.choice(plan.arms, size=plan.pulls, p=plan.weights)
        return Summary.from_pulls(arms, rewards(arms), size=plan.arms, center=plan.center)

    return pull


def play(policy: AnytimeBAI, pull: Pull, plans: int = 10_000) -> AnytimeBAI:
    for _ in range(plans):
        plan = policy.plan()
        if plan is None:
            break
        policy.update(pull(plan))
    return policy


def made_for_short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stakes where a thousand pulls decide: any shares are valid, and these err more."""

    shares = 1 / (1 + np.square(np.log10(STAKES / 0.1) / 0.2))
    grid = StakeGrid(STAKES, np.log(shares / shares.sum()) - 1e-13)
    monkeypatch.setattr(StakeGrid, "around", lambda _: grid)


def make_frame(
    coordinates: object,
    weights: object,
    *,
    guess: Array,
    spread: Array,
    scale: Scale,
    size: int = 50,
    pulls: int = 0,
) -> Frame:
    """A frame of one run whose weights are of least variance for the spread that is predicted."""
    chances, spread = np.asarray(weights, dtype=float)[None], spread[None]
    return Frame.under(
        scale,
        chances,
        guess=guess[None],
        spread=spread,
        sizes=np.array([size]),
        pulls=np.array([pulls]),
        reader=read(np.asarray(coordinates, dtype=float), chances, spread),
        grid=StakeGrid.around(0.04),
        leaders=np.array([[0, 1]]),
    )
