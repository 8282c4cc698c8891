"""Where to pull next: the design for the contrasts that still want evidence."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from bestarm.design import centered_g
from bestarm.design.contrasts import Listed
from bestarm.design.solver import minimise
from bestarm.geometry import Array, lift
from bestarm.policies.contests import Contrasts
from bestarm.policies.evidence import Sampling
from bestarm.policies.guesses import Guesses
from bestarm.problem import Problem

__all__ = ["Allocation"]

_SHARE = 0.05  # of the G-design: it keeps every contrast, and the bound C, within reach
_SURE = 2.0  # standard errors: gaps are not believed to be smaller than this
_AGAIN = 2.0  # pulls, relative to those at the last design, after which to design anew, …
_SOON = 1.2  # … and if other contrasts are open than then
_TOL = 0.05  # how far from its optimum a design may be: estimates are farther from the truth
_LEAST_WEIGHT = 1e-6


class Allocation:
    """Minimises max over y of need_y ‖y‖² / gap_y² under Σ_cov,p⁻¹, from estimates so far.

    A contrast with variance factor ‖y‖² gathers evidence at a rate of gap² / (2 s² ‖y‖²) a pull, so
    this is the design under which the last of them has what it needs soonest. Arms whose rewards
    vary more count for less: their features are divided by their deviation.

    Args:
        problem: the problem.
        coordinates: its source arms, in coordinates of the affine span.
    """

    def __init__(self, problem: Problem, coordinates: Array) -> None:
        self._coordinates, self._lifted = coordinates, lift(coordinates)
        self._spread_out = spread_out(problem)
        self._sampling: Sampling | None = None
        self._made: tuple[object, int] | None = None

    def sampling(
        self, guesses: Guesses, *, wanted: Callable[[], Contrasts], margin: float, key: object
    ) -> Sampling:
        """How to draw the next batch.

        Args:
            guesses: what is known so far.
            wanted: gives the open contrasts, each believed to be positive; asked where they matter.
            margin: what is added to each one's estimate.
            key: changes when other contrasts are open than before.
        """
        before, at = self._made or (None, 0)
        if self._sampling is None or guesses.pulls >= (_AGAIN if before == key else _SOON) * at:
            self._made = key, guesses.pulls
            weights = self._design(guesses, wanted(), margin) if guesses.pulls else self._spread_out
            self._sampling = Sampling(self._coordinates, weights, guesses.spread)
        return self._sampling

    def _design(self, guesses: Guesses, wanted: Contrasts, margin: float) -> Array:
        spread = guesses.spread
        typical = float(spread.mean())
        lower = np.linalg.cholesky(guesses.information)
        whitened = np.linalg.solve(lower, wanted.rows.T)
        errors = np.sqrt(typical * np.einsum("ij,ij->j", whitened, whitened))
        gaps = np.maximum(wanted.rows @ guesses.slope + margin, _SURE * errors)
        rows = wanted.rows * (np.sqrt(wanted.needs) / gaps)[:, None]
        features = self._lifted * np.sqrt(typical / spread)[:, None]
        found = minimise(features, Listed(lift(rows / np.abs(rows).max(), 0.0)), _TOL)
        weights = (1 - _SHARE) * found.weights + _SHARE * self._spread_out
        weights = np.where(weights < _LEAST_WEIGHT, 0.0, weights)
        return np.asarray(weights / weights.sum())


@lru_cache(maxsize=64)
def spread_out(problem: Problem) -> Array:
    """The centered G-design of a problem."""
    weights = centered_g(problem.source, tol=_TOL).weights
    weights = np.where(weights < _LEAST_WEIGHT, 0.0, weights)
    weights = weights / weights.sum()
    weights.flags.writeable = False
    return np.asarray(weights)
