"""P1-RAGE and P1-Peace on arms for which every design is known."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from plans import equal_rewards, next_plan, next_weights

from bestarm import Problem, simulate
from bestarm.environments import small_gap
from bestarm.field.moving_means import malicious
from bestarm.field.od_linbai import ODLinBAI
from bestarm.field.p1_rage import P1RAGE, P1Peace
from bestarm.numerics.geometry import Array

# Arms with nothing in common: the designs for k of them, and their G-design, are uniform on them,
# and ρ = 2k. So there are ⌈log₂ 8⌉ = 3 epochs after the first pull.
PROBLEM = Problem(np.eye(4))


def run(policy: P1RAGE, sums: list[float]) -> Array:
    """Tell a policy its first two plans, with all rewards in the second; the weights of a third."""
    for plan_sums in ([0.0] * 4, sums):
        policy.update(equal_rewards([next_plan(policy).pulls, 0, 0, 0], plan_sums))
    return next_weights(policy)


@pytest.mark.parametrize("method", [P1RAGE, P1Peace])
def test_one_pull_then_epochs_of_equal_length(method: type[P1RAGE]) -> None:
    policy, lengths = method(PROBLEM, budget=32), []
    while (plan := policy.plan()) is not None:
        lengths.append(plan.pulls)
        policy.update(equal_rewards([plan.pulls, 0, 0, 0], [0.0] * 4))
    assert lengths == [1, 10, 10, 10, 1]  # ⌊32/3⌋ = 10
    assert policy.recommend().reason == "budget"


def test_p1_rage_plays_rage_through_on_its_estimate() -> None:
    policy = P1RAGE(PROBLEM, budget=32)
    # After the first pull all scores tie: every phase has all arms, and the second plan is uniform.
    # θ̂ = s/(p·11) with p = 1/4: gaps to the leader 0, 0.3, 0.6 and 10.
    weights = run(policy, (np.array([10.0, 9.7, 9.4, 0.0]) * 11 / 4).tolist())
    np.testing.assert_allclose(policy.theta, [10.0, 9.7, 9.4, 0.0])
    # Phases: all four; then those within 1/2, two arms; then within 1/4, one.
    rage = (np.full(4, 1 / 4) + np.array([0.5, 0.5, 0, 0])) / 2
    np.testing.assert_allclose(weights, (rage + 1 / 4) / 2, atol=1e-3)
    assert policy.recommend().target == 0


def test_p1_peace_halves_the_difficulty() -> None:
    weights = run(P1Peace(PROBLEM, budget=32), [0.0, 1.0, 0.0, 3.0])
    # ρ: 8 for all, at most 4 for the two leading ones, then one is left.
    peace = (np.full(4, 1 / 4) + np.array([0, 0.5, 0, 0.5])) / 2
    np.testing.assert_allclose(weights, (peace + 1 / 4) / 2, atol=1e-3)


def test_it_errs_no_more_often_than_the_authors_runs() -> None:
    """Their errors at 3010 pulls: 25 and 103 of 10,000. More than 2 and 4 of 40: below 2e-4."""
    world = small_gap(10, 0.1, baseline=0.0)
    for method, most in ((P1RAGE, 2), (P1Peace, 4)):
        results = simulate(partial(method, budget=3010), world, runs=40)
        assert (~results.correct).sum() <= most


def test_a_first_third_that_lies_does_not_decide() -> None:
    """Where every elimination fails, as in all of the authors' runs; theirs erred in 0.4."""
    world = malicious()
    robust = simulate(partial(P1RAGE, budget=10_000), world, runs=30)
    assert robust.error_rate < 0.7  # more than 3 standard errors above
    assert simulate(partial(ODLinBAI, budget=10_000), world, runs=10).error_rate == 1.0
