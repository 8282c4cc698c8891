"""KL-LUCB's tangents bracket its upper bounds, and it decides as if all bounds were solved for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import rel_entr

from bestarm import Problem
from bestarm.field.divergences import upper_bound
from bestarm.field.kl_lucb import HEIGHT, KLLUCB, SLOPE, set_tangent, tangent_minimum
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards


def divergence(p: float, q: float) -> float:
    """d(p, q) of Bernoulli laws."""
    return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))


def bound(mean: float, level: float) -> float:
    """The u with d(mean, u) = level, by bisection."""
    top = 1 - 1e-15
    if divergence(mean, top) <= level:
        return top
    return float(brentq(lambda u: divergence(mean, u) - level, mean, top, xtol=1e-15, rtol=1e-14))


def test_a_tangent_is_above_the_bound_and_not_far() -> None:
    rng = np.random.default_rng(4)
    tangents, told = np.zeros((5, 1)), 0
    for _ in range(2000):
        part = rng.random() ** 6
        mean = float(rng.choice([0.0, rng.random(), part, 1 - max(part, 1e-4)]))
        n = int(10 ** rng.uniform(0, 5))
        q = mean + 0.999 * (1 - mean) * 10 ** rng.uniform(-4, 0)
        set_tangent(tangents, 0, mean, n, q)
        level = n * divergence(mean, q) * math.exp(rng.normal() * 10 ** rng.uniform(-4, 0))
        u = bound(mean, level / n)
        tangent, least = (
            tangents[HEIGHT, 0] + tangents[SLOPE, 0] * level,
            tangent_minimum(tangents, 0, level),
        )
        assert least <= u + 1e-15
        assert tangent >= u - 1e-15
        if abs(u - q) <= 0.02 * min(q - mean, q * (1 - q)):
            told += 1  # it must tell here, to the second order in the distance
            assert tangent - least <= 8 * (u - q) ** 2 / min(q - mean, q * (1 - q)) + 1e-9
    assert told > 500


def chosen(table: Array, delta: float) -> Iterator[int]:
    """KL-LUCB's pulls by Kaufmann and Kalyanakrishnan (2013), with every bound solved for.

    Of equal means and of equal bounds, the first arm's counts. Stops where the rule does.
    """
    arms = table.shape[1]
    counts, sums = np.zeros(arms, dtype=np.int64), np.zeros(arms)

    def pull(arm: int) -> int:
        sums[arm] += table[counts.sum(), arm]
        counts[arm] += 1
        return arm

    for arm in range(arms):
        yield pull(arm)
    while True:
        means = sums / counts
        level = math.log(405.5 * arms / delta) + 1.1 * math.log(counts.sum())
        leader = int(np.argmax(means))
        upper = np.array(
            [upper_bound(float(means[a]), level / float(counts[a])) for a in range(arms)]
        )
        upper[leader] = -1
        challenger = int(np.argmax(upper))
        q = float(upper[challenger])
        if means[leader] > q and counts[leader] * divergence(means[leader], q) > level:
            return
        yield pull(leader)
        yield pull(challenger)


def tables() -> dict[str, NDArray[Any]]:
    """One row per pull: what each arm would pay."""
    rng, pulls = np.random.default_rng(2), 3000
    return {
        "yes or no, alike": rng.random((pulls, 6)) < 0.5,
        "yes or no, rarely": rng.random((pulls, 8)) < 0.02,
        "yes or no, mostly": rng.random((pulls, 5)) < np.linspace(0.9, 1, 5),
        "yes or no, until it stops": rng.random((pulls, 4)) < [0.2, 0.3, 0.4, 0.8],
        "two arms, until it stops": rng.random((pulls, 2)) < [0.45, 0.65],
        "finer, alike": rng.beta(2, 2, (pulls, 10)),
        "finer, until it stops": rng.beta([1, 2, 3, 7], [5, 4, 3, 1], (pulls, 4)),
        "many arms": rng.beta(0.3, 1, (pulls, 40)),
    }


TABLES = tables()


def rewards(kind: str) -> Array:
    table = TABLES[kind].astype(float)
    table.flags.writeable = False
    return table


@cache
def decisions(kind: str) -> Array:
    """The pulls on these rewards, as many as there are or until the rule stops."""
    table = rewards(kind)
    return np.array(list(islice(chosen(table, 0.1), len(table))))


@pytest.mark.parametrize("part", [10**6, 61])
@pytest.mark.parametrize("kind", TABLES)
def test_tangents_change_no_decision(kind: str, part: int) -> None:
    """Also where bounds tie, and whether pulls are made at once or in parts of an odd length."""
    table = rewards(kind)
    expected = decisions(kind)
    problem = Problem(np.eye(table.shape[1]), delta=0.1)
    policy = KLLUCB(problem, bounds=(0, 1), max_pulls=len(table))
    done = 0
    while policy.plan() is not None:
        rows = np.arange(done, min(done + part, len(table)))
        done += policy.run_presampled(PresampledRewards(table, rows, np.zeros(len(rows))))[0]
        counts = np.bincount(expected[:done], minlength=table.shape[1])
        assert policy._counts.tolist() == counts.tolist(), f"after {done} pulls"
    assert done == len(expected)
    assert (policy.recommend().reason == "identified") == (done < len(table))
    assert ("stops" in kind) == (done < len(table))
