"""LUCB and action elimination: round by round as planned, and many rounds on presampled rewards."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import next_counts
from plans import run as run_policy

from bestarm import (
    LUCB,
    ActionElimination,
    Plan,
    Problem,
    Summary,
    bounds,
    simulate,
)
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.policies.rounds import Radius
from bestarm.presampled import PresampledRewards

RULES = [LUCB, ActionElimination]
ARMS, DELTA, SIGMA, PULLS = 4, 0.08, 0.7, 25
RHO = 300.0  # pulls for which the certified radius is chosen, fixed beforehand


def presample(seed: int, arms: int, pulls: int) -> PresampledRewards:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(5, arms)) + np.linspace(1, 0, arms)
    table.flags.writeable = False
    return PresampledRewards(table, rng.integers(0, 5, size=pulls), 0.5 * rng.normal(size=pulls))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    radius=st.sampled_from(["lil", "certified"]),
    seed=st.integers(0, 10**6),
    arms=st.integers(2, 6),
    block=st.integers(1, 200),
    cap=st.one_of(st.none(), st.integers(1, 750)),
)
def test_many_rounds_at_once_are_the_planned_rounds(
    radius: Literal["lil", "certified"],
    seed: int,
    arms: int,
    block: int,
    cap: int | None,
) -> None:
    problem = Problem(np.eye(arms))
    rewards = presample(seed, arms, 600)
    make = partial(ActionElimination, problem, sigma=0.3, radius=radius, max_pulls=cap)
    assert vars(run_policy(make(), rewards)) == vars(run_policy(make(), rewards, block))


def test_arms_that_were_pulled_unequally_are_eliminated_as_planned() -> None:
    """Many rounds at once need arms with equally many pulls; here an adopted plan had others."""
    made = []
    for block in (0, 300):
        policy = ActionElimination(Problem(np.eye(3)), sigma=0.3)
        policy.plan()
        policy.adopt(Plan.fixed([9, 1, 4], phase=1))
        pulled = np.repeat(np.arange(3), [9, 1, 4])
        policy.update(Summary.from_pulls(pulled, 0.1 * pulled, size=3))
        made.append(vars(run_policy(policy, presample(3, 3, 600), block)))
    assert made[0] == made[1]
    assert made[0]["final"]


# --- many rounds at once: they decide as rounds one by one ---------------------------------------


def far_rewards(seed: int) -> PresampledRewards:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(300, 5)) + np.array([0.5, 0.3, 0.0, 0.0, -0.5])
    return PresampledRewards(table, rng.integers(300, size=6000), np.zeros(6000))


def eliminated(presampled: PresampledRewards, radius: Radius) -> list[int]:
    """Action elimination from its definition, after a first round without rewards."""
    counts, sums = np.ones(5, dtype=np.int64), np.zeros(5)
    active, used = list(range(5)), 0
    while len(active) > 1 and used + len(active) <= len(presampled.rows):
        for arm in active:
            sums[arm] += presampled.table[presampled.rows[used], arm] + presampled.common[used]
            counts[arm] += 1
            used += 1
        means = [sums[arm] / counts[arm] for arm in active]
        width = 2.0 * float(radius.after(counts[active[:1]])[0])
        bar = max(means) - width
        active = [arm for arm, mean in zip(active, means, strict=True) if bar < mean + width]
    return active


def test_elimination_drops_whom_its_definition_drops() -> None:
    for seed in range(5):
        presampled, policy = far_rewards(seed), ActionElimination(Problem(np.eye(5)), sigma=0.4)
        policy.update(Summary(np.ones(5, int), np.zeros(5), np.zeros(5)))
        policy.run_presampled(presampled)
        left = eliminated(presampled, policy._radius)
        assert policy.recommend().active == tuple(left)
        assert len(left) < 5


@pytest.mark.parametrize("radius", ["lil", "certified"])
@pytest.mark.parametrize("cap", [None, 3, 61, 62])
def test_runs_of_lucb_side_by_side_are_the_planned_runs(
    radius: Literal["lil", "certified"], cap: int | None
) -> None:
    """However many stand beside each other, and whenever they are given rewards."""
    problem = Problem(np.eye(4))
    make = partial(LUCB, problem, sigma=0.3, radius=radius, max_pulls=cap)
    rewards = [presample(run, 4, 3000) for run in range(7)]
    for chunk in (3000, 17):
        group, given, used = make().group(range(7)), {}, np.zeros(7, dtype=np.int64)
        for run in range(7):
            given[run] = rewards[run].after(0)
        lacking = dict.fromkeys(range(7), (0, 4))
        while lacking:
            for run, (taken, needed) in lacking.items():
                used[run] += taken
                most = slice(used[run], used[run] + max(chunk, needed))
                whole = rewards[run]
                given[run] = whole._replace(rows=whole.rows[most], common=whole.common[most])
            group.run_presampled(np.array(list(lacking)), [given[run] for run in lacking])
            lacking = group.wanted()
        for run in range(7):
            alone = run_policy(make(), rewards[run])
            assert vars(group.recommend(run)) == vars(alone)
            assert group.pulls[run] == alone.pulls
            assert not group.running[run]


@pytest.mark.parametrize("n", [1, 2, 77, 10**6])
def test_radii_are_those_of_bounds(n: int) -> None:
    problem = Problem(np.eye(ARMS), delta=DELTA)
    lil = bounds.lil_radius(np.array([n]), sigma=SIGMA, delta=DELTA, arms=ARMS)[0]
    assert LUCB(problem, sigma=SIGMA)._radius.after(np.array(n)) == pytest.approx(lil, rel=1e-12)
    for rule, share in ((LUCB, DELTA / ARMS), (ActionElimination, DELTA / (ARMS - 1))):
        variance, reference = np.asarray(SIGMA**2 / n), np.asarray(SIGMA**2 / RHO)
        mixture = float(bounds.mixture_radius(variance, delta=share, reference=reference))
        found = rule(problem, sigma=SIGMA, radius="certified")._radius.after(np.array(n))
        assert found == pytest.approx(mixture, rel=1e-12)


@given(st.floats(1e-100, 0.5), st.integers(1, 10**6), st.booleans())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_radii_fall_with_the_pulls(delta: float, pulls: int, lil: bool) -> None:
    radius = Radius(1.0, delta if lil else bounds.mixture_level(delta), 0.0 if lil else RHO)
    before, after_one_more = radius.after(np.array([pulls, pulls + 1]))
    assert after_one_more <= before


def test_lucb_by_hand() -> None:
    """Three rounds against the rule written out."""
    problem = Problem(np.eye(3), delta=0.2)
    policy = LUCB(problem, sigma=1.0)
    policy.update(Summary(np.ones(3, int), np.array([1.0, 3.0, 2.0]), np.array([1.0, 9.0, 4.0])))
    # Equal radii: the challenger has the next mean.
    assert next_counts(policy).tolist() == [0, 1, 1]
    radius = bounds.lil_radius(np.array([1]), sigma=1.0, delta=0.2, arms=3)[0]
    by_hand = 2 * 1.1 * math.sqrt(1.01 * math.log(math.log(3.01) / (0.2 / 3)) / 2)
    assert radius == pytest.approx(by_hand, rel=1e-12)
    policy.update(Summary(np.array([0, 1, 1]), np.array([0, -50.0, 1.0]), np.array([0, 2500.0, 1])))
    # Means are now 1, −23.5, 1.5: arm 2 leads; arm 0, pulled once, has the widest radius.
    assert next_counts(policy).tolist() == [1, 0, 1]


# --- certified: the lead asked for is enough for δ, and no more ----------------------------------


def after(policy: ActionElimination | LUCB, lead: float) -> tuple[int, ...]:
    """The arms left once every arm was pulled equally often and the first leads by `lead`."""
    policy._counts = np.full(ARMS, PULLS - 1)
    policy._sums = policy._counts * np.array([lead, 0.0, 0.0, 0.0])
    ones = np.ones(ARMS, dtype=np.int64)
    policy.update(Summary(ones, np.array([lead, 0.0, 0.0, 0.0]), np.array([lead**2, 0, 0, 0])))
    return policy.recommend().active


@pytest.mark.parametrize(
    ("rule", "means", "mistakes", "radii"),
    [(ActionElimination, 2, ARMS - 1, 1), (LUCB, 1, ARMS, 2)],
)
def test_a_certified_lead_is_enough_for_delta_and_no_more(
    rule: type[LUCB | ActionElimination], means: int, mistakes: int, radii: int
) -> None:
    """Action elimination asks for the radius of a difference, LUCB for the radii of both means.

    A difference of two means has twice the variance of one; K − 1 of them could be wrong. For LUCB
    the leader's mean may be too high and the best arm's too low, each of K with δ/K. By
    `bounds.mixture_radius`, whose level has tests of its own, no smaller lead proves δ.
    """
    radius = bounds.mixture_radius(
        np.asarray(means * SIGMA**2 / PULLS),
        delta=DELTA / mistakes,
        reference=np.asarray(means * SIGMA**2 / RHO),
    )
    problem = Problem(np.eye(ARMS), delta=DELTA)
    for factor, left in ((0.999, (0, 1, 2, 3)), (1.001, (0,))):
        policy = rule(problem, sigma=SIGMA, radius="certified")
        assert after(policy, factor * radii * float(radius)) == left


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
        policy.run_presampled(PresampledRewards(table, rows, common))
        named += policy.recommend().final
    assert 0 < named < 0.2 * 400


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
