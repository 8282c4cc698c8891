"""Runs and frames of the anytime rule: what tests of it have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import bestarm.policies.anytime.bets as bets_module
from bestarm import AnytimeBAI, Plan, Summary
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import Frame, Scale
from bestarm.policies.anytime.readout import Sampling
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

    def around(stakes: Array, likely: float) -> Array:
        shares = 1 / (1 + np.square(np.log10(stakes / likely) / 0.2))
        return np.asarray(np.log(shares / shares.sum()))

    monkeypatch.setattr(bets_module, "LOG_PRIOR", around(bets_module.STAKES, 0.1))
    short = around(bets_module.EFFECTS, 0.2)
    monkeypatch.setattr(bets_module, "log_effect_shares", lambda _: short)


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
    """A frame whose weights are of least variance for the spread that is predicted."""
    sampling = Sampling(np.asarray(coordinates), np.asarray(weights), spread)
    return Frame(sampling, guess=guess, spread=spread, scale=scale, size=size, pulls=pulls)
