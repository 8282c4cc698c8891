"""Bets rest on what was known before their batch: nothing that is learned later changes them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import BatchOutcome
from bestarm.policies.anytime.block_bets import BlockOutcome
from bestarm.records import BlockPlan, Plan, Rounds, Summary

RATES = np.array([0.6, 0.5, 0.4])
Told = tuple[Summary, Summary]  # of a plan: with outcomes outstanding, and what amends it


def singles(plan: Plan, rng: np.random.Generator, pending: int) -> Told:
    """Of every arm so many outcomes are outstanding. Those are all 1, to change what is known."""
    assert plan.weights is not None
    counts = 5 + rng.multinomial(plan.pulls, plan.weights)
    yes = rng.binomial(counts, RATES).astype(float)
    late = np.full(3, pending)
    ones = late.astype(float)
    return Summary(counts, yes, yes, pending=late), Summary(late, ones, ones)


def rounds(plan: Plan, rng: np.random.Generator, pending: int) -> Told:
    """The first rounds are outstanding, as many."""
    assert isinstance(plan, BlockPlan)
    kinds = rng.choice(len(plan.blocks), size=plan.rounds, p=plan.block_weights)
    table = (rng.random((len(kinds), plan.size)) < RATES[plan.blocks[kinds]]).astype(float)
    table[:pending] = plan.blocks[kinds[:pending]] == 2  # far from the rates
    waits = np.zeros(table.shape, dtype=bool)
    waits[:pending] = True
    told = Rounds.of(plan, kinds, np.where(waits, np.nan, table), waits)
    return told, Rounds.of(plan, kinds, table)


def growth(policy: AnytimeBAI, frame: Any, summary: Summary) -> Array:
    """What bets under a frame make of a batch."""
    outcome: Any = BlockOutcome if isinstance(summary, Rounds) else BatchOutcome
    contrasts = policy._targets[:1] - policy._targets[1:]
    grown: Array = frame.bets(contrasts).log_growth(outcome(frame, summary))
    return grown


@pytest.mark.parametrize(
    ("tell", "options"),
    [(singles, {}), (rounds, {"block": 2}), (rounds, {"block": 3, "items": 10_000})],
    ids=["single pulls", "blocks", "items"],
)
def test_a_frame_is_not_changed_by_what_is_learned_after_it(
    tell: Callable[[Plan, np.random.Generator, int], Told], options: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    policy = AnytimeBAI(Problem(np.eye(3), delta=1e-9), bounds=(0, 1), **options)
    late: dict[int, Summary] = {}
    for phase in range(1, 6):
        plan = policy.plan()
        assert plan is not None
        told, late[phase] = tell(plan, rng, 4)
        policy.update(told)
    plan = policy.plan()
    assert plan is not None
    assert policy._open is not None
    frame, fresh = policy._open.frame, deepcopy(policy)
    assert fresh._open is not None
    summary, _ = tell(plan, rng, 0)
    expected = growth(fresh, fresh._open.frame, summary)
    slope = policy._estimates.slope.copy()
    # Late outcomes come while the plan is open, then its own, then those of the next plans.
    for phase in (1, 2, 4):
        policy.amend(late[phase], phase=phase)
    assert np.abs(policy._estimates.slope - slope).max() > 1e-3
    assert policy._open.frame is frame
    np.testing.assert_array_equal(growth(policy, frame, summary), expected)
    policy.update(summary)
    assert policy._past[-1].frame is frame
    np.testing.assert_array_equal(growth(policy, frame, summary), expected)
    for _ in range(3):
        plan = policy.plan()
        assert plan is not None
        policy.update(tell(plan, rng, 0)[0])
        np.testing.assert_array_equal(growth(policy, frame, summary), expected)
