"""Lazy Track-and-Stop: its choices and its end, computed once more from the paper's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from linear_runs import PROBLEMS, closest, drive, least_squares, rewards_of

from bestarm import Problem
from bestarm.design import complexity
from bestarm.field.lazy_tas import LazyTrackAndStop
from bestarm.presampled import PresampledRewards


def _by_hand(
    problem: Problem, presampled: PresampledRewards, sigma: float, basis: list[int]
) -> tuple[list[int], bool]:
    """The arms pulled, and whether it stopped: Algorithm 1, allocations at d, 2d, 4d, … pulls."""
    arms, rank = problem.arms, problem.dimension
    start = problem.source[basis].T @ problem.source[basis]
    least = np.linalg.eigvalsh(start)[0]
    counts, sums, total = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    weights, pulled, turn = np.full(arms, 1 / arms), list(basis), 0
    for t, noise in enumerate(presampled.common, start=1):
        counts[pulled[t - 1]] += 1
        sums[pulled[t - 1]] += presampled.table[0, pulled[t - 1]] + noise
        if t < rank:
            continue
        inverse, theta = least_squares(problem, counts, sums, ridge=0.0)
        leader, leads, norms = closest(problem, inverse, theta)
        others = np.arange(problem.targets) != leader
        design = problem.source.T @ (counts[:, None] * problem.source)
        volume = np.linalg.slogdet(np.eye(rank) + design / (0.1 * least))[1]
        threshold = 1.1 * sigma**2 * (math.log(1 / problem.delta) + volume / 2)  # equation 9
        if (leads[others] ** 2 / (2 * norms[others])).min() > threshold:
            return pulled, True
        if t in rank * 2 ** np.arange(12):
            weights = complexity(problem, theta, "linear", tol=0.01).weights
        total += weights
        needed = least / math.sqrt(rank) * math.sqrt(t)
        if np.linalg.eigvalsh(design)[0] < needed * (1 - 1e-9):  # ties occur: λ_min is whole here
            turn = (turn + 1) % rank
            pulled.append(basis[turn])
        else:
            pulled.append(int(np.argmin(np.where(total > 0, counts - total, np.inf))))
    return pulled[:-1], False


@pytest.mark.parametrize(
    ("name", "basis"), [("soare", [0, 1, 2]), ("two", [1, 0]), ("transductive", [3, 1, 0])]
)
def test_every_pull_is_the_one_that_the_paper_prescribes(name: str, basis: list[int]) -> None:
    """For 600 pulls, or to the end."""
    problem, sigma = PROBLEMS[name], 0.5
    presampled = rewards_of(problem, 600)
    policy = LazyTrackAndStop(problem, sigma=sigma)
    expected, stopped = _by_hand(problem, presampled, sigma, basis)
    assert drive(policy, presampled) == expected
    assert policy.recommend().final == stopped
