"""Thompson sampling with period weights: shares are chances to be the best, period by period."""

from __future__ import annotations

import numpy as np

from bestarm.policies.industry.periods import PeriodRule
from bestarm.problem import Problem

_DRAWS = 10_000
_LEAST = 0.01  # the smallest share of an arm


class PeriodThompson(PeriodRule):
    """After every period, arms get shares by their chance to be the best or the second best.

    This is how a testing platform runs bandits while the level of rewards moves.

    From the platform's documentation and public code: arm means weight periods by their traffic,
    and so do their variances; the posterior is normal around them, with a flat prior; 10,000 draws
    from it give the chance of each arm to be the best; shares are the frequencies of being first or
    second among the draws ("top two"), at least 1 %; they change once there are 100 pulls per arm;
    95 % is the usual chance to win at which one calls a winner.

    Chosen here: it stops, at the end of a period, once the leader's chance is 1 − δ; the first
    period has 100 pulls per arm, and the next ones a tenth of all pulls before, or 100 per arm.

    Nothing is proven: a chance to win of 1 − δ, looked at after every period, is no bound on the
    probability of an error, with or without drift.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        seed: seeds the draws from the posterior.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies.industry.thompson import PeriodThompson
        >>> PeriodThompson(Problem(np.eye(4))).plan().weights.tolist()
        [0.25, 0.25, 0.25, 0.25]

    Reference: GrowthBook's documentation of bandits, and `gbstats/bayesian/bandits_previous.py` in
    growthbook/growthbook.
    """

    def __init__(self, problem: Problem, *, seed: int = 0, max_pulls: int | None = None) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._rng = np.random.default_rng(seed)

    def _decide(self) -> bool:
        arms = self.problem.arms
        if not (self._weights > 0).all():
            return False
        draws = self._rng.normal(self._means, np.sqrt(self._variances), size=(_DRAWS, arms))
        first = np.argmax(draws, axis=1)
        draws[np.arange(_DRAWS), first] = -np.inf
        wins = np.bincount(first, minlength=arms) / _DRAWS
        top = (wins + np.bincount(np.argmax(draws, axis=1), minlength=arms) / _DRAWS) / 2
        shares = np.maximum(top, _LEAST)
        self._shares = shares / shares.sum()
        return bool(wins[self._leader] >= 1 - self.problem.delta)
