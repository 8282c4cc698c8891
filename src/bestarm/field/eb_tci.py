"""EB-TCI: the best arm so far or its closest challenger, at random."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from bestarm.checks import choice
from bestarm.field import thresholds
from bestarm.field.kernels import compiled, reward_at
from bestarm.field.means_rule import MeansRule, best_mean, rate
from bestarm.field.pull_by_pull import Rewards
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.stepwise import sub_gaussian_assumptions
from bestarm.problem import Problem


class EBTCI(MeansRule):
    """Pull, each with probability 1/2, the arm with the best mean or its challenger.

    The challenger is the arm with the smallest W + log N, where W is the transportation cost
    (m − m′)²/(2σ²(1/N + 1/N′)) from the leader and N the arm's pulls: a "top two" algorithm. It
    stops once W exceeds β(t, δ) for every other arm.

    With the default threshold and a σ that is true, δ-correct for rewards that are σ-sub-Gaussian
    around fixed arm means, given the past. `"experiments"` is log((log t + 1)/δ), with which the
    paper's figures were made, without a proof.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        threshold: `"published"`, that of Kaufmann and Koolen (2021), or `"experiments"`.
        seed: seeds the coin.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import EBTCI
        >>> EBTCI(Problem(["a", "b", "c"]), sigma=0.5).plan().counts.tolist()
        [1, 0, 0]

    Reference: Jourdan, Degenne, Baudry, de Heide and Kaufmann (2022), with Gaussian arms.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "experiments"] = "published",
        seed: int = 0,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, sigma=sigma, max_pulls=max_pulls)
        choice(threshold, ("published", "experiments"), "threshold")
        self._proven = threshold == "published"
        self._rate = thresholds.tuned_rate(problem.delta)
        if self._proven:
            self._rate = thresholds.gaussian_rate(problem.delta, arms=problem.arms)
        self._rng = np.random.default_rng(seed)

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        pulls, self._next_arm, self._leader, stopped = advance(
            rewards,
            self._next_arm,
            self._counts,
            self._sums,
            2 * self._sigma**2,
            tuple(self._rate),
            self._rng,
            most,
        )
        return pulls, stopped

    def _assumptions(self) -> tuple[str, ...]:
        return sub_gaussian_assumptions(self._sigma) if self._proven else ()


@compiled
def advance(
    rewards: Rewards,
    arm: int,
    counts: Indices,
    sums: Array,
    scale: float,
    constants: tuple[float, ...],
    rng: np.random.Generator,
    most: int,
) -> tuple[int, int, int, bool]:
    """Pull until `most` pulls are made or the leader is shown to be the best.

    `scale` is 2σ². Returns the pulls made, the arm to pull next, the leader, and whether it
    stopped; changes `counts` and `sums`.
    """
    arms = len(counts)
    means, logs, inverse = np.empty(arms), np.empty(arms), np.empty(arms)
    for a in range(arms):
        inverse[a] = 1.0 / counts[a]
        means[a], logs[a] = sums[a] * inverse[a], scale * math.log(counts[a])
    leader, total = 0, counts.sum()
    proven = 0.0  # β at an earlier time, which is smaller: while the evidence is below, no log
    for i in range(most):
        sums[arm] += reward_at(rewards, i, arm)
        counts[arm] += 1
        total += 1
        inverse[arm] = 1.0 / counts[arm]
        means[arm], logs[arm] = sums[arm] * inverse[arm], scale * math.log(counts[arm])
        leader = best_mean(means)  # EB
        challenger, least, evidence = -1, math.inf, math.inf
        for a in range(arms):
            if a == leader:
                continue
            gap = means[leader] - means[a]
            # 2σ² W(i, j) = (μ_i − μ_j)² / (1/N_i + 1/N_j)
            cost = gap * gap / (inverse[leader] + inverse[a])
            evidence = min(evidence, cost)
            if cost + logs[a] < least:  # TCI: the cost with a penalty of log N_j
                challenger, least = a, cost + logs[a]
        evidence /= scale
        arm = leader if rng.random() < 0.5 else challenger
        if evidence > proven:
            proven = rate(total, constants)
            if evidence > proven:
                return i + 1, arm, leader, True
    return most, arm, leader, False
