"""Plans over blocks and their rounds: what they hold, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.policies.policy import same_plan
from bestarm.records import BlockPlan, Plan, Rounds, Summary

NAN = float("nan")
PLAN = BlockPlan.drawn(
    [[0, 2], [1, 3], [0, 3]], [0.5, 0.25, 0.25], 3, arms=5, phase=1, open=True, center=1.0
)
PROVISIONAL = replace(PLAN, provisional=True)


def test_a_plan_over_blocks_shares_its_pulls_among_arms() -> None:
    assert (PLAN.rounds, PLAN.size, PLAN.pulls, PLAN.arms) == (3, 2, 6, 5)
    assert PLAN.weights is not None
    assert PLAN.weights.tolist() == [0.375, 0.125, 0.25, 0.25, 0.0]
    assert PLAN.shares.tolist() == PLAN.weights.tolist()


def test_a_round_of_a_plain_plan_is_a_pull() -> None:
    plan = Plan.randomised([0.5, 0.5], 7, phase=1)
    assert (plan.rounds, plan.size) == (7, 1)
    told, nothing = np.array([2, 5]), np.zeros(2)
    assert Summary(told, nothing, nothing, missing=np.array([1, 0])).rounds == 8


def test_shares_follow_from_blocks_whatever_is_replaced() -> None:
    other = replace(PLAN, block_weights=np.array([0.0, 0.0, 1.0]), weights=np.full(5, 0.2))
    assert other.weights is not None
    assert other.weights.tolist() == [0.5, 0.0, 0.0, 0.5, 0.0]


def test_plans_own_read_only_copies() -> None:
    blocks, chances = np.array([[0, 1]]), np.array([1.0])
    plan = BlockPlan.drawn(blocks, chances, 2, arms=2, phase=1)
    blocks[0, 0] = 1
    assert plan.blocks.tolist() == [[0, 1]]
    for part in (plan.blocks, plan.block_weights, plan.weights):
        assert part is not None
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0


def test_plans_are_the_same_only_with_the_same_blocks() -> None:
    assert same_plan(PLAN, replace(PLAN))
    assert not same_plan(PLAN, replace(PLAN, blocks=PLAN.blocks[::-1].copy()))
    plain = Plan(1, 6, weights=PLAN.weights, open=True, center=1.0)
    assert not same_plan(PLAN, plain)
    assert not same_plan(plain, PLAN)


@pytest.mark.parametrize(
    ("blocks", "weights", "rounds", "field"),
    [
        ([[1, 0]], [1.0], 1, "blocks"),
        ([[1, 1]], [1.0], 1, "blocks"),
        ([[0, 3]], [1.0], 1, "blocks"),
        ([[-1, 0]], [1.0], 1, "blocks"),
        ([[0.0, 1.0]], [1.0], 1, "blocks"),
        ([0, 1], [1.0], 1, "blocks"),
        (np.zeros((0, 2), int), [], 1, "blocks"),
        ([[0, 1], [0, 1]], [0.5, 0.5], 1, "blocks"),
        ([[0, 1]], [0.5], 1, "block_weights"),
        ([[0, 1]], [0.5, 0.5], 1, "block_weights"),
        ([[0, 1]], [1.0], 0, "rounds"),
    ],
)
def test_blocks_that_cannot_be_drawn_are_refused(
    blocks: Any, weights: Any, rounds: int, field: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        BlockPlan.drawn(blocks, weights, rounds, arms=3, phase=1)
    assert caught.value.field == field


def test_half_a_round_is_no_plan() -> None:
    with pytest.raises(InvalidInputError, match="not a whole number of blocks"):
        replace(PLAN, pulls=5)


TABLE = [[3.0, 1.0], [NAN, 2.0], [4.0, NAN]]
WAITS = [[False, False], [True, False], [False, False]]


def test_rounds_add_up_what_they_hold_per_arm() -> None:
    rounds = Rounds.of(PLAN, [0, 1, 2], TABLE, WAITS)
    assert rounds.rounds == 3
    assert rounds.counts.tolist() == [2, 0, 1, 1, 0]
    assert rounds.missing.tolist() == [0, 0, 0, 1, 0]
    assert rounds.pending.tolist() == [0, 1, 0, 0, 0]
    assert rounds.sums.tolist() == [5.0, 0.0, 0.0, 1.0, 0.0]
    assert rounds.squares.tolist() == [13.0, 0.0, 0.0, 1.0, 0.0]
    assert rounds.rewards.tolist() == [7.0, 0.0, 1.0, 2.0, 0.0]
    assert (rounds.pulls, rounds.drawn.sum()) == (4, 6)
    assert rounds.least is not None
    assert rounds.least.tolist() == [2.0, 0.0, 0.0, 1.0, 0.0]
    for part in (rounds.kinds, rounds.table, rounds.awaited, rounds.counts):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0


@pytest.mark.parametrize(
    ("kinds", "rewards", "awaited", "field"),
    [
        ([3], [[1.0, 2.0]], None, "kinds"),
        ([-1], [[1.0, 2.0]], None, "kinds"),
        ([0.5], [[1.0, 2.0]], None, "kinds"),
        ([0], [[1.0, 2.0, 3.0]], None, "rewards"),
        ([0, 1], [[1.0, 2.0]], None, "rewards"),
        ([0], [[1.0, float("inf")]], None, "rewards"),
        ([0], [[1.0, NAN]], [[False]], "rewards"),
        ([0], [[1.0, NAN]], [[True, False]], "awaited"),
    ],
)
def test_rounds_that_cannot_be_are_refused(
    kinds: Any, rewards: Any, awaited: Any, field: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Rounds.of(PLAN, kinds, rewards, awaited)
    assert caught.value.field == field


def test_a_plan_takes_its_rounds_and_nothing_else() -> None:
    told = [[3.0, 1.0]] * 3
    PLAN.check(Rounds.of(PLAN, [0, 1, 2], told))
    PLAN.check(Rounds.of(PLAN, [0, 1, 2, 0], [*told, [0.0, 0.0]]))  # it is open
    PLAN.check(Rounds.of(PLAN, [0], told[:1]), beyond=True)
    PROVISIONAL.check(Rounds.of(PLAN, [0, 1, 2], TABLE, WAITS))
    other = BlockPlan.drawn([[0, 1], [1, 3], [0, 3]], [0.5, 0.25, 0.25], 3, arms=5, phase=1)
    rare = replace(PLAN, block_weights=np.array([1.0, 0.0, 0.0]))
    plain = Rounds.of(PLAN, [0, 1, 2], told)
    misfits = [
        Rounds.of(PLAN, [0, 1], told[:2]),
        Rounds.of(PLAN, [0, 1, 2], TABLE, WAITS),
        Rounds.of(replace(other, center=1.0), [0, 1, 2], told),
        Summary(plain.counts, plain.sums, plain.squares, center=1.0),
    ]
    for rounds in misfits:
        with pytest.raises(ProtocolError):
            PLAN.check(rounds)
    with pytest.raises(ProtocolError):
        rare.check(plain)
    with pytest.raises(InvalidInputError, match="must be a Summary"):
        PLAN.check([1, 2])  # type: ignore[arg-type]


def test_an_amendment_settles_what_was_awaited_and_nothing_else() -> None:
    before = Rounds.of(PLAN, [0, 1, 2], TABLE, WAITS)
    told = [[3.0, 1.0], [9.0, 2.0], [4.0, NAN]]
    after = before.amended(Rounds.of(PLAN, [0, 1, 2], told))
    assert after.counts.tolist() == [2, 1, 1, 1, 0]
    lost = before.amended(Rounds.of(PLAN, [0, 1, 2], TABLE))
    assert lost.missing.tolist() == [0, 1, 0, 1, 0]
    refused = [
        Rounds.of(PLAN, [0, 1, 0], told),
        Rounds.of(PLAN, [0, 1, 2], [[3.0, 1.5], *told[1:]]),
        Rounds.of(PLAN, [0, 1, 2], [*told[:2], [4.0, 1.0]]),
        Rounds.of(PLAN, [0, 1, 2], [[NAN, 1.0], *told[1:]], [[True, False]] + [[False] * 2] * 2),
        Summary(after.counts, after.sums, after.squares, center=1.0),
    ]
    for later in refused:
        with pytest.raises(ProtocolError):
            before.amended(later)


@pytest.mark.parametrize("lost", [0.0, 0.4])
def test_sums_within_rounds_are_those_of_the_definition(lost: float) -> None:
    rng = np.random.default_rng(3)
    blocks = [[0, 1, 2], [0, 2, 4], [1, 3, 4]]
    plan = BlockPlan.drawn(blocks, [0.5, 0.25, 0.25], 30, arms=5, phase=1, open=True)
    kinds, table = rng.integers(3, size=30), rng.normal(size=(30, 3)) + 1e4
    table[rng.random(table.shape) < lost] = np.nan
    features = rng.normal(size=(5, 4))
    gram, moment = np.zeros((4, 4)), np.zeros(4)
    for kind, rewards in zip(kinds, table, strict=True):
        told = ~np.isnan(rewards)
        if told.any():
            members = features[np.array(blocks[kind])[told]]
            centered = members - members.mean(axis=0)
            gram += centered.T @ centered
            moment += centered.T @ rewards[told]
    laplacian, sums = Rounds.of(plan, kinds, table).within()
    np.testing.assert_allclose(features.T @ laplacian @ features, gram, atol=1e-10)
    np.testing.assert_allclose(features.T @ sums, moment, atol=1e-6)
