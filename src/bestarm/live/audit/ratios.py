"""Evidence against arms having been drawn with their recorded probabilities, valid at any time."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from bestarm.geometry import Array
from bestarm.records import Counts

# How firmly an alternative is believed in, in draws: a dozen catches gross errors soon, a hundred
# thousand small ones at last. Their evidence is averaged.
_FIRMNESS = np.array([10.0, 100.0, 1e3, 1e4, 1e5])
_PRIOR = 20.0  # draws that one starts from when arms are compared with what was expected


class RatioTest:
    """Evidence against counts of arms having been drawn with given probabilities.

    Arms are added batch by batch, each with the probabilities in force. A batch's evidence is its
    likelihood under a Dirichlet mixture around what the batches before suggest, divided by its
    likelihood under the probabilities. Under these its mean is 1, whatever the sizes, so that the
    product over batches ever exceeds c with probability at most 1/c: small counts need no other
    treatment, and neither does looking every day.

    That holds for batches that begin where it was settled before they were drawn: with a plan, say.
    A batch may be added in parts, and looked at after any of them; where the parts end makes no
    difference. So one and the same process of evidence is looked at, each time farther along.

    Reference: Lindon and Malek (2022), Anytime-valid inference for multinomial count data.
    """

    def __init__(self, arms: int) -> None:
        self.observed: Counts = np.zeros(arms, dtype=np.int64)
        self.expected: Array = np.zeros(arms)
        self._logs: Array = np.zeros(len(_FIRMNESS))
        self._alpha: Array = np.zeros((len(_FIRMNESS), arms))
        self._size = 0  # of the batch so far

    def add(self, weights: Array, counts: Counts, *, more: bool = False) -> None:
        """Add the arms of a batch drawn with probabilities `weights`, or more of the one before."""
        if not more:
            suggested = (self.observed + _PRIOR) / (self.expected + _PRIOR)
            centre = weights * suggested
            self._alpha = _FIRMNESS[:, None] * (centre / centre.sum())
            self._size = 0
        size = int(counts.sum())
        if not size:
            return
        if counts[weights == 0].any():
            self._logs += math.inf  # what cannot be drawn was
        use = weights > 0
        alpha, count = self._alpha[:, use], counts[use]
        firm = _FIRMNESS + self._size
        mixture = gammaln(firm) - gammaln(firm + size)
        mixture += (gammaln(alpha + count) - gammaln(alpha)).sum(axis=1)
        self._logs += mixture - float(count @ np.log(weights[use]))
        self._alpha = self._alpha + counts
        self._size += size
        self.observed = self.observed + counts
        self.expected = self.expected + size * weights

    @property
    def chance(self) -> float:
        """A bound on the probability that a sound experiment ever shows as much evidence."""
        evidence = float(np.logaddexp.reduce(self._logs)) - math.log(len(_FIRMNESS))
        return math.exp(-max(0.0, evidence))

    @property
    def oddest(self) -> int:
        """The arm that is farthest from what was expected."""
        off = self.observed - self.expected
        return int(np.argmax(np.abs(off) / np.sqrt(np.maximum(self.expected, 1e-12))))
