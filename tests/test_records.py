"""Plans, summaries and recommendations: what they refuse, and that they own what they hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary, round_robin

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


def test_a_randomised_plan_holds_what_it_was_given() -> None:
    plan = Plan.randomised([0.25, 0.75, 0], 10, phase=3)
    assert (plan.phase, plan.pulls, plan.arms, plan.counts) == (3, 10, 3, None)
    assert plan.weights is not None
    assert plan.weights.tolist() == [0.25, 0.75, 0.0]


def test_a_fixed_plan_totals_its_counts() -> None:
    plan = Plan.fixed([2, 0, 3], phase=1)
    assert (plan.phase, plan.pulls, plan.arms, plan.weights) == (1, 5, 3, None)
    assert plan.counts is not None
    assert plan.counts.tolist() == [2, 0, 3]


def test_plans_own_read_only_copies() -> None:
    weights, counts = np.array([0.5, 0.5]), np.array([1, 2])
    plans = Plan.randomised(weights, 4, phase=1), Plan.fixed(counts, phase=1)
    weights[:] = 0
    counts[:] = 0
    held = plans[0].weights, plans[1].counts
    assert [part.tolist() for part in held if part is not None] == [[0.5, 0.5], [1, 2]]
    for part in held:
        assert part is not None
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 9
    with pytest.raises(AttributeError):
        plans[0].pulls = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    "weights",
    [[0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], [math.inf, 0.0], [], [[0.5, 0.5]], 1.0, [0.5, 0.4]],
)
def test_weights_must_be_probabilities(weights: Any) -> None:
    with pytest.raises(InvalidInputError, match="probabilities that sum to 1") as caught:
        Plan.randomised(weights, 5, phase=1)
    assert caught.value.field == "weights"


@pytest.mark.parametrize("pulls", [0, -3, 2**53, 10**30, math.inf, math.nan])
def test_a_plan_of_impossible_size_is_refused(pulls: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot be carried out") as caught:
        Plan.randomised([0.5, 0.5], pulls, phase=1)
    assert caught.value.field == "pulls"
    assert caught.value.remedy


@pytest.mark.parametrize("counts", [[], [0, 0], [3, -1], [[1, 2]], 5, [2**53, 1]])
def test_counts_must_be_whole_and_positive_in_all(counts: Any) -> None:
    with pytest.raises(InvalidInputError, match="`counts` must be non-negative whole numbers"):
        Plan.fixed(counts, phase=1)


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
    pulls=st.lists(st.tuples(st.integers(0, 4), st.floats(-1e6, 1e6)), min_size=1, max_size=50),
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
    totals = Summary.from_pulls(*zip(*pulls, strict=True), size=size)
    assert totals.counts.tolist() == counts
    assert totals.sums.tolist() == sums  # to the last bit: replays rest on it
    assert totals.squares.tolist() == squares
    assert totals.pulls == len(pulls)


def test_a_summary_of_no_pulls_is_empty() -> None:
    totals = Summary.from_pulls([], [], size=3)
    assert totals.counts.tolist() == [0, 0, 0]
    assert totals.sums.dtype == np.float64
    assert totals.pulls == 0


def test_summaries_own_read_only_copies() -> None:
    counts, sums, squares = np.array([1, 2]), np.array([1.0, 2.0]), np.array([1.0, 4.0])
    totals = Summary(counts, sums, squares)
    for part in (counts, sums, squares):
        part[:] = 0
    assert totals.counts.tolist() == [1, 2]
    assert totals.sums.tolist() == [1.0, 2.0]
    assert totals.squares.tolist() == [1.0, 4.0]
    for part in (totals.counts, totals.sums, totals.squares):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 9


@pytest.mark.parametrize(
    "parts",
    [
        ([1, 2], [1.0], [1.0, 2.0]),
        ([1, 2], [1.0, 2.0], [1.0]),
        ([[1]], [[1.0]], [[1.0]]),
        (1, 1.0, 1.0),
        ([-1, 2], [0.0, 1.0], [0.0, 1.0]),
        ([1, 1], [math.nan, 1.0], [0.0, 1.0]),
        ([1, 1], [1.0, 1.0], [math.inf, 1.0]),
    ],
)
def test_summaries_that_cannot_be_are_refused(parts: tuple[Any, Any, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Summary(*parts)
    assert caught.value.field == "summary"


def recommendation(**changes: Any) -> Recommendation:
    values: dict[str, Any] = {
        "target": 0,
        "label": "tea",
        "final": True,
        "reason": "identified",
        "pulls": 12_345,
        "error_bound": 0.05,
        "active": (0,),
    }
    return Recommendation(**(values | changes))


UNDECIDED = {"final": False, "reason": "running", "active": (0, 1), "error_bound": None}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "tea: identified as the best after 12,345 assignments (error ≤ 0.05)"),
        (
            {"reason": "measuring"},
            "tea: identified as the best after 12,345 assignments (error ≤ 0.05)",
        ),
        (
            {"reason": "equivalent"},
            "tea: equivalent to the best, within the tolerance, after 12,345 assignments (error ≤ "
            "0.05)",
        ),
        (
            {"final": False, "reason": "running", "active": (0, 1), "error_bound": None},
            "tea: leading, not identified (still running; 2 options remain) after 12,345 "
            "assignments (no proven error bound)",
        ),
        (
            UNDECIDED | {"claims": 0.05, "pulls": 1},
            "tea: leading, not identified (still running; 2 options remain) after 1 assignment "
            "(once identified: error ≤ 0.05)",
        ),
        (
            UNDECIDED | {"claims": 0.05, "pulls": 0},
            "no leader yet: no outcome counts so far (still running; 2 options remain; once "
            "identified: error ≤ 0.05)",
        ),
        (
            UNDECIDED | {"reason": "max_pulls"},
            "tea: leading, not identified (stopped at its limit of assignments; 2 options remain) "
            "after 12,345 assignments (no proven error bound)",
        ),
        (
            UNDECIDED | {"reason": "stopped", "claims": 0.05},
            "tea: leading, not identified (stopped by hand; 2 options remain) after 12,345 "
            "assignments (an answer before the end has no proven error bound)",
        ),
        (
            UNDECIDED | {"reason": "out of luck"},
            "tea: leading, not identified (stopped: out of luck; 2 options remain) after 12,345 "
            "assignments (no proven error bound)",
        ),
        (
            {"claims": 0.05, "error_bound": None, "contradicted": True},
            "tea: identified as the best after 12,345 assignments (rewards contradict the "
            "assumptions: no error bound holds)",
        ),
    ],
)
def test_a_recommendation_says_how_far_it_can_be_relied_on(
    changes: dict[str, Any], text: str
) -> None:
    assert str(recommendation(**changes)) == text
