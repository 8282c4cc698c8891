"""LUCB and action elimination: round by round as planned, and many rounds on presampled rewards."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import next_counts, run

from bestarm import (
    LUCB,
    ActionElimination,
    Plan,
    Problem,
    Summary,
    bounds,
    compiling,
    simulate,
)
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.numerics.geometry import Array
from bestarm.policies.means import action_elimination, lucb
from bestarm.policies.means.base import Radius, radius_after
from bestarm.presampled import PresampledRewards

RULES = [LUCB, ActionElimination]
LIL: Radius = (2.2, 0.0125, 0.0)
MIXTURE: Radius = (1.0, 4.0, 300.0)
ARMS, DELTA, SIGMA, PULLS = 4, 0.08, 0.7, 25
RHO = 300.0  # pulls for which the certified radius is chosen, fixed beforehand


def presample(seed: int, arms: int, pulls: int) -> PresampledRewards:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(5, arms)) + np.linspace(1, 0, arms)
    table.flags.writeable = False
    return PresampledRewards(table, rng.integers(0, 5, size=pulls), 0.5 * rng.normal(size=pulls))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rule=st.sampled_from(RULES),
    radius=st.sampled_from(["lil", "certified"]),
    seed=st.integers(0, 10**6),
    arms=st.integers(2, 6),
    block=st.integers(1, 200),
    cap=st.one_of(st.none(), st.integers(1, 750)),
)
def test_many_rounds_at_once_are_the_planned_rounds(
    rule: type[LUCB | ActionElimination],
    radius: Literal["lil", "certified"],
    seed: int,
    arms: int,
    block: int,
    cap: int | None,
) -> None:
    problem = Problem(np.eye(arms))
    rewards = presample(seed, arms, 600)
    make = partial(rule, problem, sigma=0.3, radius=radius, max_pulls=cap)
    assert vars(run(make(), rewards)) == vars(run(make(), rewards, block))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("radius", ["lil", "certified"])
def test_python_code_decides_as_compiled_code_does(
    rule: type[LUCB | ActionElimination],
    radius: Literal["lil", "certified"],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A live experiment runs rounds as Python code, a simulation of it compiles them."""
    make = partial(rule, Problem(np.eye(4)), sigma=0.1, radius=radius)
    compiled = run(make(), presample(5, 4, 400), 400)
    monkeypatch.setattr(compiling._Tiered, "__call__", lambda self, *each: self.py_func(*each))
    assert vars(run(make(), presample(5, 4, 400))) == vars(compiled)
    assert compiled.final


def test_arms_that_were_pulled_unequally_are_eliminated_as_planned() -> None:
    """Many rounds at once need arms with equally many pulls; here an adopted plan had others."""
    made = []
    for block in (0, 300):
        policy = ActionElimination(Problem(np.eye(3)), sigma=0.3)
        policy.plan()
        policy.adopt(Plan.fixed([9, 1, 4], phase=1))
        pulled = np.repeat(np.arange(3), [9, 1, 4])
        policy.update(Summary.from_pulls(pulled, 0.1 * pulled, size=3))
        made.append(vars(run(policy, presample(3, 3, 600), block)))
    assert made[0] == made[1]
    assert made[0]["final"]


# --- shortcuts of the loops: without any they decide the same, to the bit ------------------------


def far_rewards(seed: int) -> PresampledRewards:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(300, 5)) + np.array([0.5, 0.3, 0.0, 0.0, -0.5])
    table.flags.writeable = False
    return PresampledRewards(table, rng.integers(300, size=6000), np.zeros(6000))


def eliminated(
    presampled: PresampledRewards, counts: Array, sums: Array, radius: Radius
) -> list[int]:
    """Action elimination from its definition; changes counts and sums."""
    active, used = list(range(len(counts))), 0
    while len(active) > 1 and used + len(active) <= len(presampled.rows):
        for arm in active:
            sums[arm] += presampled.table[presampled.rows[used], arm] + presampled.common[used]
            counts[arm] += 1
            used += 1
        means = [sums[arm] / counts[arm] for arm in active]
        best = active[int(np.argmax(means))]
        width = 2.0 * radius_after(int(counts[best]), radius)
        bar = max(means) - width
        active = [arm for arm, mean in zip(active, means, strict=True) if bar < mean + width]
    return active


@pytest.mark.parametrize("radius", [LIL, MIXTURE])
@pytest.mark.parametrize("start", [1, 40])
def test_elimination_drops_whom_its_definition_drops(radius: Radius, start: int) -> None:
    """An adopted plan may have pulled the arms before, each as often as the others."""
    for seed in range(5):
        presampled = far_rewards(seed)
        counts, sums, active = np.full(5, start), np.full(5, 0.1 * start), np.arange(5)
        plain = counts.copy(), sums.copy()
        _, _, left = action_elimination.advance(
            presampled.parts, active, counts, sums, radius, 2.0, 6000
        )
        assert active[:left].tolist() == eliminated(presampled, *plain, radius)
        assert counts.tolist() == plain[0].tolist()
        assert sums.tolist() == plain[1].tolist()
        assert left < 5


def test_lucb_does_not_depend_on_how_many_radii_are_tabulated() -> None:
    presampled, runs = far_rewards(3), []
    known = lucb.first_radii(LIL)
    for first in (known, known[:50].copy(), np.empty(0)):
        pair, counts, sums = np.empty(2, dtype=np.int64), np.full(5, 10), np.full(5, 1.0)
        found = lucb.advance(presampled.parts, pair, counts, sums, LIL, first, 6000)
        runs.append((found, pair.tolist(), counts.tolist(), sums.tolist()))
    assert runs[0] == runs[1] == runs[2]
    assert runs[0][0][1]


@pytest.mark.parametrize("n", [1, 2, 77, 10**6])
def test_radii_are_those_of_bounds(n: int) -> None:
    problem = Problem(np.eye(ARMS), delta=DELTA)
    lil = bounds.lil_radius(np.array([n]), sigma=SIGMA, delta=DELTA, arms=ARMS)[0]
    assert radius_after(n, LUCB(problem, sigma=SIGMA)._radius) == pytest.approx(lil, rel=1e-12)
    for rule, share in ((LUCB, DELTA / ARMS), (ActionElimination, DELTA / (ARMS - 1))):
        variance, reference = np.asarray(SIGMA**2 / n), np.asarray(SIGMA**2 / RHO)
        mixture = float(bounds.mixture_radius(variance, delta=share, reference=reference))
        found = radius_after(n, rule(problem, sigma=SIGMA, radius="certified")._radius)
        assert found == pytest.approx(mixture, rel=1e-12)


@given(st.floats(1e-100, 0.5), st.integers(1, 10**6), st.booleans())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_radii_fall_with_the_pulls(delta: float, pulls: int, lil: bool) -> None:
    radius = (1.0, delta if lil else bounds.mixture_level(delta), 0.0 if lil else RHO)
    assert radius_after(pulls + 1, radius) <= radius_after(pulls, radius)


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
        policy.follow(PresampledRewards(table, rows, common))
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
