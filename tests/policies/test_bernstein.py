"""Empirical-Bernstein elimination: its evidence by quadrature, δ kept without a drift, lost with.

Seeds are fixed; each test of a guarantee states how often a correct implementation would fail it.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from first_runs import enough
from plans import next_counts
from scipy.integrate import quad

from bestarm import BernsteinElimination, Problem, Summary, bounds, simulate
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.errors import InvalidInputError

# --- the evidence ----------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [-40.0, -3.0, 0.0, 2.0, 35.0, 300.0])
@pytest.mark.parametrize("variation", [0.0, 5.0, 700.0])
@pytest.mark.parametrize("reach", [0.5, 2.0])
def test_the_evidence_is_the_mixture_it_is_said_to_be(
    lead: float, variation: float, reach: float
) -> None:
    """Against the integral over λ, 1 − cλ from the gamma law cut off at 1."""
    reference = 3.0
    start = reference / reach**2

    def density(u: float) -> float:
        return float(u ** (start - 1) * math.exp(-start * u))

    def exponent(u: float) -> float:
        return lead * (1 - u) / reach + variation * (math.log(u) + 1 - u) / reach**2

    # The integrand's peak is known; its height is taken out, or nothing would be left of it.
    shape, rate = (
        (variation + reference) / reach**2,
        (variation + reference) / reach**2 + lead / reach,
    )
    peak = shape / rate if rate > shape else 1.0
    top = exponent(peak)
    width = peak / math.sqrt(shape)
    ends = [max(peak - 8 * width, 0.0), min(peak + 8 * width, 1.0)]
    mixed, _ = quad(
        lambda u: density(u) * math.exp(exponent(u) - top) if u > 0 else 0.0,
        0,
        1,
        points=[ends[0], peak, ends[1]],
        limit=500,
        epsabs=0,
        epsrel=1e-10,
    )
    total, _ = quad(density, 0, 1)
    got = bounds.bernstein_evidence(
        np.array([lead]), np.array([variation]), reach=reach, reference=reference
    )[0]
    if got == -math.inf:  # far below zero: no evidence, and none is claimed
        assert lead < 0
    else:
        assert got == pytest.approx(top + math.log(mixed / total), rel=1e-6, abs=1e-6)


def test_no_number_of_pulls_breaks_the_evidence() -> None:
    """At 10¹² pulls huge parts cancel: what is left is still near the normal mixture."""
    variation, reference = np.array([1e12]), 30.0
    lead = 5e6 * np.ones(1)  # five standard errors
    got = bounds.bernstein_evidence(lead, variation, reach=1.0, reference=reference)[0]
    normal = 12.5 - 0.5 * math.log(1e12 / 30) + math.log(2)
    assert got == pytest.approx(normal, abs=0.3)


@pytest.mark.parametrize(("chance", "runs", "pulls"), [(0.5, 1000, 500), (0.02, 400, 2000)])
def test_the_evidence_rarely_reaches_one_over_delta_at_any_look(
    chance: float, runs: int, pulls: int
) -> None:
    """The difference of two coins alike, looked at after each pull: at most δ = 0.1.

    With skewed coins too, which take longer. An exact 10 % would fail once in a hundred times.
    """
    rng = np.random.default_rng(1)
    lead, variation = np.zeros(runs), np.zeros(runs)
    heads = np.zeros((2, runs))
    crossed = np.zeros(runs, dtype=bool)
    for n in range(pulls):
        guess = (heads + 0.5) / (n + 1)
        toss = rng.random((2, runs)) < chance
        lead += toss[0].astype(float) - toss[1]
        variation += ((toss - guess) ** 2).sum(axis=0)
        heads += toss
        evidence = bounds.bernstein_evidence(lead, variation, reach=1.0, reference=5.0)
        crossed |= evidence >= math.log(10)
    assert 0 < crossed.mean() <= 0.1 + 2.4 * math.sqrt(0.09 / runs)  # 2.4 standard errors


# --- the rule, written out reward by reward -------------------------------------------------------

ARMS, DELTA = 5, 0.08
MEANS = np.array([0.8, 0.7, 0.45, 0.3, 0.1])


def beaten(rewards: list[list[float]], guesses: list[list[float]], active: list[int]) -> list[int]:
    """Those whom the leader is shown to exceed, at log((K − 1)/δ) of all K arms there ever were."""
    sums = {arm: sum(rewards[arm]) for arm in active}
    spread = {
        arm: sum((r - g) ** 2 for r, g in zip(rewards[arm], guesses[arm], strict=True))
        for arm in active
    }
    leader = max(active, key=lambda arm: sums[arm])
    lost = []
    for arm in active:
        evidence = bounds.bernstein_evidence(
            np.asarray(sums[leader] - sums[arm]),
            np.asarray(spread[leader] + spread[arm]),
            reach=1.0,
            reference=30.0,
        )
        if arm != leader and evidence >= math.log((ARMS - 1) / DELTA):
            lost.append(arm)
    return lost


@pytest.mark.parametrize("seed", range(3))
def test_arms_are_dropped_when_the_rule_says_so(seed: int) -> None:
    """A guess is the mean before the batch: one that has seen the batch would fit too well."""
    rng = np.random.default_rng(seed)
    policy = BernsteinElimination(Problem(np.eye(ARMS), delta=DELTA), bounds=(0, 1))
    rewards: list[list[float]] = [[] for _ in range(ARMS)]
    guesses: list[list[float]] = [[] for _ in range(ARMS)]
    active, sizes = list(range(ARMS)), set()
    while (plan := policy.plan()) is not None:
        assert plan.counts is not None
        arms = np.repeat(np.arange(ARMS), plan.counts)
        paid = rng.binomial(1, MEANS[arms]).astype(float)
        for arm in active:
            seen = rewards[arm]
            guess = sum(seen) / len(seen) if seen else 0.5
            guesses[arm] += [guess] * int(plan.counts[arm])
            rewards[arm] = seen + paid[arms == arm].tolist()
        policy.update(Summary.from_pulls(arms, paid, size=ARMS))
        lost = beaten(rewards, guesses, active)
        active = [arm for arm in active if arm not in lost]
        assert list(policy.recommend().active) == active
        sizes.add(len(active))
    assert active == [0]
    assert len(sizes) >= 4  # they go one by one, so that a union over those left would show


# --- the policy ------------------------------------------------------------------------------


def _coins(*chances: float, users: int = 1000) -> Ratings:
    """Rewards 0 or 1, drawn afresh at every pull."""
    rows = (np.arange(users)[:, None] + 0.5) / users
    return Ratings((rows < np.array(chances)).astype(float), name="coins")


@pytest.mark.parametrize(
    "world", [_coins(0.6, 0.5), _coins(0.05, 0.01, 0.01), _coins(0.9, 0.8, 0.8, 0.8)], ids=str
)
def test_delta_is_kept_without_a_drift(world: Ratings) -> None:
    """The upper end of a 95 % interval over 300 runs is below δ = 0.1.

    A rule that erred in 3 % of its runs would fail this less than once in 10³ times.
    """
    method = partial(BernsteinElimination, bounds=(0, 1), growth=0.1)
    results = enough(method, world, runs=300)
    assert results.final.all()
    assert results.error_interval()[1] < 0.1


def test_an_exact_tie_is_rarely_broken() -> None:
    """Two coins alike, 20 000 pulls: a winner is named in at most 2δ of runs (either may be).

    A rule that named one twice as often would get through with probability 2e-4. Where none is
    named in the first 30, they decide: for that rule, this has probability 2e-7.
    """
    rng = np.random.default_rng(2)
    named = 0
    for run in range(80):
        policy = BernsteinElimination(
            Problem(np.eye(2)), bounds=(0, 1), growth=0.2, max_pulls=20_000
        )
        while (plan := policy.plan()) is not None:
            assert plan.counts is not None
            heads = rng.binomial(plan.counts, 0.5).astype(float)
            policy.update(Summary(plan.counts, heads, heads))
        named += policy.recommend().final
        if run + 1 == 30 and not named:
            break
    assert named <= 16


def test_a_drift_that_keeps_time_with_the_rounds_decides_the_outcome() -> None:
    """A fixed order is predictable: rewards in bounds, a wrong answer, and a claim that is void."""
    tilted = Semiparametric(
        np.eye(2),
        [0.1, -0.1],
        noise=0.0,
        baseline=baselines.custom(lambda t: 0.5 - 0.3 * (t % 2), bound=0.5),
    )
    results = simulate(partial(BernsteinElimination, bounds=(0, 1)), tilted, runs=3)
    assert results.final.all()
    assert results.error_rate == 1


def test_bounds_far_wider_than_the_spread_cost_little() -> None:
    """Rare clicks: the variance is 0.02, not the 0.25 that Hoeffding must reckon with."""
    world = _coins(0.03, 0.01)
    narrow = simulate(partial(BernsteinElimination, bounds=(0, 1)), world, runs=6)
    wide = simulate(partial(BernsteinElimination, bounds=(0, 3)), world, runs=6)
    assert wide.mean_pulls < 2.5 * narrow.mean_pulls
    assert narrow.mean_pulls < 8000


def _pull(rewards: list[list[float]]) -> Summary:
    arms = np.repeat(np.arange(len(rewards)), [len(r) for r in rewards])
    return Summary.from_pulls(arms, np.concatenate(rewards), size=len(rewards))


def test_a_reward_outside_the_bounds_is_refused_and_changes_nothing() -> None:
    policy = BernsteinElimination(
        Problem(np.eye(2), source_labels=["tea", "coffee"]), bounds=(1, 5)
    )
    with pytest.raises(InvalidInputError, match=r"'coffee' paid a reward outside .*1, 5"):
        policy.update(_pull([[1.0], [5.2]]))
    with pytest.raises(InvalidInputError, match="'tea'"):
        policy.update(_pull([[0.9], [5.0]]))
    assert policy.recommend().pulls == 0
    policy.update(_pull([[1.0], [5.0]]))
    assert policy.recommend().pulls == 2


def test_batches_grow_and_pull_active_arms_alike() -> None:
    policy = BernsteinElimination(Problem(np.eye(3)), bounds=(0, 1), growth=0.5)
    sizes = []
    for _ in range(12):
        counts = next_counts(policy)
        active = list(policy.recommend().active)
        assert len(set(counts[active])) == 1
        assert counts.sum() == counts[active].sum()
        sizes.append(int(counts[active[0]]))
        rewards = counts * np.array([0.9, 0.8, 0.1])
        policy.update(Summary(counts, rewards, rewards * [0.9, 0.8, 0.1]))
    assert any("between 0 and 1" in sentence for sentence in policy.recommend().assumptions)
    assert policy.traits.bounds == (0.0, 1.0)
    assert sizes == [1, 1, 1, 1, 2, 3, 4, 6, 9, 14, 21, 31]
    assert policy.recommend().active == (0, 1)
