"""Rules on arm means decide as their papers' formulas do, pull by pull and many pulls at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import rel_entr

from bestarm import LUCB, ActionElimination, Problem, simulate
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError
from bestarm.field.eb_tci import EBTCI
from bestarm.field.kl_lucb import KLLUCB
from bestarm.field.lil_ucb import LilUCB
from bestarm.field.means_rule import MeansRule
from bestarm.field.track_and_stop import TrackAndStop, bernoulli_weights
from bestarm.numerics.geometry import Array
from bestarm.policies import Policy
from bestarm.records import Summary

DELTA, SIGMA = 0.1, 0.7
Choose = Callable[[Array, Array], Iterator[int]]  # from counts and sums, which the caller updates


def bernoulli(p: float, q: float) -> float:
    """d(p, q) of Bernoulli laws."""
    return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))


def gaussian(p: float, q: float) -> float:
    """d(p, q) of Gaussian laws with variance σ²."""
    return (p - q) ** 2 / (2 * SIGMA**2)


def lil_ucb(counts: Array, sums: Array, *, heuristic: bool) -> Iterator[int]:
    """Jamieson et al. (2014), Figure 1, with the constants of section 5; footnote 2 has the + 2."""
    arms = len(counts)
    if heuristic:
        epsilon, beta, shift, share, level = 0.0, 0.5, 2, 1 + 10 / arms, DELTA / 5
    else:
        epsilon, beta, shift, share = 0.01, 1.0, 0, 9.0
        c = (2 + epsilon) / epsilon * (1 / math.log(1 + epsilon)) ** (1 + epsilon)
        level = brentq(lambda x: 4 * math.sqrt(c * x) + 4 * c * x - DELTA, 0, 1 / c)
    yield from range(arms)
    while not (counts >= 1 + share * (counts.sum() - counts)).any():
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.log((1 + epsilon) * counts + shift) / level
            radius = np.sqrt(2 * SIGMA**2 * (1 + epsilon) * np.log(inner) / counts)
        radius[inner <= 1] = np.inf
        yield int(np.argmax(sums / counts + (1 + beta) * (1 + math.sqrt(epsilon)) * radius))


def kl_lucb(counts: Array, sums: Array, *, bounded: bool) -> Iterator[int]:
    """Kaufmann and Kalyanakrishnan (2013), with bounds found by bisection."""
    arms = len(counts)
    d = bernoulli if bounded else gaussian
    top, bottom = (1 - 1e-12, 1e-12) if bounded else (50.0, -50.0)
    yield from range(arms)
    while True:
        means = sums / counts
        level = math.log(405.5 * arms * counts.sum() ** 1.1 / DELTA) / counts
        leader = int(np.argmax(means))

        def bound(a: int, end: float, means: Array = means, level: Array = level) -> float:
            if d(means[a], end) <= level[a]:
                return end
            return float(brentq(lambda q: d(means[a], q) - level[a], means[a], end, xtol=1e-14))

        upper = [-np.inf if a == leader else bound(a, top) for a in range(arms)]
        challenger = int(np.argmax(upper))
        if bound(leader, bottom) > upper[challenger]:
            return
        yield leader
        yield challenger


def best_weights(means: Array, d: Callable[[float, float], float]) -> Array:
    """The weights of the lower bound: they maximise the smallest cost of an alternative."""
    leader = int(np.argmax(means))

    def cost(w: Array, a: int) -> float:
        middle = (w[leader] * means[leader] + w[a] * means[a]) / (w[leader] + w[a])
        return float(w[leader] * d(means[leader], middle) + w[a] * d(means[a], middle))

    others = [a for a in range(len(means)) if a != leader]
    unit = min(cost(np.full(len(means), 1 / len(means)), a) for a in others)
    last = np.eye(len(means) + 1)[-1]

    def above(v: Array) -> Array:
        return np.array([cost(v[:-1], a) / unit - v[-1] for a in others])

    constraints: Any = [
        {"type": "eq", "fun": lambda v: v[:-1].sum() - 1, "jac": lambda _: 1 - last},
        {"type": "ineq", "fun": above},
    ]
    start = np.append(np.full(len(means), 1 / len(means)), 1.0)
    limits: Any = [(1e-6, 1.0)] * len(means) + [(0.0, None)]

    def less(v: Array) -> tuple[float, Array]:
        return -float(v[-1]), -last

    found = minimize(less, start, jac=True, bounds=limits, constraints=constraints, tol=1e-13)
    return np.asarray(found.x[:-1])


def track_and_stop(counts: Array, sums: Array, *, bounded: bool) -> Iterator[int]:
    """Garivier and Kaufmann (2016), D-tracking; weights by a general solver."""
    arms = len(counts)
    d = bernoulli if bounded else gaussian
    yield from range(arms)
    while True:
        means, total = sums / counts, counts.sum()
        leader, smallest = int(np.argmax(means)), math.inf
        for a in range(arms):
            if a != leader:
                n, m = counts[leader], counts[a]
                middle = (sums[leader] + sums[a]) / (n + m)
                evidence = n * d(means[leader], middle) + m * d(means[a], middle)
                smallest = min(smallest, evidence)
        if smallest > math.log(2 * total * (arms - 1) / DELTA):
            return
        if counts.min() < math.sqrt(total) - arms / 2:
            yield int(np.argmin(counts))
        elif (means == means[leader]).sum() > 1:
            tied = np.flatnonzero(means == means[leader])
            yield int(np.argmax(np.isin(range(arms), tied) * total / len(tied) - counts))
        else:
            yield int(np.argmax(total * best_weights(means, d) - counts))


def eb_tci(counts: Array, sums: Array) -> Iterator[int]:
    """Jourdan et al. (2022), with a coin from the same generator."""
    arms, rng = len(counts), np.random.default_rng(5)
    yield from range(arms)
    while True:
        means = sums / counts
        leader = int(np.argmax(means))
        cost = np.full(arms, np.inf)
        for a in range(arms):
            if a != leader:
                spread = 2 * SIGMA**2 * (1 / counts[leader] + 1 / counts[a])
                cost[a] = (means[leader] - means[a]) ** 2 / spread
        if cost.min() > 2 * 3.262 + 4 * math.log(4 + math.log(counts.sum() / 2)):
            return
        yield leader if rng.random() < 0.5 else int(np.argmin(cost + np.log(counts)))


CASES: dict[str, tuple[Callable[..., MeansRule], Choose]] = {
    "lil'UCB": (partial(LilUCB, sigma=SIGMA), partial(lil_ucb, heuristic=False)),
    "lil'UCB, heuristic": (
        partial(LilUCB, sigma=SIGMA, threshold="experiments"),
        partial(lil_ucb, heuristic=True),
    ),
    "KL-LUCB": (partial(KLLUCB, sigma=SIGMA), partial(kl_lucb, bounded=False)),
    "KL-LUCB, Bernoulli": (partial(KLLUCB, bounds=(0, 1)), partial(kl_lucb, bounded=True)),
    "Track-and-Stop": (partial(TrackAndStop, sigma=SIGMA), partial(track_and_stop, bounded=False)),
    "Track-and-Stop, Bernoulli": (
        partial(TrackAndStop, bounds=(0, 1)),
        partial(track_and_stop, bounded=True),
    ),
    "EB-TCI": (partial(EBTCI, sigma=SIGMA, seed=5), eb_tci),
}


def rewards(name: str, pulls: int) -> Array:
    """One row per pull: what each of four arms would pay, the third being the best; no ties."""
    rng = np.random.default_rng(11)
    means = np.array([0.35, 0.3, 0.75, 0.2])
    if "Bernoulli" in name:
        table = rng.beta(means, 1 - means, size=(pulls, 4))
    else:
        table = means + SIGMA * rng.standard_normal((pulls, 4))
    table.flags.writeable = False  # as those of streams are: kernels are compiled once
    return table


@pytest.mark.parametrize("name", CASES)
def test_a_rule_decides_as_its_formulas_do(name: str) -> None:
    method, choose = CASES[name]
    policy = method(Problem(np.eye(4), delta=DELTA))
    table = rewards(name, 120)
    counts, sums = np.zeros(4), np.zeros(4)
    for t, (row, expected) in enumerate(zip(table, choose(counts, sums), strict=False)):
        plan = policy.plan()
        assert plan is not None, f"it stopped after {t} pulls"
        assert plan.counts is not None
        assert int(np.argmax(plan.counts)) == expected, f"pull {t + 1}"
        counts[expected] += 1
        sums[expected] += row[expected]
        policy.update(Summary(plan.counts, plan.counts * row, plan.counts * row**2))
    if counts.sum() < len(table):  # the reference stopped
        assert policy.plan() is None
        assert policy.recommend().target == 2


@pytest.mark.parametrize("method", [KLLUCB, TrackAndStop])
def test_rewards_outside_the_bounds_are_refused(method: Callable[..., MeansRule]) -> None:
    policy = method(Problem(np.eye(2)), bounds=(0, 1))
    counts = np.array([1, 0])
    with pytest.raises(InvalidInputError, match="outside the bounds"):
        policy.update(Summary(counts, 2.0 * counts, 4.0 * counts))
    assert policy.recommend().pulls == 0


@pytest.mark.parametrize(
    ("method", "options", "assumption"),
    [
        (KLLUCB, {}, "1-sub-Gaussian around their option's mean, given the past"),
        (KLLUCB, {"threshold": "small", "bounds": (0, 1)}, "between 0 and 1"),
        (KLLUCB, {"threshold": "experiments"}, None),
        (TrackAndStop, {}, None),
        (TrackAndStop, {"bounds": (0, 1)}, "either 0 or 1"),
        (
            TrackAndStop,
            {"threshold": "certified", "sigma": 2},
            "2-sub-Gaussian around their option's mean, given the past",
        ),
        (TrackAndStop, {"threshold": "certified", "bounds": (0, 1)}, None),
        (EBTCI, {}, "1-sub-Gaussian around their option's mean, given the past"),
        (EBTCI, {"threshold": "experiments"}, None),
        (LilUCB, {}, None),
        *((rule, {}, None) for rule in (LUCB, ActionElimination)),
        *(
            (rule, {"radius": "certified"}, "1-sub-Gaussian around their option's mean")
            for rule in (LUCB, ActionElimination)
        ),
    ],
)
def test_a_claim_is_made_where_there_is_a_proof(
    method: Callable[..., Policy], options: dict[str, object], assumption: str | None
) -> None:
    """That only a final answer has the bound is a part of the contract."""
    answer = method(Problem(np.eye(3), delta=0.05), **options).recommend()
    assert answer.claims == (None if assumption is None else 0.05)
    assert bool(answer.assumptions) == (assumption is not None)
    assert assumption is None or assumption in answer.assumptions[0]


@pytest.mark.parametrize(("method", "published"), [(TrackAndStop, 1406), (KLLUCB, 2716)])
def test_the_published_pulls_are_met(method: Callable[..., MeansRule], published: int) -> None:
    # Garivier and Kaufmann (2016), Table 1, δ = 0.1. A mean of 200 runs is farther off than four
    # standard errors with probability 10⁻⁴; more than 40 of 200 runs are wrong with 10⁻⁵.
    means = np.array([0.18, 0.19, 0.2, 0.21, 0.3])
    world = TwoPoint(np.eye(5), means, bounds=(0, 1), noise=0.5)
    rule = partial(method, threshold="experiments", bounds=(0, 1))
    results = simulate(rule, world, runs=200, seed=1, delta=0.1)
    error = results.pulls.std() / math.sqrt(200)
    assert abs(results.pulls.mean() - published) < 4 * error
    assert (~results.correct).sum() <= 40


@pytest.mark.parametrize(
    ("means", "published"),
    [  # the legend of Table 1 in Garivier and Kaufmann (2016)
        ((0.5, 0.45, 0.43, 0.4), (0.417, 0.390, 0.136, 0.057)),
        ((0.3, 0.21, 0.2, 0.19, 0.18), (0.336, 0.251, 0.177, 0.132, 0.104)),
    ],
)
def test_the_best_proportions_are_those_of_the_paper(
    means: tuple[float, ...], published: tuple[float, ...]
) -> None:
    weights = np.zeros(len(means))
    bernoulli_weights(np.array(means), 0, np.ones(len(means)), weights)  # from far away
    assert np.round(weights / weights.sum(), 3).tolist() == pytest.approx(published)


def test_the_best_proportions_are_found_wherever_the_steps_begin() -> None:
    """Means near 0 and 1, near ties and far gaps: Theorem 5's equations hold at the solution."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        means = rng.random(5) ** rng.integers(1, 6)
        leader, weights = int(np.argmax(means)), np.zeros(5)
        bernoulli_weights(means, leader, np.exp(3 * rng.normal(size=5)), weights)
        middle = (means[leader] + weights * means) / (1 + weights)
        near = np.array([bernoulli(means[leader], m) for m in middle])
        far = np.array([bernoulli(mean, m) for mean, m in zip(means, middle, strict=True)])
        others = np.arange(5) != leader
        costs = (near + weights * far)[others]
        np.testing.assert_allclose(costs, costs[0], rtol=1e-6)
        assert (near[others] / far[others]).sum() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize(
    ("best", "gap"), [(0.3, 6e-17), (0.3, 1e-12), (0.3, 3e-9), (0.3, 5e-8), (1.0, 1.2e-16)]
)
def test_nearly_tied_arms_share_the_pulls(best: float, gap: float) -> None:
    """Means that differ by rounding, such as 0.1 + 0.2 and 0.3: the two best get half each."""
    weights = np.zeros(3)
    bernoulli_weights(np.array([best, best - gap, 0.1]), 0, np.ones(3), weights)
    assert weights == pytest.approx([1, 1, 0], abs=1e-3)
