"""LinGapE: its choices and its end, computed once more from the paper's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from linear_runs import PROBLEMS, closest, drive, least_squares, rewards_of

from bestarm import Problem
from bestarm.field.lingape import LinGapE
from bestarm.presampled import PresampledRewards


def _by_hand(
    problem: Problem, presampled: PresampledRewards, sigma: float, norm: float
) -> tuple[list[int], bool]:
    """The arms pulled, and whether it stopped: Algorithm 1 with the greedy choice, λ = 1."""
    arms = problem.arms
    counts, sums, pulled = np.zeros(arms), np.zeros(arms), list(range(arms))
    for t, noise in enumerate(presampled.common):
        counts[pulled[t]] += 1
        sums[pulled[t]] += presampled.table[0, pulled[t]] + noise
        if t + 1 < arms:
            continue
        inverse, theta = least_squares(problem, counts, sums, ridge=1.0)
        leader, leads, norms = closest(problem, inverse, theta)
        volume = -np.linalg.slogdet(inverse)[1]
        radius = sigma * math.sqrt(2 * math.log(problem.targets**2 / problem.delta) + volume) + norm
        others = np.delete(np.arange(problem.targets), leader)
        bounds = -leads + radius * np.sqrt(norms)
        rival = others[np.argmax(bounds[others])]
        if bounds[rival] <= 0:
            return pulled, True
        y = problem.target[leader] - problem.target[rival]
        left = [
            y @ np.linalg.inv(np.linalg.inv(inverse) + np.outer(x, x)) @ y for x in problem.source
        ]
        pulled.append(int(np.argmin(left)))
    return pulled[:-1], False


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_pull_is_the_one_that_the_paper_prescribes(name: str) -> None:
    """For 400 pulls, or to the end: past one exact computation of the inverse and back."""
    problem, sigma = PROBLEMS[name], 0.7
    presampled = rewards_of(problem, 400)
    policy = LinGapE(problem, sigma=sigma, norm=1.5)
    expected, stopped = _by_hand(problem, presampled, sigma, 1.5)
    assert drive(policy, presampled) == expected
    assert policy.recommend().final == stopped


def test_units_of_features_do_not_matter() -> None:
    """All features a thousand times as large: the same pulls, the same end."""
    for problem in PROBLEMS.values():
        large = Problem(1000 * problem.source, target=1000 * problem.target, delta=problem.delta)
        presampled = rewards_of(problem, 200)
        assert drive(LinGapE(large, sigma=0.5), presampled) == drive(
            LinGapE(problem, sigma=0.5), presampled
        )
