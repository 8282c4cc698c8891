"""lil'UCB: the highest upper bound by the law of the iterated logarithm, until one arm has most."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from bestarm.checks import choice
from bestarm.field import thresholds
from bestarm.field.kernels import compiled, reward_at
from bestarm.field.means_rule import MeansRule
from bestarm.field.pull_by_pull import Rewards
from bestarm.numerics.geometry import Array, Indices
from bestarm.problem import Problem


class LilUCB(MeansRule):
    """Pull the arm with the highest upper bound; stop once one arm has λ times all others' pulls.

    The bound of an arm with mean m after n pulls is

        m + (1 + β)(1 + √ε) √( 2σ²(1 + ε) log( log((1 + ε) n + c)/δ′ ) / n ).

    Published (`"published"`) are ε = 0.01, β = 1, c = 0, λ = ((2 + β)/β)² = 9, and the δ′ for which
    the theorem gives δ. The theorem, for σ-sub-Gaussian rewards around fixed means, needs a λ
    somewhat larger than that, so nothing is proven at these values. The paper's figures also show
    a heuristic (`"experiments"`), ε = 0, β = 1/2, c = 2 (its footnote 2), λ = 1 + 10/K and
    δ′ = δ/5, without a proof.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        threshold: `"published"` or `"experiments"`: see above.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import LilUCB
        >>> LilUCB(Problem(["a", "b", "c"]), sigma=0.5).plan().counts.tolist()
        [1, 0, 0]

    Reference: Jamieson, Malloy, Nowak and Bubeck (2014), Figure 1, Theorem 2 and sections 3 and 5.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "experiments"] = "published",
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, sigma=sigma, max_pulls=max_pulls)
        choice(threshold, ("published", "experiments"), "threshold")
        if threshold == "published":
            epsilon, beta, shift, share = 0.01, 1.0, 0.0, 9.0
            level = thresholds.lil_ucb_delta(problem.delta, epsilon=epsilon)
        else:
            epsilon, beta, shift, share = 0.0, 0.5, 2.0, 1 + 10 / problem.arms
            level = thresholds.lil_ucb_tuned_delta(problem.delta)
        factor = (1 + beta) * (1 + math.sqrt(epsilon)) * math.sqrt(2 * (1 + epsilon))
        self._constants = factor * self._sigma, 1 + epsilon, shift, level, share

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        pulls, self._next_arm, stopped = advance(
            rewards, self._next_arm, self._counts, self._sums, self._constants, most
        )
        self._leader = self._leader_so_far()
        return pulls, stopped

    def _leader_so_far(self) -> int:
        return int(np.argmax(self._counts))


@compiled
def _bonus(n: int, constants: tuple[float, ...]) -> float:
    """(1 + β)(1 + √ε) √(2σ²(1 + ε) log(log((1 + ε)n + c)/δ) / n); infinite if log ≤ 0."""
    factor, stretch, shift, level, _ = constants
    inner = math.log(stretch * n + shift) / level
    return factor * math.sqrt(math.log(inner) / n) if inner > 1 else math.inf


@compiled
def advance(
    rewards: Rewards,
    arm: int,
    counts: Indices,
    sums: Array,
    constants: tuple[float, ...],
    most: int,
) -> tuple[int, int, bool]:
    """Pull until `most` pulls are made or one arm has enough of them (Figure 1).

    Returns the pulls made, the arm to pull next, and whether it stopped; changes `counts` and
    `sums`.
    """
    arms, share = len(counts), constants[4]
    upper = np.empty(arms)
    for a in range(arms):
        upper[a] = sums[a] / counts[a] + _bonus(counts[a], constants)
    total, rival = counts.sum(), math.inf  # the highest bound of the other arms
    for i in range(most):
        sums[arm] += reward_at(rewards, i, arm)
        counts[arm] += 1
        total += 1
        n = counts[arm]
        upper[arm] = sums[arm] / n + _bonus(n, constants)
        if n >= 1 + share * (total - n):  # T_i ≥ 1 + λ Σ_{j ≠ i} T_j
            return i + 1, arm, True
        if upper[arm] > rival:
            continue
        arm, rival = 0, -math.inf
        for a in range(1, arms):
            if upper[a] > upper[arm]:
                rival = max(rival, upper[arm])
                arm = a
            else:
                rival = max(rival, upper[a])
    return most, arm, False
