"""Pairs of a set and their tolerance; intervals and pulls that were lost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import BatchOutcome, Frame, Sampling, Scale, StakeGrid
from bestarm.policies.anytime.evidence import TopTargetsEvidence
from bestarm.policies.anytime.intervals import lower_ends

TARGETS = np.array([[-0.5], [0.5]])
EVEN, SPREAD = np.full(2, 0.5), np.full(2, 1e-3)
TOLERANCE = 0.1
GRID = StakeGrid.make()


def steady(means: Array, *, seed: int, batches: int = 6) -> list[BatchOutcome]:
    """Batches of 200 pulls of two arms whose rewards are always their means."""
    rng = np.random.default_rng(seed)
    frame = Frame(
        Sampling(TARGETS, EVEN, SPREAD),
        guess=means,
        spread=SPREAD,
        scale=Scale(0.0, 1.0),
        size=200,
        pulls=0,
    )
    made = []
    for _ in range(batches):
        arms = rng.integers(0, 2, 200)
        made.append(BatchOutcome(frame, Summary.from_pulls(arms, means[arms], size=2)))
    return made


@pytest.mark.parametrize(("behind", "shown"), [(0.5, True), (1.5, False)])
def test_a_target_is_shown_to_be_within_the_tolerance_and_not_within_twice_of_it(
    behind: float, shown: bool
) -> None:
    """The first target is worse than the second by half the tolerance, or by one and a half.

    Where it is worse by more than ε, its wealth is a supermartingale and reaches 10⁴ with
    probability 10⁻⁴ at most, whatever the seed. At half of ε it gains at least 0.05 a pull for
    every unit of λ.
    """
    means = np.array([0.5, 0.5 + behind * TOLERANCE])
    evidence = TopTargetsEvidence(
        TARGETS, level=math.log(1e4), top=1, tolerance=TOLERANCE, grid=GRID
    )
    evidence.rank(np.array([-1.0]), steady(means, seed=4))
    assert evidence.chosen.tolist() == [0]
    assert evidence.decided is shown


def test_a_target_chosen_late_has_the_wealth_of_one_chosen_from_the_first() -> None:
    """The wealth of a pair is a function of all batches; it must not begin where it looks good."""
    past = steady(np.array([0.4, 0.6]), seed=7)
    worse, better = np.array([-1.0]), np.array([1.0])
    early, late = (
        TopTargetsEvidence(TARGETS, level=50.0, top=1, tolerance=TOLERANCE, grid=GRID)
        for _ in range(2)
    )
    for number in range(len(past)):
        early.rank(better, past[: number + 1])
        late.rank(worse, past[: number + 1])
    late.rank(better, past)
    np.testing.assert_array_equal(late.log_evidence(), early.log_evidence())
    assert early.log_evidence().max() > 1


def test_lost_pulls_count_in_intervals_as_in_bets() -> None:
    """An end is the v at which bets against y·θ ≤ v reach the level: a margin of −v on each pull.

    Bets take the margin pull by pull, those that were lost included; the interval must agree.
    """
    rng = np.random.default_rng(5)
    policy = AnytimeBAI(Problem(np.eye(3)), bounds=(0, 1), missing="worst-case")
    for _ in range(8):
        plan = policy.plan()
        assert plan is not None
        assert plan.weights is not None
        lost = rng.multinomial(5, plan.weights)
        counts = rng.multinomial(plan.pulls, plan.weights)
        yes = rng.binomial(counts, [0.9, 0.5, 0.1]).astype(float)
        policy.update(Summary(counts, yes, yes, lost))
    rows = policy._targets[[0, 0, 1]] - policy._targets[[1, 2, 2]]
    ends = lower_ends(rows, policy._past, level=2.0, grid=GRID)
    assert sum(batch.totals.lost.sum() for batch in policy._past) == 40
    for row, end in zip(rows, ends, strict=True):
        growth = [b.frame.bets(row[None], margin=-end).log_growth(b) for b in policy._past]
        assert GRID.log_value(np.sum(growth, axis=0))[0] == pytest.approx(2.0, abs=1e-9)


def test_intervals_spend_delta_on_all_ordered_pairs() -> None:
    """Both ends, for a problem of 4 targets: log(12/δ) is what each of 12 events must reach."""
    rng = np.random.default_rng(6)
    policy = AnytimeBAI(Problem(np.eye(4), delta=0.06), bounds=(0, 1))
    for _ in range(6):
        plan = policy.plan()
        assert plan is not None
        assert plan.weights is not None
        counts = rng.multinomial(plan.pulls, plan.weights)
        yes = rng.binomial(counts, [0.6, 0.5, 0.4, 0.3]).astype(float)
        policy.update(Summary(counts, yes, yes))
    found = policy.intervals()
    others = np.arange(4) != found.leader
    rows = (policy._targets[found.leader] - policy._targets)[others]
    level = math.log(12 / 0.06)
    np.testing.assert_allclose(
        found.low[others], lower_ends(rows, policy._past, level=level, grid=GRID)
    )
    np.testing.assert_allclose(
        found.high[others], -lower_ends(-rows, policy._past, level=level, grid=GRID)
    )
    assert found.delta == 0.06
