"""LUCB and action elimination: by the round as planned, and compiled on rewards known ahead."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm import (
    LUCB,
    ActionElimination,
    Plan,
    Problem,
    Recommendation,
    Summary,
    bounds,
    simulate,
)
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.numerics.geometry import Array
from bestarm.policies.means.base import IndexRule
from bestarm.policies.stepwise import Indices
from bestarm.presampled import PresampledRewards

RULES = [LUCB, ActionElimination]


def _ahead(seed: int, arms: int, pulls: int) -> tuple[Array, Indices, Array]:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(5, arms)) + np.linspace(1, 0, arms)
    table.flags.writeable = False
    return table, rng.integers(0, 5, size=pulls), 0.5 * rng.normal(size=pulls)


def _by_plans(policy: IndexRule, presampled: tuple[Array, Indices, Array]) -> Recommendation:
    """Each round as a plan, in index order, on the same rewards."""
    table, rows, common = presampled
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
    policy: IndexRule, presampled: tuple[Array, Indices, Array], block: int
) -> Recommendation:
    """Blocks of rewards known ahead, and a plan wherever a block cannot be used."""
    table, rows, common = presampled
    used = 0
    while (plan := policy.plan()) is not None and used + plan.pulls <= len(rows):
        span = slice(used, used + block)
        pulls, _ = policy.follow(PresampledRewards(table, rows[span], common[span]))
        if not pulls:
            assert plan.counts is not None
            arms = np.flatnonzero(plan.counts)
            few = slice(used, used + len(arms))
            rewards = table[rows[few], arms] + common[few]
            policy.update(Summary.from_pulls(arms, rewards, size=policy.problem.arms))
            pulls = len(arms)
        used += pulls
    return policy.recommend()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rule=st.sampled_from(RULES),
    radius=st.sampled_from(["lil", "certified"]),
    seed=st.integers(0, 10**6),
    arms=st.integers(2, 6),
    block=st.integers(1, 200),
    cap=st.one_of(st.none(), st.integers(1, 750)),
)
def test_the_compiled_rounds_are_the_planned_rounds(
    rule: type[LUCB | ActionElimination],
    radius: Literal["lil", "certified"],
    seed: int,
    arms: int,
    block: int,
    cap: int | None,
) -> None:
    problem = Problem(np.eye(arms))
    presampled = _ahead(seed, arms, 600)
    make = partial(rule, problem, sigma=0.3, radius=radius, max_pulls=cap)
    planned, compiled = _by_plans(make(), presampled), _compiled(make(), presampled, block)
    assert planned.pulls == compiled.pulls
    assert (planned.target, planned.final, planned.reason) == (
        compiled.target,
        compiled.final,
        compiled.reason,
    )
    assert planned.active == compiled.active
    assert planned.error_bound == compiled.error_bound


def test_arms_that_were_pulled_unequally_are_eliminated_as_planned() -> None:
    """The compiled rounds need arms with equally many pulls; here an adopted plan had others."""
    made = []
    for play in (_by_plans, partial(_compiled, block=300)):
        policy = ActionElimination(Problem(np.eye(3)), sigma=0.3)
        policy.plan()
        policy.adopt(Plan.fixed([9, 1, 4], phase=1))
        pulled = np.repeat(np.arange(3), [9, 1, 4])
        policy.update(Summary.from_pulls(pulled, 0.1 * pulled, size=3))
        made.append(play(policy, _ahead(3, 3, 600)))
    planned, compiled = made
    assert (planned.pulls, planned.active) == (compiled.pulls, compiled.active)
    assert planned.final


@pytest.mark.parametrize("radius", ["lil", "certified"])
def test_compiled_eliminations_are_those_of_widths_computed_in_every_round(
    radius: Literal["lil", "certified"],
) -> None:
    """Over rounds so many that most of them are made without a width."""
    sigma = {"lil": 0.08, "certified": 0.3}[radius]
    late = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = np.array([[0.15, 0.0, 0.05]])
        table.flags.writeable = False
        presampled = table, np.zeros(1500, dtype=np.int64), 0.3 * rng.normal(size=1500)
        make = partial(ActionElimination, Problem(np.eye(3)), radius=radius, sigma=sigma)
        planned, compiled = _by_plans(make(), presampled), _compiled(make(), presampled, 1500)
        assert (planned.pulls, planned.active) == (compiled.pulls, compiled.active)
        late += planned.final and planned.pulls > 200
    assert late


@given(st.floats(1e-100, 0.5), st.integers(1, 10**6), st.booleans())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_radii_fall_with_the_pulls(delta: float, pulls: int, lil: bool) -> None:
    from bestarm.policies.means.kernels import _radius  # noqa: PLC0415 - compiles

    constants = (1.0, delta if lil else bounds.mixture_level(delta), 0.0 if lil else 300.0)
    assert _radius(pulls + 1, constants) <= _radius(pulls, constants)


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


# --- certified -------------------------------------------------------------------------------


def test_the_published_radius_is_not_what_its_theorem_proves() -> None:
    """Lemma 3 at the level the radius is used at: a bound above 1, that is, none.

    To prove δ/K it would have to run at a level 10⁵ times smaller; the certified radius is smaller
    than that by far, and beyond some thousand pulls than the published one.
    """
    epsilon, share = 0.01, 0.1 / 8
    proven = (2 + epsilon) / epsilon * (share / math.log(1 + epsilon)) ** (1 + epsilon)
    assert proven > 1
    honest = math.log(1 + epsilon) * (share * epsilon / (2 + epsilon)) ** (1 / (1 + epsilon))
    n = np.array([3_000, 30_000, 300_000])
    published = bounds.lil_radius(n, sigma=1.0, delta=0.1, arms=8)
    needed = bounds.lil_radius(n, sigma=1.0, delta=8 * honest, arms=8)
    certified = bounds.mixture_radius(1 / n, delta=share, reference=np.asarray(1 / 300))
    assert (certified < published).all()
    assert (needed > 1.5 * published).all()


@pytest.mark.parametrize("rule", RULES)
def test_only_a_certified_answer_that_is_final_claims_delta(
    rule: type[LUCB | ActionElimination],
) -> None:
    presampled = _ahead(3, 3, 3000)
    problem = Problem(np.eye(3), delta=0.07)
    published = _by_plans(rule(problem, sigma=0.1), presampled)
    certified = _by_plans(rule(problem, sigma=0.1, radius="certified"), presampled)
    capped = _by_plans(rule(problem, sigma=9.0, radius="certified", max_pulls=50), presampled)
    assert (published.final, published.error_bound) == (True, None)
    assert (certified.final, certified.error_bound) == (True, 0.07)
    assert any("nothing drifts" in sentence for sentence in certified.assumptions)
    assert published.assumptions == ()
    assert (capped.final, capped.error_bound) == (False, None)


@pytest.mark.parametrize("rule", RULES)
def test_certified_rules_keep_delta_on_coins_and_lose_it_to_a_drift(
    rule: type[LUCB | ActionElimination],
) -> None:
    """Rewards in [0, 1] at Hoeffding's σ: few errors without a drift, hardly anything else with.

    δ = 0.1. Without a drift the upper end of a 99 % interval over 300 runs is below δ; a rule that
    erred in 3 % of runs would fail that once in 10³ times. The drift falls by 0.3 at every second
    pull of a pair, after the arm to come is known: fixed orders have no defence.
    """
    sigma = bounds.sub_gaussian_scale((0, 1))
    method = partial(rule, sigma=sigma, radius="certified", max_pulls=200_000)
    users = np.array([[1, 0], [1, 0], [1, 1], [0, 0], [0, 1]], dtype=float)  # means 0.6 and 0.4
    fair = simulate(method, Ratings(users), runs=300, delta=0.1)
    assert fair.final.all()
    assert fair.error_interval(0.99)[1] < 0.1
    tilted = Semiparametric(
        np.eye(2),
        [0.1, -0.1],
        noise=0.0,
        baseline=baselines.custom(lambda t: 0.5 - 0.3 * (t % 2), bound=0.5),
    )
    # Deterministic rewards in [0.1, 0.6]: one run says all.
    assert simulate(method, tilted, runs=3, delta=0.1).error_rate == 1
