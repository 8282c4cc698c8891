"""LUCB and action elimination: by the round as planned, and compiled on rewards known ahead."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm import LUCB, ActionElimination, Problem, Recommendation, Summary, bounds
from bestarm.geometry import Array
from bestarm.policies.index_rule import IndexRule, Integers

RULES = [LUCB, ActionElimination]


def _ahead(seed: int, arms: int, pulls: int) -> tuple[Array, Integers, Array]:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(5, arms)) + np.linspace(1, 0, arms)
    return table, rng.integers(0, 5, size=pulls), 0.5 * rng.normal(size=pulls)


def _by_plans(policy: IndexRule, ahead: tuple[Array, Integers, Array]) -> Recommendation:
    """Each round as a plan, in index order, on the same rewards."""
    table, rows, common = ahead
    used = 0
    while (plan := policy.plan()) is not None and used + plan.pulls <= len(rows):
        assert plan.counts is not None
        arms = np.flatnonzero(plan.counts)
        span = slice(used, used + len(arms))
        rewards = table[rows[span], arms] + common[span]
        policy.update(Summary.from_pulls(arms, rewards, size=policy.problem.arms))
        used += len(arms)
    return policy.recommend()


def _compiled(
    policy: IndexRule, ahead: tuple[Array, Integers, Array], block: int
) -> Recommendation:
    """Blocks of rewards known ahead, and a plan wherever a block cannot be used."""
    table, rows, common = ahead
    used = 0
    while (plan := policy.plan()) is not None and used + plan.pulls <= len(rows):
        span = slice(used, used + block)
        pulls, _ = policy.follow(table, rows[span], common[span])
        if not pulls:
            assert plan.counts is not None
            arms = np.flatnonzero(plan.counts)
            few = slice(used, used + len(arms))
            rewards = table[rows[few], arms] + common[few]
            policy.update(Summary.from_pulls(arms, rewards, size=policy.problem.arms))
            pulls = len(arms)
        used += pulls
    return policy.recommend()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rule=st.sampled_from(RULES),
    seed=st.integers(0, 10**6),
    arms=st.integers(2, 6),
    block=st.integers(1, 400),
    cap=st.one_of(st.none(), st.integers(1, 3000)),
)
def test_the_compiled_rounds_are_the_planned_rounds(
    rule: type[LUCB | ActionElimination], seed: int, arms: int, block: int, cap: int | None
) -> None:
    problem = Problem(np.eye(arms))
    ahead = _ahead(seed, arms, 3000)
    make = partial(rule, problem, sigma=0.7, max_pulls=cap)
    planned, compiled = _by_plans(make(), ahead), _compiled(make(), ahead, block)
    assert planned.pulls == compiled.pulls
    assert (planned.target, planned.final, planned.reason) == (
        compiled.target,
        compiled.final,
        compiled.reason,
    )
    assert planned.active == compiled.active


def test_lucb_by_hand() -> None:
    """Three rounds against the rule written out."""
    problem = Problem(np.eye(3), delta=0.2)
    policy = LUCB(problem, sigma=1.0)
    policy.update(Summary(np.ones(3, int), np.array([1.0, 3.0, 2.0]), np.array([1.0, 9.0, 4.0])))
    plan = policy.plan()
    assert plan is not None
    assert plan.counts is not None
    assert plan.counts.tolist() == [0, 1, 1]  # equal radii: the challenger has the next mean
    radius = bounds.lil_radius(np.array([1]), sigma=1.0, delta=0.2, arms=3)[0]
    by_hand = 2 * 1.1 * math.sqrt(1.01 * math.log(math.log(3.01) / (0.2 / 3)) / 2)
    assert radius == pytest.approx(by_hand, rel=1e-12)
    policy.update(Summary(np.array([0, 1, 1]), np.array([0, -50.0, 1.0]), np.array([0, 2500.0, 1])))
    # Means are now 1, −23.5, 1.5: arm 2 leads; arm 0, pulled once, has the widest radius.
    plan = policy.plan()
    assert plan is not None
    assert plan.counts is not None
    assert plan.counts.tolist() == [1, 0, 1]


def test_action_elimination_drops_for_good() -> None:
    policy = ActionElimination(Problem(np.eye(3)), sigma=0.1)
    policy.update(Summary(np.ones(3, int), np.array([5.0, 4.9, -5.0]), np.array([25, 24.01, 25])))
    assert policy.recommend().active == (0, 1)
    plan = policy.plan()
    assert plan is not None
    assert plan.counts is not None
    assert plan.counts.tolist() == [1, 1, 0]


@pytest.mark.parametrize("rule", RULES)
def test_a_cap_is_kept_to_the_pull_and_is_never_final(
    rule: type[LUCB | ActionElimination],
) -> None:
    for cap in (1, 3, 4, 11):
        policy = rule(Problem(np.eye(4)), sigma=50.0, max_pulls=cap)
        answer = _by_plans(policy, _ahead(1, 4, 100))
        assert (answer.pulls, answer.final, answer.reason) == (cap, False, "max_pulls")
