"""How arms are drawn, and how contrasts are read off a pull."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array


class Sampling:
    """How arms are drawn, and how contrasts are read off a pull; kept from batch to batch.

    Attributes:
        probabilities: the policy p over all source arms.

    Args:
        coordinates: all source arms, in coordinates of their span.
        probabilities: p.
        spread: the expected (r − c(a))² for all of them, up to a common factor.
        intercept: whether there is a baseline. If not, weights need only Σ p w x = y, and nothing
            is centered.
    """

    def __init__(
        self, coordinates: Array, probabilities: Array, spread: Array, *, intercept: bool = True
    ) -> None:
        self.probabilities = probabilities
        self._made_from = np.ascontiguousarray(coordinates), probabilities, spread.copy(), intercept

    @classmethod
    def of(cls, parts: tuple[Any, ...]) -> Sampling:
        """From the first parts of a compiled run's stage."""
        made = cls.__new__(cls)
        made.probabilities, made.parts = parts[0], parts[:6]
        return made

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """All attributes in order; computed when the first batch is in, as compiling takes long."""
        from bestarm.policies.anytime.allocating import read_out  # noqa: PLC0415 - compiles

        coordinates, probabilities, spread, intercept = self._made_from
        # A copy: for arrays that cannot be changed it would be compiled once more.
        *parts, regular = read_out(coordinates, probabilities.copy(), spread, intercept)
        if not regular:
            raise np.linalg.LinAlgError
        return self.probabilities, *parts

    @property
    def arms(self) -> NDArray[np.int64]:
        """The source arms that can be drawn."""
        return np.asarray(self.parts[1])

    @property
    def weights(self) -> Array:
        """Their probabilities."""
        return np.asarray(self.parts[2])

    @property
    def centered(self) -> Array:
        """Their coordinates, less the mean under the policy."""
        return np.asarray(self.parts[3])

    @property
    def covariance(self) -> Array:
        """Σ_cov,p in these coordinates."""
        return np.asarray(self.parts[4])

    @property
    def readout(self) -> Array:
        """w(a) of a contrast y (a row) is y @ readout."""
        return np.asarray(self.parts[5])
