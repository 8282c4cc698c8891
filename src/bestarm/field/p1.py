"""P1: the arm of rank k is drawn with a probability in proportion to 1/k."""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np

from bestarm.field.pull_by_pull import PullByPull, Rewards
from bestarm.problem import Problem


class P1(PullByPull):
    """The best arm on average over all rounds, with few errors where nothing moves.

    Arms are ranked by their estimated total gains, and the one of rank k is drawn with probability
    1/(k Σ_j 1/j). A gain is estimated by inverse probabilities, so that it is unbiased whatever the
    means of the arms do, as long as they do not depend on the draw to come.

    For rewards in [0, 1] the error is of the order exp(−T Δ²/(K log K)) in the gap Δ of the
    averages against any moving means, and of the order exp(−T/(H log K)) where they are fixed, with
    H the largest k/(Δ_k Δ_1); no rule that is robust does better. A baseline common to all arms
    biases nothing and adds variance. No budget is an error probability: the answer is never final.

    Args:
        problem: the problem; its targets must be its source arms, whose features are not used.
        budget: the number of pulls. The rule does not use it before it is spent.
        seed: of the draws, and of the first ranking.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import P1
        >>> P1(Problem(["a", "b", "c"]), budget=100).probabilities.round(3).tolist()
        [0.545, 0.273, 0.182]

    Reference: Abbasi-Yadkori, Bartlett, Gabillon, Malek and Valko (2018), algorithm 1.
    """

    _blind = False
    _transductive = False

    def __init__(self, problem: Problem, *, budget: int, seed: int = 0) -> None:
        super().__init__(problem, budget=budget)
        self.probabilities = 1.0 / np.arange(1, problem.arms + 1)  # of the ranks
        self.probabilities /= self.probabilities.sum()
        self._limits = [*np.cumsum(self.probabilities)[:-1].tolist(), math.inf]
        self._rng = np.random.default_rng(seed)
        # Arms by rank; at first all tie.
        self._order: list[int] = self._rng.permutation(problem.arms).tolist()
        self._gains = [0.0] * problem.arms
        self._leader = self._order[0]
        self._next_arm = self._order[bisect_right(self._limits, self._rng.random())]

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        table, rows, common = rewards
        for i, draw in enumerate(self._rng.random(most)):
            arm = self._next_arm
            reward = float(table[rows[i], arm] + common[i])
            self._counts[arm] += 1
            self._sums[arm] += reward
            # Unbiased: inverse probabilities.
            self._gains[arm] += reward / self.probabilities[self._order.index(arm)]
            self._order.sort(key=self._gains.__getitem__, reverse=True)  # those that tie stay
            self._next_arm = self._order[bisect_right(self._limits, draw)]
        self._leader = self._order[0]
        return most, False
