"""EB-TCI: the best arm so far or its closest challenger, at random."""

from __future__ import annotations

from typing import Literal

import numpy as np

from bestarm import bounds
from bestarm.checks import choice
from bestarm.policies.means.means import MeansRule
from bestarm.policies.stepwise import sub_gaussian_assumptions
from bestarm.presampled import PresampledRewards
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
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies.means.eb_tci import EBTCI
        >>> EBTCI(Problem(np.eye(3)), sigma=0.5).plan().counts.tolist()
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
        self._rate = bounds.tuned_rate(problem.delta)
        if self._proven:
            self._rate = bounds.gaussian_rate(problem.delta, arms=problem.arms)
        self._rng = np.random.default_rng(seed)

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        from bestarm.policies.means.eb_tci_kernels import advance  # noqa: PLC0415 - compiles

        pulls, self._due, self._leader, stopped = advance(
            presampled.parts,
            self._due,
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
