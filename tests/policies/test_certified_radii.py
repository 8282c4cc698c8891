"""How large a lead the certified index rules ask for: enough for δ, and no more."""

from __future__ import annotations

import numpy as np

from bestarm import Problem, Summary, bounds
from bestarm.policies import LUCB, ActionElimination
from bestarm.presampled import PresampledRewards

ARMS, DELTA, SIGMA, PULLS = 4, 0.08, 0.7, 25
TURN = 300.0  # pulls at which the boundary is tightest, fixed beforehand


def after(policy: ActionElimination | LUCB, lead: float) -> tuple[int, ...]:
    """The arms left once every arm was pulled equally often and the first leads by `lead`."""
    policy._counts = np.full(ARMS, PULLS - 1)
    policy._sums = policy._counts * np.array([lead, 0.0, 0.0, 0.0])
    ones = np.ones(ARMS, dtype=np.int64)
    policy.update(Summary(ones, np.array([lead, 0.0, 0.0, 0.0]), np.array([lead**2, 0, 0, 0])))
    return policy.recommend().active


def test_action_elimination_asks_for_the_radius_of_a_difference() -> None:
    """A difference of two means has twice the variance of one; K − 1 of them could be wrong.

    By `bounds.mixture_radius`, whose level has tests of its own, no smaller lead proves δ.
    """
    needed = bounds.mixture_radius(
        np.asarray(2 * SIGMA**2 / PULLS),
        delta=DELTA / (ARMS - 1),
        reference=np.asarray(2 * SIGMA**2 / TURN),
    )
    problem = Problem(np.eye(ARMS), delta=DELTA)
    for factor, left in ((0.999, (0, 1, 2, 3)), (1.001, (0,))):
        policy = ActionElimination(problem, sigma=SIGMA, radius="certified")
        assert after(policy, factor * float(needed)) == left


def test_lucb_asks_for_the_radii_of_both_means() -> None:
    """The leader's mean may be too high and the best arm's too low, each of K with δ/K."""
    radius = bounds.mixture_radius(
        np.asarray(SIGMA**2 / PULLS), delta=DELTA / ARMS, reference=np.asarray(SIGMA**2 / TURN)
    )
    problem = Problem(np.eye(ARMS), delta=DELTA)
    for factor, left in ((0.999, (0, 1, 2, 3)), (1.001, (0,))):
        policy = LUCB(problem, sigma=SIGMA, radius="certified")
        assert after(policy, factor * 2 * float(radius)) == left


def test_equal_arms_are_seldom_told_apart() -> None:
    """Two equal arms, Gaussian noise, 400 runs of 2,000 rounds: any answer is due to chance.

    At δ = 0.1 either of them is dropped with probability at most δ, so one of them with at most 2δ.
    Some 11 % of runs end so, and 47 % with a lead √2 too small. With fresh seeds a right rule
    would fail this less than once in 10⁶ times: 2δ is five standard errors above 11 %.
    """
    rng = np.random.default_rng(1)
    problem = Problem(np.eye(2), delta=0.1)
    rows, common = np.arange(4000), np.zeros(4000)
    named = 0
    for _ in range(400):
        policy = ActionElimination(problem, sigma=1.0, radius="certified")
        first = rng.standard_normal(2)
        policy.update(Summary(np.array([1, 1]), first, first**2))
        table = rng.standard_normal((4000, 2))
        table.flags.writeable = False
        policy.follow(PresampledRewards(table, rows, common))
        named += policy.recommend().final
    assert 0 < named < 0.2 * 400
