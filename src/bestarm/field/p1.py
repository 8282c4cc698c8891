"""P1: the arm of rank k is drawn with a probability in proportion to 1/k."""

from __future__ import annotations

import numpy as np

from bestarm.compiling import compiled
from bestarm.field.pull_by_pull import PullByPull
from bestarm.numerics.geometry import Array
from bestarm.presampled import Parts, PresampledRewards, reward_at
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
        self._limits = np.cumsum(self.probabilities)
        self._limits[-1] = np.inf
        self._rng = np.random.default_rng(seed)
        self._order = self._rng.permutation(problem.arms)  # arms by rank; at first all tie
        self._ranks = np.argsort(self._order)
        self._gains = np.zeros(problem.arms)
        self._leader = int(self._order[0])
        rank = np.searchsorted(self._limits, self._rng.random(), "right")
        self._next_arm = int(self._order[rank])

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        self._next_arm = advance(
            presampled.parts,
            self._next_arm,
            (self._counts, self._sums, self._gains),
            (self._order, self._ranks),
            (self.probabilities, self._limits),
            self._rng.random(most),
        )
        self._leader = int(self._order[0])
        return most, False


@compiled
def advance(
    presampled: Parts,
    arm: int,
    totals: Parts,
    ranking: Parts,
    distribution: Parts,
    draws: Array,
) -> int:
    """P1 for a pull per draw from (0, 1); everything is updated in place.

    Returns the arm of the next pull.
    """
    counts, sums, gains = totals
    order, ranks = ranking
    probabilities, limits = distribution
    for i in range(len(draws)):
        reward = reward_at(presampled, i, arm)
        counts[arm] += 1
        sums[arm] += reward
        rank = ranks[arm]
        gains[arm] += reward / probabilities[rank]  # unbiased: inverse probabilities
        gain = gains[arm]
        while rank > 0 and gains[order[rank - 1]] < gain:
            order[rank] = order[rank - 1]
            ranks[order[rank]] = rank
            rank -= 1
        while rank < len(order) - 1 and gains[order[rank + 1]] > gain:
            order[rank] = order[rank + 1]
            ranks[order[rank]] = rank
            rank += 1
        order[rank], ranks[arm] = arm, rank
        rank_drawn = 0
        while draws[i] >= limits[rank_drawn]:
            rank_drawn += 1
        arm = order[rank_drawn]
    return arm
