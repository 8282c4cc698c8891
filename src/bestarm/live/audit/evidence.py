"""Evidence against recorded probabilities and declared scales, valid at any time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from bestarm.geometry import Array
from bestarm.problem import Problem
from bestarm.records import Counts, Summary

# How firmly an alternative is believed in, in draws: a dozen catches gross errors soon, a hundred
# thousand small ones at last. Their evidence is averaged.
_FIRMNESS = np.array([10.0, 100.0, 1e3, 1e4, 1e5])
_PRIOR = 20.0  # draws that one starts from when arms are compared with what was expected
_CHANCES = {"alarm": 1e-6, "warning": 1e-3}  # what true scales ever show, at most
_MEANS = 0.9  # of that, what means may use up; the spread takes less than the rest
_LEAST_DEGREES = 100  # before, the spread says nothing
_ROUNDING = 1e-9


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


class Scales:
    """Rewards beside a noise α, a baseline within ±R and means within ±M.

    An arm's mean over n pulls lies within M + R + α √(2 log(2/p)/n), and two of its means are at
    most 2R apart but for noise, each with probability 1 − p: whatever θ and the baseline are. The
    means of the k-th summary of K arms have p = c/(K k(k + 1)) each. These add up to c over all
    summaries there can be, so that c bounds the probability of a finding at any look, ever.

    The squares left about the means of arm and summary, Σ (r − r̄)² with D degrees of freedom,
    exceed tΣ (α²(n − 1) + R²n) with probability at most exp(−D(t − 1 − log t)/2), by Chernoff's
    bound for squares of sub-Gaussian variables, where the baseline does not react to the noise:
    e^(−0.153 D) for t = 2 and e^(−0.806 D) for t = 4. Over all D ≥ 100 these add up to less than
    2·10⁻⁶ and 2·10⁻³⁵.

    Args:
        problem: declares α and R.
        largest: M.
    """

    def __init__(self, problem: Problem, largest: float) -> None:
        self._noise, self._baseline, self._largest = problem.noise, problem.baseline, largest
        self._arms = problem.arms
        self._summaries = 0
        self._high = {level: np.full(problem.arms, -np.inf) for level in _CHANCES}
        self._low = {level: np.full(problem.arms, np.inf) for level in _CHANCES}
        self._spare = 0.0  # squared deviations from the mean of arm and summary
        self._allowed = 0.0  # and what they are on average, at most
        self._degrees = 0

    @property
    def declared(self) -> str:
        """What is declared, in words."""
        means = f"means within ±{self._largest:g}, " if math.isfinite(self._largest) else ""
        return f"{means}a baseline within ±{self._baseline:g} and noise of scale {self._noise:g}"

    def add(self, summary: Summary) -> None:
        """Add the totals of the next summary."""
        self._summaries += 1
        use = summary.counts > 0
        counts = summary.counts[use]
        means = summary.sums[use] / counts
        squares = summary.squares[use] - counts * means * means
        self._spare += float(np.maximum(squares, 0.0).sum())
        free = counts - 1
        self._degrees += int(free.sum())
        moving = float(counts[free > 0].sum())
        self._allowed += self._noise**2 * float(free.sum()) + self._baseline**2 * moving
        means_looked_at = self._arms * self._summaries * (self._summaries + 1)
        for level, chance in _CHANCES.items():
            share = _MEANS * chance / means_looked_at
            margin = self._noise * np.sqrt(2 * math.log(2 / share) / counts)
            high, low = self._high[level], self._low[level]
            high[use] = np.maximum(high[use], means - margin)
            low[use] = np.minimum(low[use], means + margin)

    def level_of_reward(self, size: float, count: int) -> str:
        """How odd it is that the largest of `count` rewards has this size.

        The i-th reward has a share of 1/(i(i + 1)), so that this too may be asked at any time.
        """
        for level, chance in _CHANCES.items():
            margin = self._noise * math.sqrt(2 * math.log(2 * count * (count + 1) / chance))
            if size > (self._largest + self._baseline + margin) * (1 + _ROUNDING):
                return level
        return "ok"

    def verdict(self, labels: Sequence[str]) -> tuple[str, str]:
        """A level and a sentence."""
        if not self._degrees and not np.isfinite(self._high["alarm"]).any():
            return "ok", "No phase is answered yet."
        moves, most = 2 * self._baseline, self._largest + self._baseline
        for level in _CHANCES:
            high, low = self._high[level], self._low[level]
            apart = np.where(np.isfinite(high), high - low, -np.inf)
            off = np.maximum(high, -low)
            wide, far = int(np.argmax(apart)), int(np.argmax(off))
            if apart[wide] > moves * (1 + _ROUNDING):
                return level, (
                    f"Mean rewards of option {labels[wide]!r} differ by at least {apart[wide]:.3g} "
                    f"between phases; the declared baseline of ±{self._baseline:g} allows for "
                    f"{moves:g}."
                )
            if off[far] > most * (1 + _ROUNDING):
                return level, (
                    f"The mean reward of option {labels[far]!r} in a phase exceeds {off[far]:.3g} "
                    f"in size, which does not fit {self.declared}."
                )
        return self._verdict_on_spread()

    def _verdict_on_spread(self) -> tuple[str, str]:
        # The baseline moves within a summary too, by a variance of at most R².
        if self._degrees >= _LEAST_DEGREES and self._spare > 2 * self._allowed:
            spread, most = np.sqrt(np.array([self._spare, self._allowed]) / self._degrees)
            return "alarm" if self._spare > 4 * self._allowed else "warning", (
                f"Rewards of one option in one phase vary with a standard deviation of "
                f"{spread:.3g}; noise and baseline together allow for {most:.3g}."
            )
        return "ok", f"Means and spread of rewards fit {self.declared}."
