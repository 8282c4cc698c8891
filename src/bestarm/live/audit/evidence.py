"""Evidence against recorded probabilities, declared scales and models of means, valid at any time.

Tests of models add phases in order, whole or up to any of their pulls; what is bet on one is fixed
from those before it. Looked at later, the same process of evidence is farther along. By Ville's
inequality it ever exceeds c with probability at most 1/c, at whatever looks, as long as outcomes
that never come depend neither on the option nor on the outcome. (Another check asks whether they
depend on the option.) Rewards are as they were told: forecasts would be part of the baseline.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bestarm.bounds import bernstein_evidence, sub_gaussian_scale
from bestarm.numerics.geometry import Array, linear_span
from bestarm.problem import Problem
from bestarm.records import Counts, Plan, Summary

Bounds = tuple[float, float] | None  # of rewards
_Totals = tuple[Array, Array]  # Σ n x xᵀ and Σ s x

# Concentrations of the Dirichlet mixture, in draws: ten catch gross errors soon, a hundred thousand
# small ones at last. Their evidence is averaged.
_CONCENTRATIONS = np.array([10.0, 100.0, 1e3, 1e4, 1e5])
_PRIOR = 20.0  # draws that one starts from when arms are compared with what was expected
_SIGNIFICANCE = {"alarm": 1e-6, "warning": 1e-3}  # what true scales ever show, at most
_MEANS = 0.9  # of that, what means may use up; the spread takes less than the rest
_LEAST_DEGREES = 100  # before, the spread says nothing
_ROUNDING = 1e-9
_FEW = 20.0  # pulls of an arm for which its residuals are half believed
_REFERENCE = 1.0  # variation at which bets are first at their best
_START = 30.0  # the same without bounds, in pulls of the largest variance
_TINY = 1e-9  # relative to residuals: what regression leaves of them by rounding
_MEMORIES = np.array([1.0, 4.0, 16.0])  # phases over which a level is averaged
_TILTS = np.array([0.05, 0.2, 0.8, 3.2])  # λ, over the range of rewards: from small to gross


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
        self._logs: Array = np.zeros(len(_CONCENTRATIONS))
        self._alpha: Array = np.zeros((len(_CONCENTRATIONS), arms))
        self._size = 0  # of the batch so far

    def add(self, weights: Array, counts: Counts, *, more: bool = False) -> None:
        """Add the arms of a batch drawn with probabilities `weights`, or more of the one before."""
        if not more:
            suggested = (self.observed + _PRIOR) / (self.expected + _PRIOR)
            centre = weights * suggested
            self._alpha = _CONCENTRATIONS[:, None] * (centre / centre.sum())
            self._size = 0
        size = int(counts.sum())
        if not size:
            return
        if counts[weights == 0].any():
            self._logs += math.inf  # what cannot be drawn was
        use = weights > 0
        alpha, count = self._alpha[:, use], counts[use]
        concentration = _CONCENTRATIONS + self._size
        mixture = gammaln(concentration) - gammaln(concentration + size)
        mixture += (gammaln(alpha + count) - gammaln(alpha)).sum(axis=1)
        self._logs += mixture - float(count @ np.log(weights[use]))
        self._alpha = self._alpha + counts
        self._size += size
        self.observed = self.observed + counts
        self.expected = self.expected + size * weights

    @property
    def p_value(self) -> float:
        """A bound on the probability that a sound experiment ever shows as much evidence."""
        evidence = float(np.logaddexp.reduce(self._logs)) - math.log(len(_CONCENTRATIONS))
        return math.exp(-max(0.0, evidence))

    @property
    def most_deviating_arm(self) -> int:
        """The arm whose count is farthest from what was expected."""
        off = self.observed - self.expected
        return int(np.argmax(np.abs(off) / np.sqrt(np.maximum(self.expected, 1e-12))))


class ScaleTest:
    """Rewards beside a noise α, a baseline within ±R and means within ±M (`largest`).

    An arm's mean over n pulls lies within M + R + α √(2 log(2/p)/n), and two of its means are at
    most 2R apart but for noise, each with probability 1 − p: whatever θ and the baseline are. The
    means of the k-th summary of K arms have p = c/(K k(k + 1)) each. These add up to c over all
    summaries there can be, so that c bounds the probability of a finding at any look, ever.

    The squares left about the means of arm and summary, Σ (r − r̄)² with D degrees of freedom,
    exceed tΣ (α²(n − 1) + R²n) with probability at most exp(−D(t − 1 − log t)/2), by Chernoff's
    bound for squares of sub-Gaussian variables, where the baseline does not react to the noise:
    e^(−0.153 D) for t = 2 and e^(−0.806 D) for t = 4. Over all D ≥ 100 these add up to less than
    2·10⁻⁶ and 2·10⁻³⁵.
    """

    def __init__(self, problem: Problem, largest: float) -> None:
        self._noise, self._baseline, self._largest = problem.noise, problem.baseline, largest
        self._arms = problem.arms
        self._summaries = 0
        self._high = {level: np.full(problem.arms, -np.inf) for level in _SIGNIFICANCE}
        self._low = {level: np.full(problem.arms, np.inf) for level in _SIGNIFICANCE}
        self._spare = 0.0  # squared deviations from the mean of arm and summary
        self._allowed = 0.0  # and what they are on average, at most
        self._degrees = 0

    @property
    def declared(self) -> str:
        """The scales in words."""
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
        for level, chance in _SIGNIFICANCE.items():
            share = _MEANS * chance / means_looked_at
            margin = self._noise * np.sqrt(2 * math.log(2 / share) / counts)
            high, low = self._high[level], self._low[level]
            high[use] = np.maximum(high[use], means - margin)
            low[use] = np.minimum(low[use], means + margin)

    def level_of_reward(self, size: float, count: int) -> str:
        """The level of a finding that the largest of `count` rewards has this size.

        The i-th reward has a share of 1/(i(i + 1)), so that this too may be asked at any time.
        """
        for level, chance in _SIGNIFICANCE.items():
            margin = self._noise * math.sqrt(2 * math.log(2 * count * (count + 1) / chance))
            if size > (self._largest + self._baseline + margin) * (1 + _ROUNDING):
                return level
        return "ok"

    def verdict(self, labels: Sequence[str]) -> tuple[str, str]:
        """A level and a sentence."""
        if not self._degrees and not np.isfinite(self._high["alarm"]).any():
            return "ok", "No phase is answered yet."
        moves, most = 2 * self._baseline, self._largest + self._baseline
        for level in _SIGNIFICANCE:
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


class _PhaseTest(ABC):
    """Counts a phase together, however many summaries it has."""

    def __init__(self, arms: int) -> None:
        self._phase = 0
        self._counts, self._sums = np.zeros((2, arms))
        self._origin: Array = np.zeros(arms)  # taken off rewards, so that sums keep their digits
        # The largest so far: a level that has moved stays moved, though the evidence may ebb away.
        self.log_evidence = 0.0
        self.pulls = 0  # outcomes on which was bet

    @property
    def p_value(self) -> float:
        """A bound on the probability that a true model ever shows as much evidence."""
        return math.exp(-self.log_evidence)

    def add(self, plan: Plan, summary: Summary) -> None:
        """Add the totals of the next pulls of a plan."""
        if plan.phase != self._phase:
            if self._counts.any():
                self._learn(self._counts, self._sums)
            self._phase, self._counts, self._sums = plan.phase, 0 * self._counts, 0 * self._sums
            self._begin(plan)
        counts, shift = summary.counts.astype(float), summary.center - self._origin
        first = summary.sums + shift * counts
        second = summary.squares + shift * (summary.sums + first)
        self._counts, self._sums = self._counts + counts, self._sums + first
        found = self._settle(counts, first, second)
        self.log_evidence = max(self.log_evidence, found)

    @abstractmethod
    def _learn(self, counts: Array, sums: Array) -> None: ...  # from a phase

    @abstractmethod
    def _begin(self, plan: Plan) -> None: ...  # fix the bets on a phase

    # Take in outcomes less the origin (number, sum and sum of squares per arm), and return the log
    # of the evidence.
    @abstractmethod
    def _settle(self, counts: Array, first: Array, second: Array) -> float: ...


class LinearTest(_PhaseTest):
    """Evidence against mean rewards x·θ plus a baseline that all arms share.

    Phases must be drawn at random. Before one with probabilities p(a), weights w(a) and guesses
    c(a) are fixed. Guesses are linear in (1, x). Weights are what is left of the residuals of the
    past once they are regressed on (1, x) with weights p, so that Σ p(a) w(a) (1, x(a)) = 0. If the
    model holds,

        z = w(A) (r − c(A)),    E[z | past] = Σ p(a) w(a) (x(a)·θ + ν − c(a)) = 0

    whatever θ is, and however the baseline moves that is set before the draw. If it does not, and
    the residuals persist, z has a positive mean.

    With bounds on rewards, |z| ≤ b is known beforehand, and for 0 ≤ λ < 1

        exp( λ Σ z/b − (−log(1 − λ) − λ) Σ (z/b)² )

    is a supermartingale, and so is its mixture over λ (`bernstein_evidence`). Without, E[z² | past]
    is at most v = Σ p(a) w(a)² (α² + d(a)²), where means lie at most d(a) from c(a). Since
    exp(y − y²/6) ≤ 1 + y + y²/3 for every y,

        exp( λ Σ z − λ²/6 Σ (z² + 2v) )

    is one for every λ, and so is its mixture over a normal λ. Weights have size 1 at most. Without
    bounds, `largest` bounds |x·θ|.

    Reference: Delyon (2009) for the inequality without bounds.
    """

    def __init__(self, problem: Problem, bounds: Bounds, largest: float) -> None:
        super().__init__(problem.arms)
        arms, rank = problem.arms, problem.rank
        self.free = arms - 1 - rank  # dimensions in which means may differ from the model
        self._features = np.column_stack([np.ones(arms), problem.span.coordinates(problem.source)])
        size = largest + problem.baseline
        low, high = (-size, size) if bounds is None else bounds
        self._origin = np.full(arms, (low + high) / 2)
        self._far = (high - low) / 2  # means, or rewards, lie so far from the origin
        self._bounded, self._noise = bounds is not None, problem.noise
        self._gram, self._moment = np.zeros((rank, rank)), np.zeros(rank)
        self._seen, self._residuals = np.zeros((2, arms))
        self._guess: Array = np.zeros(arms)
        self._weights: Array | None = None
        self._size = self._second = 1.0  # b, v
        self._lead = self._variation = 0.0

    @property
    def outcomes(self) -> Array:
        """How many outcomes of each arm there are."""
        return self._seen + self._counts

    @property
    def largest_residual(self) -> tuple[int, float]:
        """The arm whose residuals are the clearest, and their mean."""
        seen = np.maximum(self._seen, 1.0)
        arm = int(np.argmax(np.abs(self._residuals) / np.sqrt(seen)))
        return arm, float(self._residuals[arm] / seen[arm])

    def _learn(self, counts: Array, sums: Array) -> None:
        arms, total = self._features[:, 1:], counts.sum()
        middle, level = counts @ arms / total, sums.sum() / total
        centered = arms - middle
        self._gram = self._gram + centered.T @ (counts[:, None] * centered)
        self._moment = self._moment + centered.T @ sums
        ridge = _TINY * max(float(np.trace(self._gram)), 1.0) * np.eye(len(self._gram))
        slope = np.linalg.solve(self._gram + ridge, self._moment)
        self._guess = level + centered @ slope
        self._seen = self._seen + counts
        self._residuals = self._residuals + sums - counts * self._guess

    def _begin(self, plan: Plan) -> None:
        self._weights, weights = None, plan.shares
        if not self._seen.any() or not math.isfinite(self._far):
            return
        use = weights > 0
        residuals = (self._residuals / (self._seen + _FEW))[use]
        roots, features = np.sqrt(weights[use]), self._features[use]
        fit = np.linalg.lstsq(roots[:, None] * features, roots * residuals)[0]
        left = residuals - features @ fit
        largest = float(np.abs(left).max())
        if largest <= _TINY * float(np.abs(residuals).max()):
            return  # the arms of this plan fit every model
        left = left / largest
        far = self._far + np.abs(self._guess[use])
        self._size = float(np.abs(left * far).max())
        self._second = float(weights[use] @ (left**2 * (self._noise**2 + far**2)))
        self._weights = np.zeros(len(use))
        self._weights[use] = left

    def _settle(self, counts: Array, first: Array, second: Array) -> float:
        if self._weights is None:
            return 0.0
        weights, guess = self._weights, self._guess
        lead = float(weights @ (first - counts * guess))
        self.pulls += int(counts.sum())
        spread = np.maximum(second - 2 * guess * first + guess * guess * counts, 0.0)
        squares = float(weights**2 @ spread)
        if self._bounded:
            self._lead += lead / self._size
            self._variation += squares / self._size**2
            totals = np.array(self._lead), np.array(self._variation)
            return float(bernstein_evidence(*totals, reach=1.0, reference=_REFERENCE))
        self._lead += lead
        self._variation += (squares + 2 * float(counts.sum()) * self._second) / 3
        start = _START * (self._noise**2 + self._far**2)
        total = self._variation + start
        return (self._lead**2 / total - math.log(total / start)) / 2


class LevelTest(_PhaseTest):
    """Evidence against mean rewards x·θ without any baseline.

    Before a phase a forecast μ(a) of its rewards is fixed: a linear fit of the past, plus a share
    of the level by which recent phases lay off it. For noise that is sub-Gaussian with scale α, and
    every θ,

        exp( Σ ((r − x·θ)² − (r − μ)²) / (2α²) )

    is a supermartingale if x·θ is the mean: a factor is exp(λη − λ²α²/2) with λ = (μ − x·θ)/α². So
    its least value over θ, from the squares that the best fit in hindsight leaves, is at most that
    of the true θ. The mean over several memories is no more. Rewards between bounds have α of half
    their distance. If a level moves from phase to phase, forecasts come to be better than any fit.
    """

    def __init__(self, problem: Problem, bounds: Bounds) -> None:
        super().__init__(problem.arms)
        self._arms = linear_span(problem.source).coordinates(problem.source)
        rank = self._arms.shape[1]
        self._variance = (problem.noise if bounds is None else sub_gaussian_scale(bounds)) ** 2
        self._past = np.zeros((rank, rank)), np.zeros(rank)
        self._slope: Array = np.zeros(rank)
        self._scored = np.zeros((rank, rank)), np.zeros(rank)
        self._losses = np.zeros(len(_MEMORIES))
        self._levels, self._weights, self._met, self._moved = np.zeros((4, len(_MEMORIES)))
        self._forecasts: Array | None = None  # memories × arms

    def _averages(self) -> Array:
        return self._levels / np.maximum(self._weights, 1.0)

    def _learn(self, counts: Array, sums: Array) -> None:
        total, before = counts.sum(), self._averages()
        level = (sums.sum() - counts @ (self._arms @ self._slope)) / total
        if self._forecasts is not None:
            self._met = self._met + total * before * level
            self._moved = self._moved + total * before**2
            fades = 1 - 1 / _MEMORIES
            self._levels = fades * self._levels + total * level
            self._weights = fades * self._weights + total
        else:  # the first phase: what follows is less its fit
            self._origin = self._arms @ _fit(*_joined(self._past, self._arms, counts, sums))
            sums = sums - counts * self._origin
        self._past = _joined(self._past, self._arms, counts, sums)
        self._slope = _fit(*self._past)

    def _begin(self, plan: Plan) -> None:  # noqa: ARG002 - fixed whatever is planned
        if self._past[0].any():
            share = np.clip(self._met / (self._moved + 4 * self._variance), 0.0, 1.0)
            self._forecasts = (share * self._averages())[:, None] + self._arms @ self._slope

    def _settle(self, counts: Array, first: Array, second: Array) -> float:  # noqa: ARG002
        if self._forecasts is None or not self._variance:
            return 0.0
        mean = self._forecasts
        self.pulls += int(counts.sum())
        self._scored = _joined(self._scored, self._arms, counts, first)
        self._losses = self._losses - 2 * mean @ first + mean**2 @ counts  # Σr² cancels below
        (gram, moment), slope = self._scored, _fit(*self._scored)
        least = float(slope @ gram @ slope) - 2 * float(moment @ slope)
        gains = (least - self._losses) / (2 * self._variance)
        return float(np.logaddexp.reduce(gains)) - math.log(len(gains))


def _joined(totals: _Totals, arms: Array, counts: Array, sums: Array) -> _Totals:
    return totals[0] + arms.T @ (counts[:, None] * arms), totals[1] + arms.T @ sums


def _fit(gram: Array, moment: Array) -> Array:
    """The least-squares fit, the shortest where there are several."""
    return np.asarray(np.linalg.lstsq(gram, moment)[0])


class DelayTest:
    """Evidence against delays that do not depend on the reward, within option and phase.

    Of the outcomes of an option in a phase, call those quick that took no longer than the median of
    that phase, or less where none took longer. Let S be the sum of their rewards less what as many
    would have at the mean of all, m the smaller number of quick and of slow ones, and R the range
    of rewards. If delays do not depend on rewards, the quick ones are drawn from all without
    replacement, so that E exp(λS) ≤ exp(λ² m R² / 8) (Hoeffding 1963, theorem 4). So the product of
    exp(λS − λ² m R² / 8) over options and phases in their order, and its average over several λ,
    ever exceeds c with probability at most 1/c. (Where the level of rewards and the delays both
    change within a phase, they may depend on each other through time.)

    Attributes:
        outcomes: how many are looked at.
        means: the mean reward of quick outcomes and of slow ones; NaN where there are none.
        p_value: a bound on the probability that the evidence is ever as large as it is.

    Args:
        span: the range of rewards.
        phases: of each outcome; phases are whole, and none before them is left out.
        arms: of each outcome.
        delays: of each outcome.
        rewards: of each outcome.
    """

    def __init__(
        self, span: float, *, phases: Counts, arms: Counts, delays: Array, rewards: Array
    ) -> None:
        self.outcomes, self.means, self.p_value = len(rewards), (math.nan, math.nan), 1.0
        quick = _quick(phases, delays)
        if not quick.any():
            return
        _, groups = np.unique(np.stack([phases, arms]), axis=1, return_inverse=True)
        group = groups.ravel()
        count, fast = np.bincount(group), np.bincount(group, quick)
        excess = np.bincount(group, rewards * quick) - fast * np.bincount(group, rewards) / count
        fewer = np.minimum(fast, count - fast)
        tilts = np.concatenate([_TILTS, -_TILTS]) / span
        logs = tilts * excess.sum() - tilts**2 * span**2 / 8 * fewer.sum()
        log = float(np.logaddexp.reduce(logs)) - math.log(len(logs))
        self.means = float(rewards[quick].mean()), float(rewards[~quick].mean())
        self.p_value = math.exp(-max(log, 0.0))


def _quick(phases: Counts, delays: Array) -> NDArray[np.bool_]:
    """Which took no longer than the median of their phase; less, where none took longer."""
    order = np.lexsort((delays, phases))
    first = np.flatnonzero(np.diff(phases[order], prepend=-1))
    sizes = np.diff(first, append=len(phases))
    middle, last = np.empty((2, len(phases)))
    middle[order] = np.repeat(delays[order][first + (sizes - 1) // 2], sizes)
    last[order] = np.repeat(delays[order][first + sizes - 1], sizes)
    return np.where(middle < last, delays <= middle, delays < middle)
