"""Plans and summaries, of single pulls and of blocks: what they hold, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.policies.policy import same_plan
from bestarm.records import BlockPlan, Plan, Rounds, Summary, round_robin

COUNTS = st.lists(st.integers(0, 12), max_size=8)


def naive_round_robin(counts: list[int]) -> list[int]:
    left, order = list(counts), []
    while any(left):
        for arm, remaining in enumerate(left):
            if remaining:
                order.append(arm)
                left[arm] -= 1
    return order


@given(counts=COUNTS)
def test_round_robin_is_the_naive_loop(counts: list[int]) -> None:
    order = round_robin(np.array(counts, dtype=np.int64))
    assert order.dtype == np.int64
    assert order.tolist() == naive_round_robin(counts)


@given(counts=COUNTS, start=st.integers(0, 100), size=st.integers(0, 40))
def test_parts_of_a_round_robin_are_those_of_the_whole(
    counts: list[int], start: int, size: int
) -> None:
    whole = naive_round_robin(counts)
    part = round_robin(np.array(counts, dtype=np.int64), start, start + size)
    assert part.tolist() == whole[start : start + size]


def test_parts_of_a_round_robin_are_found_however_long_it_is() -> None:
    counts = np.array([2**40, 2**51, 5])
    start = 5 + 2 * 2**40 - 3
    assert round_robin(counts, start, start + 6).tolist() == [1, 0, 1, 1, 1, 1]


def test_plans_hold_what_they_were_given() -> None:
    drawn, fixed = Plan.randomised([0.25, 0.75, 0], 10, phase=3), Plan.fixed([2, 0, 3], phase=1)
    assert (drawn.phase, drawn.pulls, drawn.arms, drawn.counts) == (3, 10, 3, None)
    assert drawn.shares.tolist() == [0.25, 0.75, 0.0]
    assert (fixed.phase, fixed.pulls, fixed.arms, fixed.weights) == (1, 5, 3, None)
    assert fixed.shares.tolist() == [0.4, 0.0, 0.6]


def test_records_own_read_only_copies() -> None:
    counts, weights, blocks = np.array([1, 2]), np.array([0.5, 0.5]), np.array([[0, 1], [0, 2]])
    sums = np.array([1.0, 2.0])
    plan, fixed = Plan.randomised(weights, 4, phase=1), Plan.fixed(counts, phase=1)
    totals = Summary(counts, sums, sums)
    in_blocks = BlockPlan.drawn(blocks, weights, 2, arms=3, phase=1)
    rounds = Rounds.of(PLAN, [0, 1, 2], TABLE, AWAITED)
    for array in (counts, weights, blocks, sums):
        array[:] = 0
    kept: list[tuple[Any, object]] = [
        (plan.weights, [0.5, 0.5]),
        (fixed.counts, [1, 2]),
        (totals.counts, [1, 2]),
        (totals.sums, [1.0, 2.0]),
        (totals.squares, [1.0, 2.0]),
        (in_blocks.blocks, [[0, 1], [0, 2]]),
        (in_blocks.block_weights, [0.5, 0.5]),
        (in_blocks.weights, [0.5, 0.25, 0.25]),
        (rounds.kinds, [0, 1, 2]),
        (rounds.counts, [2, 0, 1, 1, 0]),
        (rounds.awaited, AWAITED),
    ]
    for part, expected in kept:
        assert part.tolist() == expected
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 9
    assert not rounds.table.flags.writeable
    with pytest.raises(AttributeError):
        plan.pulls = 5  # type: ignore[misc]


@pytest.mark.parametrize("pulls", [0, -3, 2**53, 10**30, math.inf, math.nan])
def test_a_plan_of_impossible_size_is_refused(pulls: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot be carried out") as caught:
        Plan.randomised([0.5, 0.5], pulls, phase=1)
    assert caught.value.field == "pulls"
    assert caught.value.remedy


def summary(*counts: int) -> Summary:
    totals = np.array(counts)
    return Summary(totals, totals, totals)


@pytest.mark.parametrize(
    ("plan", "counts", "words"),
    [
        (Plan.fixed([2, 1], phase=1), (2, 1, 0), "covers 3 arms; the plan has 2"),
        (Plan.fixed([2, 1], phase=1), (3,), "covers 1 arms"),
        (Plan.fixed([2, 1], phase=4), (2, 2), "holds 4 pulls; the plan of phase 4 asks for 3"),
        (Plan.fixed([2, 1], phase=1), (1, 2), "not fit the plan of phase 1"),
        (Plan.randomised([1, 0], 3, phase=2), (3, 1), "holds 4 pulls"),
        (Plan.randomised([1, 0], 3, phase=2), (0, 0), "holds 0 pulls"),
        (Plan.randomised([1, 0], 3, phase=2), (2, 1), "not fit the plan of phase 2"),
    ],
)
def test_a_plan_refuses_a_summary_that_cannot_be_its_outcome(
    plan: Plan, counts: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ProtocolError, match=words) as caught:
        plan.check(summary(*counts))
    assert caught.value.field == "summary"


def test_a_plan_accepts_its_outcomes() -> None:
    Plan.fixed([2, 1], phase=1).check(summary(2, 1))
    plan = Plan.randomised([0.5, 0.5, 0.0], 3, phase=1)
    for counts in ((3, 0, 0), (1, 2, 0)):
        plan.check(summary(*counts))


@given(
    pulls=st.lists(st.tuples(st.integers(0, 4), st.floats(-1e6, 1e6)), max_size=50),
    spare=st.integers(0, 3),
)
def test_totals_are_those_of_a_loop_in_the_same_order(
    pulls: list[tuple[int, float]], spare: int
) -> None:
    size = 5 + spare
    counts, sums, squares = [0] * size, [0.0] * size, [0.0] * size
    for arm, reward in pulls:
        counts[arm] += 1
        sums[arm] += reward
        squares[arm] += reward * reward
    totals = Summary.from_pulls([arm for arm, _ in pulls], [paid for _, paid in pulls], size=size)
    assert totals.counts.tolist() == counts
    assert totals.sums.tolist() == sums  # to the last bit: replays rest on it
    assert totals.sums.dtype == np.float64
    assert totals.squares.tolist() == squares
    assert totals.pulls == len(pulls)


def test_amended_extremes_are_those_of_all_outcomes() -> None:
    first = replace(
        Summary.from_pulls([0, 0, 1], [0.2, 0.9, 0.5], size=4), pending=np.array([1, 0, 2, 0])
    )
    later = Summary.from_pulls([0, 2, 2], [0.1, -0.3, 0.7], size=4)
    whole = first.amended(later)
    assert whole.least is not None
    assert whole.largest is not None
    assert whole.least.tolist() == [0.1, 0.5, -0.3, 0.0]
    assert whole.largest.tolist() == [0.9, 0.5, 0.7, 0.0]
    assert first.amended(replace(later, least=None, largest=None, cubes=None)).least is None


# --- blocks --------------------------------------------------------------------------------------

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
    known, nothing = np.array([2, 5]), np.zeros(2)
    assert Summary(known, nothing, nothing, missing=np.array([1, 0])).rounds == 8


def test_shares_follow_from_blocks_whatever_is_replaced() -> None:
    other = replace(PLAN, block_weights=np.array([0.0, 0.0, 1.0]), weights=np.full(5, 0.2))
    assert other.weights is not None
    assert other.weights.tolist() == [0.5, 0.0, 0.0, 0.5, 0.0]


def test_plans_are_the_same_only_with_the_same_blocks() -> None:
    assert same_plan(PLAN, replace(PLAN))
    assert not same_plan(PLAN, replace(PLAN, blocks=PLAN.blocks[::-1].copy()))
    plain = Plan(1, 6, weights=PLAN.weights, open=True, center=1.0)
    assert not same_plan(PLAN, plain)
    assert not same_plan(plain, PLAN)


TABLE = [[3.0, 1.0], [NAN, 2.0], [4.0, NAN]]
AWAITED = [[False, False], [True, False], [False, False]]


def test_rounds_add_up_what_they_hold_per_arm() -> None:
    rounds = Rounds.of(PLAN, [0, 1, 2], TABLE, AWAITED)
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


ONE = np.ones(1)
block_plan = partial(BlockPlan.drawn, arms=3, phase=1)


@pytest.mark.parametrize(
    ("field", "make", "arguments"),
    [
        ("weights", partial(Plan.randomised, pulls=5, phase=1), [([0.5, 0.6],)]),
        (
            "counts",
            partial(Plan.fixed, phase=1),
            [([],), ([0, 0],), ([3, -1],), ([[1, 2]],), (5,), ([2**53, 1],)],
        ),
        (
            "summary",
            Summary,
            [
                ([1, 2], [1.0], [1.0, 2.0]),
                ([1, 2], [1.0, 2.0], [1.0]),
                ([[1]], [[1.0]], [[1.0]]),
                (1, 1.0, 1.0),
                ([-1, 2], [0.0, 1.0], [0.0, 1.0]),
                ([1, 1], [math.nan, 1.0], [0.0, 1.0]),
                ([1, 1], [1.0, 1.0], [math.inf, 1.0]),
            ],
        ),
        ("least", partial(Summary, least=ONE, largest=0 * ONE, cubes=ONE), [([1], [1], [1])]),
        ("cubes", partial(Summary, least=ONE, largest=ONE), [([1], [1], [1])]),
        (
            "blocks",
            block_plan,
            [
                ([[1, 0]], [1.0], 1),
                ([[1, 1]], [1.0], 1),
                ([[0, 3]], [1.0], 1),
                ([[-1, 0]], [1.0], 1),
                ([[0.0, 1.0]], [1.0], 1),
                ([0, 1], [1.0], 1),
                (np.zeros((0, 2), int), [], 1),
                ([[0, 1], [0, 1]], [0.5, 0.5], 1),
            ],
        ),
        ("block_weights", block_plan, [([[0, 1]], [0.5], 1), ([[0, 1]], [0.5, 0.5], 1)]),
        ("rounds", block_plan, [([[0, 1]], [1.0], 0)]),
        ("pulls", lambda pulls: replace(PLAN, pulls=pulls), [(5,)]),  # half a round
        (
            "kinds",
            partial(Rounds.of, PLAN),
            [([3], [[1.0, 2.0]]), ([-1], [[1.0, 2.0]]), ([0.5], [[1.0, 2.0]])],
        ),
        (
            "rewards",
            partial(Rounds.of, PLAN),
            [
                ([0], [[1.0, 2.0, 3.0]]),
                ([0, 1], [[1.0, 2.0]]),
                ([0], [[1.0, math.inf]]),
                ([0], [[1.0, NAN]], [[False]]),
            ],
        ),
        ("awaited", partial(Rounds.of, PLAN), [([0], [[1.0, NAN]], [[True, False]])]),
    ],
)
def test_what_cannot_be_is_refused(
    field: str, make: Callable[..., object], arguments: list[tuple[Any, ...]]
) -> None:
    for each in arguments:
        with pytest.raises(InvalidInputError) as caught:
            make(*each)
        assert caught.value.field == field


def test_a_plan_takes_its_rounds_and_nothing_else() -> None:
    known = [[3.0, 1.0]] * 3
    PLAN.check(Rounds.of(PLAN, [0, 1, 2], known))
    PLAN.check(Rounds.of(PLAN, [0, 1, 2, 0], [*known, [0.0, 0.0]]))  # it is open
    PLAN.check(Rounds.of(PLAN, [0], known[:1]), beyond=True)
    PROVISIONAL.check(Rounds.of(PLAN, [0, 1, 2], TABLE, AWAITED))
    other = BlockPlan.drawn([[0, 1], [1, 3], [0, 3]], [0.5, 0.25, 0.25], 3, arms=5, phase=1)
    rare = replace(PLAN, block_weights=np.array([1.0, 0.0, 0.0]))
    plain = Rounds.of(PLAN, [0, 1, 2], known)
    others = [
        Rounds.of(PLAN, [0, 1], known[:2]),
        Rounds.of(PLAN, [0, 1, 2], TABLE, AWAITED),
        Rounds.of(replace(other, center=1.0), [0, 1, 2], known),
        Summary(plain.counts, plain.sums, plain.squares, center=1.0),
    ]
    for rounds in others:
        with pytest.raises(ProtocolError):
            PLAN.check(rounds)
    with pytest.raises(ProtocolError):
        rare.check(plain)
    with pytest.raises(InvalidInputError, match="must be a Summary"):
        PLAN.check([1, 2])  # type: ignore[arg-type]


def test_an_amendment_settles_what_was_awaited_and_nothing_else() -> None:
    before = Rounds.of(PLAN, [0, 1, 2], TABLE, AWAITED)
    known = [[3.0, 1.0], [9.0, 2.0], [4.0, NAN]]
    after = before.amended(Rounds.of(PLAN, [0, 1, 2], known))
    assert after.counts.tolist() == [2, 1, 1, 1, 0]
    lost = before.amended(Rounds.of(PLAN, [0, 1, 2], TABLE))
    assert lost.missing.tolist() == [0, 1, 0, 1, 0]
    refused = [
        Rounds.of(PLAN, [0, 1, 0], known),
        Rounds.of(PLAN, [0, 1, 2], [[3.0, 1.5], *known[1:]]),
        Rounds.of(PLAN, [0, 1, 2], [*known[:2], [4.0, 1.0]]),
        Rounds.of(PLAN, [0, 1, 2], [[NAN, 1.0], *known[1:]], [[True, False]] + [[False] * 2] * 2),
        Summary(after.counts, after.sums, after.squares, center=1.0),
    ]
    for later in refused:
        with pytest.raises(ProtocolError):
            before.amended(later)
