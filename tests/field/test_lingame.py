"""LinGame and LinGame-C: choices and end, computed once more from the paper's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from linear_runs import PROBLEMS, closest, drive, least_squares, rewards_of

from bestarm import Problem
from bestarm.field.lingame import LinGame, LinGameC
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards


class _AdaHedge:
    """De Rooij, van Erven, Grünwald and Koolen (2014), Figure 1, with Δ = 0.01 at first."""

    def __init__(self, actions: int) -> None:
        self.losses, self.gap = np.zeros(actions), 0.01

    def act(self) -> Array:
        weights = np.exp(-math.log(len(self.losses)) / self.gap * (self.losses - self.losses.min()))
        return np.asarray(weights / weights.sum())

    def suffer(self, losses: Array) -> None:
        rate, weights = math.log(len(losses)) / self.gap, self.act()
        least = losses.min()
        mix = least - math.log(weights @ np.exp(-rate * (losses - least))) / rate
        self.losses = self.losses + losses
        self.gap += weights @ losses - mix


def _away(problem: Problem, weights: Array, theta: Array) -> Array:
    """x·(θ̂ − λ) for the closest alternative λ under these weights."""
    share = weights / weights.sum() + 1e-9 / len(weights)
    inverse = np.linalg.pinv(problem.source.T @ (share[:, None] * problem.source), rcond=1e-14)
    leader, leads, norms = closest(problem, inverse, theta)
    norms[leader] = np.nan
    nearest = int(np.nanargmin(leads**2 / norms))
    contrast = problem.target[leader] - problem.target[nearest]
    return np.asarray(problem.source @ inverse @ contrast * leads[nearest] / norms[nearest])


def _by_hand(problem: Problem, presampled: PresampledRewards, *, pairs: bool) -> list[int]:
    """The arms pulled: Algorithm 1 if over pairs, else Algorithm 2; λ = 1, and no end."""
    arms, answers = problem.arms, problem.targets
    actions = arms * answers if pairs else arms
    learners = [_AdaHedge(actions) for _ in range(1 if pairs else answers)]
    counts, sums, pulled = np.zeros(arms), np.zeros(arms), list(range(arms))
    total, played = np.ones(actions), np.ones(actions)
    for t, noise in enumerate(presampled.common, start=1):
        counts[pulled[t - 1]] += 1
        sums[pulled[t - 1]] += presampled.table[0, pulled[t - 1]] + noise
        if t < arms:
            continue
        inverse, theta = least_squares(problem, counts, sums, ridge=1.0)
        leader = closest(problem, inverse, theta)[0]
        learner = learners[0 if pairs else leader]
        weights = learner.act()
        away = np.zeros((answers if pairs else 1, arms))
        mine = leader if pairs else 0
        away[mine] = _away(problem, weights.reshape(-1, arms)[mine], theta)
        spread = np.sqrt(
            2 * math.log(t) * np.einsum("ij,jk,ik->i", problem.source, inverse, problem.source)
        )
        gains = np.minimum(0.5 * (np.abs(away) + spread) ** 2, math.log(t))
        learner.suffer(-gains.ravel())
        total += weights
        action = int(np.argmin(played - total))
        played[action] += 1
        pulled.append(action % arms)
    return pulled[:-1]


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("rule", [LinGame, LinGameC])
def test_every_pull_is_the_one_that_the_paper_prescribes(name: str, rule: type[LinGame]) -> None:
    """For 300 pulls; a bound on ‖θ‖ so large that it never stops."""
    problem = PROBLEMS[name]
    presampled = rewards_of(problem, 300)
    expected = _by_hand(problem, presampled, pairs=rule is LinGameC)
    assert drive(rule(problem, norm=1e6), presampled) == expected


def test_it_stops_when_the_statistic_exceeds_the_threshold_of_the_paper() -> None:
    """Not one pull later, and not one earlier."""
    problem, sigma = PROBLEMS["soare"], 0.4
    policy = LinGame(problem, sigma=sigma, norm=1.5)
    presampled = rewards_of(problem, 3000)
    pulled = drive(policy, presampled)
    assert policy.recommend().final
    for missing, stops in ((0, True), (1, False)):
        t = len(pulled) - missing
        counts, sums = np.zeros(problem.arms), np.zeros(problem.arms)
        for arm, noise in zip(pulled[:t], presampled.common, strict=False):
            counts[arm] += 1
            sums[arm] += presampled.table[0, arm] + noise
        leader, leads, norms = closest(problem, *least_squares(problem, counts, sums, ridge=1.0))
        others = np.arange(problem.targets) != leader
        statistic = (leads[others] ** 2 / (2 * norms[others])).min() / sigma**2
        volume = 1.5 * math.log(1 + t / 3)  # d = 3, L = 1
        wanted = (math.sqrt(math.log(10) + volume) + math.sqrt(0.5) * 1.5 / sigma) ** 2
        assert (statistic > wanted) == stops
