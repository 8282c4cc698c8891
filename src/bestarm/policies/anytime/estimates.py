"""Estimates from the past: θ, the baseline to come, how noisy rewards are.

The anytime rule is valid whatever they are; good ones save pulls.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.compiling import tiered
from bestarm.numerics.geometry import Array
from bestarm.numerics.linalg import add_weighted_gram, cholesky, dot
from bestarm.policies.anytime.bets import BatchOutcome, Scale
from bestarm.policies.anytime.readout import Indices, Parts, total
from bestarm.records import Counts

_RIDGE = 1.0  # pulls of the first batch's design, with reward zero
_MEMORY = 0.96  # what a batch before counts towards the spread to come
_SHRINKAGE = 15.0  # times the noise of an arm's spread: pulls that all arms' spread counts for
_LEAST_SPREAD = 1e-6  # of an arm, relative to that of all arms together
_FORGETTING = 0.91  # what a batch before counts in judging how to predict levels
_INERTIA = 0.98  # what a batch before counts towards how fast levels move
_CLEAR = 3.0  # standard errors from which on a level counts as having moved
_BATCH_DRIFT = 0.7  # noise deviations that the level may move within a batch: 4 % of the variance


class Scalars(NamedTuple):
    """Where the scalars of an `EstimatorState` stand in its array.

    Attributes:
        pulls: the number of pulls learned from.
        reward: the sum of their rewards.
        misses: of the three predictions of a level: squared errors, recent batches counting most.
        moved: Σ n (dν/dt)², recent batches counting most.
        weighed: Σ n, likewise.
        batches: how many batches are noted below: 0, 1 or 2.
        whens: the middle pulls of the batch before and of the last one.
        means: their mean rewards.
        spread: the mean of the arms' spread.
        level: ν̂, where a bound on it is declared.
    """

    pulls: int = 0
    reward: int = 1
    misses: int = 2
    moved: int = 5
    weighed: int = 6
    batches: int = 7
    whens: int = 8
    means: int = 10
    spread: int = 12
    level: int = 13


BOUND = 5  # where R stands in `Estimates.known`
SCALARS = Scalars()
_PULLS, _REWARD, _MISSES, _MOVED, _WEIGHED, _BATCHES, _WHENS, _MEANS, _SPREAD, LEVEL = SCALARS


class EstimatorState(NamedTuple):
    """What is kept of all batches, in arrays that the kernels change.

    Attributes:
        scalars: see `Scalars`.
        slope: θ̂ in coordinates of the span.
        information: Σ n Σ_cov over the batches.
        gram: of the regression.
        moment: of the regression.
        total_arm: the sum of all arms pulled.
        mean_arms: the mean arms of the batch before and of the last one.
        second: (r − c)² per arm, recent batches counting most.
        counts: pulls per arm, likewise.
        spread: the expected (r − c)² per arm, shrunk towards that of all arms together.
        third: (r − c)³ per arm, recent batches counting most.
    """

    scalars: Array
    slope: Array
    information: Array
    gram: Array
    moment: Array
    total_arm: Array
    mean_arms: Array
    second: Array
    counts: Array
    spread: Array
    third: Array


@tiered
def _add(matrix: Array, factor: float, other: Array) -> None:
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] += factor * other[i, j]


@tiered
def predicted_levels(state: Parts, known: Parts, when: float) -> tuple[float, float, float]:
    """Rewards less x·θ̂ around some pull, predicted by the mean so far, the last, the trend."""
    scalars, slope, _, _, _, total_arm, mean_arms, _, _, _, _ = state
    low, high, _, _, intercept, _ = known
    if not intercept:
        return 0.0, 0.0, 0.0
    if scalars[_BATCHES] == 0:
        middle = (low + high) / 2
        return middle, middle, middle
    last = scalars[_MEANS + 1] - dot(mean_arms[1], slope)
    if scalars[_BATCHES] == 1:
        return last, last, last  # to the bit: rounding must not choose among them
    before = scalars[_MEANS] - dot(mean_arms[0], slope)
    average = (scalars[_REWARD] - dot(total_arm, slope)) / scalars[_PULLS]
    trend = (last - before) / (scalars[_WHENS + 1] - scalars[_WHENS])
    return average, last, last + trend * (when - scalars[_WHENS + 1])


@tiered
def predict_rewards(state: Parts, arms: Array, known: Parts, size: float, expected: Array) -> None:
    """c(a) of every arm in the next batch of `size` pulls, within the range of rewards; output."""
    scalars, slope, _, _, _, _, _, _, _, _, _ = state
    low, high, _, _, intercept, _ = known
    if scalars[_PULLS] == 0:
        level = low / 2 + high / 2 if intercept else min(max(0.0, low), high)
        for a in range(len(arms)):
            expected[a] = level
        return
    predicted = predicted_levels(state, known, scalars[_PULLS] + size / 2)
    best = 0
    for i in range(1, 3):
        if scalars[_MISSES + i] < scalars[_MISSES + best]:
            best = i
    level = predicted[best]
    for a in range(len(arms)):
        expected[a] = min(max(level + dot(arms[a], slope), low), high)


@tiered
def batch_size(scalars: Array, pulls: float, growth: float, least: int) -> int:
    """The pulls of the next batch: a share of those before, less if the level moves as it did.

    They are at least `least`, and twice as many in the first batch.
    """
    size = growth * pulls
    if scalars[_MOVED] > 0:
        rate = scalars[_SPREAD] * scalars[_WEIGHED] / scalars[_MOVED]
        size = min(size, _BATCH_DRIFT * math.sqrt(rate))
    return max(int(size), least if pulls > 0 else 2 * least)


@tiered
def _solve(gram: Array, moment: Array, slope: Array) -> None:
    """gram⁻¹ moment by Cholesky: LAPACK's takes many times as long to compile as this to run."""
    rank = len(moment)
    lower = np.zeros((rank, rank))
    for i in range(rank):
        for j in range(i + 1):
            rest = gram[i, j] - dot(lower[i, :j], lower[j, :j])
            lower[i, j] = np.sqrt(rest) if i == j else rest / lower[j, j]
    for i in range(rank):
        slope[i] = (moment[i] - dot(lower[i, :i], slope[:i])) / lower[i, i]
    for i in range(rank - 1, -1, -1):
        for j in range(i + 1, rank):
            slope[i] -= lower[j, i] * slope[j]
        slope[i] /= lower[i, i]


@tiered
def _fit(state: Parts, known: Parts) -> None:
    """θ̂ by the regression within batches; and by the mean of all rewards, if its level is bounded.

    With |ν| ≤ R the mean r̄ of N rewards is X̄·θ up to R and noise: it counts for
    N / (1 + NR²/σ²) pulls of the mean arm X̄, and ν̂ is r̄ − X̄·θ̂, shrunk accordingly.
    """
    scalars, slope, _, gram, moment, total_arm, _, _, _, _, _ = state
    _, _, _, least, _, bound = known
    if bound == math.inf:
        _solve(gram, moment, slope)
        return
    pulls = scalars[_PULLS]
    relative = pulls * bound * bound / (scalars[_SPREAD] if scalars[_SPREAD] > 0 else least)
    share = 1 / (pulls * (1 + relative))
    with_level, with_mean = gram.copy(), moment.copy()
    for i in range(len(slope)):
        with_mean[i] += share * total_arm[i] * scalars[_REWARD]
        for j in range(len(slope)):
            with_level[i, j] += share * total_arm[i] * total_arm[j]
    _solve(with_level, with_mean, slope)
    rest = (scalars[_REWARD] - dot(total_arm, slope)) / pulls
    scalars[LEVEL] = rest / (1 + 1 / relative) if relative > 0 else 0.0


@tiered
def lifted_information(state: Parts, known: Parts) -> Array:
    """What is known of (ν, θ): of the batches' regression, the mean of all, and the bound R."""
    scalars, slope, information, _, _, total_arm, _, _, _, _, _ = state
    bound, rank, pulls = known[BOUND], len(slope), scalars[_PULLS]
    lifted = np.empty((rank + 1, rank + 1))
    lifted[0, 0] = pulls + scalars[_SPREAD] / max(bound * bound, 1e-200 * scalars[_SPREAD])
    for i in range(rank):
        lifted[0, i + 1] = lifted[i + 1, 0] = total_arm[i]
        for j in range(rank):
            lifted[i + 1, j + 1] = information[i, j] + total_arm[i] * total_arm[j] / pulls
    return lifted


@tiered
def beliefs(state: Parts, known: Parts) -> Parts:
    """θ̂, ν̂, R, and U with UᵀU the information on θ for a known level, per variance of a reward."""
    upper, total_arm = np.empty((0, 0)), state[5]
    if known[BOUND] < math.inf and state[0][_PULLS] > 0:
        upper = state[2].copy()
        for i in range(len(upper)):
            for j in range(len(upper)):
                upper[i, j] += total_arm[i] * total_arm[j] / state[0][_PULLS]
                upper[i, j] /= state[0][_SPREAD]
        cholesky(upper)
    return state[1].copy(), state[0][LEVEL], known[BOUND], upper


@tiered
def _regress(state: Parts, drawn: Parts, counts: Array, first: Array, level: float) -> None:
    """Orthogonalized regression on all batches, each less a level of its own."""
    _, slope, information, gram, moment, _, _, _, _, _, _ = state
    _, centered, covariance, guess = drawn
    _add(information, total(counts), covariance)
    for a in range(len(counts)):
        rewards = first[a] + counts[a] * (guess[a] - level)
        for i in range(len(slope)):
            moment[i] += centered[a, i] * rewards
    add_weighted_gram(centered, counts, gram)


@tiered
def _move(state: Parts, reward: float, arm: Array, pulls: float, when: float) -> None:
    """Note the mean of a batch, and how fast levels have moved since the one before it."""
    scalars, slope, _, _, _, _, mean_arms, _, _, _, _ = state
    if scalars[_BATCHES] > 0:
        gap = when - scalars[_WHENS + 1]
        moved = reward - scalars[_MEANS + 1] - (dot(arm, slope) - dot(mean_arms[1], slope))
        error = scalars[_SPREAD] * (1 / pulls + 1 / max(2 * gap - pulls, 1.0))
        rate = moved / gap if moved * moved > _CLEAR * _CLEAR * error else 0.0
        scalars[_MOVED] = _INERTIA * scalars[_MOVED] + pulls * rate * rate
        scalars[_WEIGHED] = _INERTIA * scalars[_WEIGHED] + pulls
    scalars[_WHENS], scalars[_WHENS + 1] = scalars[_WHENS + 1], when
    scalars[_MEANS], scalars[_MEANS + 1] = scalars[_MEANS + 1], reward
    for i in range(len(arm)):
        mean_arms[0, i], mean_arms[1, i] = mean_arms[1, i], arm[i]
    scalars[_BATCHES] = min(scalars[_BATCHES] + 1, 2)


@tiered
def _shrink(state: Parts, least: float) -> None:
    """The expected (r − c)² of every arm, from batches of which the last count most.

    An arm's own mean square s² is off by s² √((κ − 1)/n) after n pulls, so where its kurtosis κ is
    large, as that of rare clicks, it must not be believed soon: arms that happened to have few
    clicks would seem to be quiet, and would not be pulled. κ − 1 is at least the square of the
    skewness; it is that for rewards of two values, and two more for Gaussian ones.
    """
    scalars, _, _, _, _, _, _, second, weighed, spread, third = state
    # Rewards that did not vary at all say no more than that they vary less than once in n.
    pooled = max(total(second) / total(weighed), least / scalars[_PULLS])
    for a in range(len(second)):
        pulls = max(weighed[a], 1.0)
        own = max(second[a] / pulls, _LEAST_SPREAD * pooled)
        skewness = third[a] / pulls / (own * math.sqrt(own))
        # κ − 1, or 2 if it is Gaussian and varies as the others do. The last term grows for an arm
        # that varied far less than they did: it may have had none of its large rewards yet.
        noise = 1.5 + skewness * skewness + 0.5 * max(pooled / own, 1.0)
        shared = _SHRINKAGE * noise
        spread[a] = (second[a] + shared * pooled) / (weighed[a] + shared)
    scalars[_SPREAD] = total(spread) / len(spread)


@tiered
def _learn_spread(state: Parts, least: float, arms: Indices, outcome: Parts) -> None:
    """Take in the squares of a batch."""
    _, _, _, _, _, _, _, second, weighed, _, third = state
    counts, _, squares, cubes = outcome
    for a in range(len(second)):
        second[a] *= _MEMORY
        weighed[a] *= _MEMORY
        third[a] *= _MEMORY
    for i in range(len(arms)):
        second[arms[i]] += max(squares[i], 0.0)
        weighed[arms[i]] += counts[i]
        third[arms[i]] += 0.0 if np.isnan(cubes[i]) else cubes[i]
    _shrink(state, least)


@tiered
def correct_batch(state: Parts, known: Parts, drawn: Parts, outcome: Parts) -> None:
    """Put outcomes in the place of what was predicted for them when their batch was learned from.

    Args:
        state: the parts of an `EstimatorState`; changed.
        known: as for `learn_batch`.
        drawn: the arms that could be drawn, and their centered coordinates.
        outcome: Σ(r − c), Σ(r − c)² less what was predicted of it, and Σ(r − c)³, or NaN.
    """
    scalars, slope, _, _, moment, _, _, second, _, _, third = state
    arms, centered = drawn
    first, squares, cubes = outcome
    for a in range(len(arms)):
        for i in range(len(slope)):
            moment[i] += centered[a, i] * first[a]
        second[arms[a]] = max(second[arms[a]] + squares[a], 0.0)
        third[arms[a]] += 0.0 if np.isnan(cubes[a]) else cubes[a]
    scalars[_REWARD] += total(first)
    _fit(state, known)
    _shrink(state, known[3])


@tiered
def learn_batch(
    state: Parts, coordinates: Array, known: Parts, drawn: Parts, outcome: Parts
) -> None:
    """Take in a batch's outcome.

    Args:
        state: the parts of an `EstimatorState`; changed.
        coordinates: all source arms.
        known: the low and the high end of rewards, their center, the least variance to believe in,
            whether there is a baseline, and the bound on its level that is used, or infinity.
        drawn: the arms that could be drawn, their centered coordinates, Σ_cov and c(a).
        outcome: their counts, Σ(r − c), Σ(r − c)² and Σ(r − c)³, which is NaN if it is not known.
    """
    scalars, slope, _, gram, _, total_arm, _, _, _, _, _ = state
    _, _, _, least, intercept, _ = known
    arms, centered, covariance, guess = drawn
    counts, first, squares, cubes = outcome
    pulls = total(counts)
    if pulls == 0:
        return
    reward = (total(first) + dot(guess, counts)) / pulls
    arm = np.zeros(len(slope))
    for i in range(len(arms)):
        for j in range(len(slope)):
            arm[j] += counts[i] / pulls * coordinates[arms[i], j]
    before, when = scalars[_PULLS], scalars[_PULLS] + pulls / 2
    if before > 0:
        level = reward - dot(arm, slope)
        predicted = predicted_levels(state, known, when)
        for i in range(3):
            miss = predicted[i] - level
            scalars[_MISSES + i] = _FORGETTING * scalars[_MISSES + i] + pulls * miss * miss
        # The level that was predicted of the mean arm; some guesses may be clipped to the range.
        level = 0.0
        for i in range(len(arms)):
            level += counts[i] / pulls * (guess[i] - dot(centered[i], slope)) if intercept else 0.0
    else:
        # Nothing was predicted of the first batch; its own level does as well.
        level = reward if intercept else 0.0
        _add(gram, _RIDGE, covariance)
    _regress(state, drawn, counts, first, level)
    scalars[_PULLS] += pulls
    scalars[_REWARD] += pulls * reward
    for i in range(len(arm)):
        total_arm[i] += pulls * arm[i]
    _fit(state, known)
    if before == 0:
        origin = dot(arm, slope) if intercept else 0.0
        squares, cubes = squares.copy(), cubes.copy()
        for i in range(len(arms)):
            beyond = guess[i] - level - (dot(coordinates[arms[i]], slope) - origin)
            cubes[i] += beyond * (3 * squares[i] + beyond * (3 * first[i] + beyond * counts[i]))
            squares[i] += beyond * (2 * first[i] + beyond * counts[i])
    _learn_spread(state, least, arms, (counts, first, squares, cubes))
    if intercept:
        _move(state, reward, arm, pulls, when)


class Estimates:
    """Estimates from the batches so far.

    Attributes:
        known: where rewards lie, for kernels: see `learn_batch`.
        state: what is kept of the batches.

    Args:
        coordinates: the source arms, in coordinates of their span.
        scale: where rewards lie.
        intercept: whether there is a baseline. If not, its level is known to be zero.
        bound: R, if a bound on the baseline is used.
    """

    def __init__(
        self,
        coordinates: Array,
        scale: Scale,
        *,
        intercept: bool = True,
        bound: float = math.inf,
    ) -> None:
        arms, rank = coordinates.shape
        self.coordinates = np.ascontiguousarray(coordinates)
        half = (scale.high - scale.low) / 2
        least = scale.noise**2 or half**2
        self.known = scale.low, scale.high, scale.center, least, intercept, bound
        self.state = EstimatorState(
            np.zeros(14),
            *(np.zeros(rank), np.zeros((rank, rank)), np.zeros((rank, rank)), np.zeros(rank)),
            *(np.zeros(rank), np.zeros((2, rank))),
            *(np.zeros(arms), np.zeros(arms), np.full(arms, half**2 + scale.noise**2)),
            np.zeros(arms),
        )

    @property
    def pulls(self) -> int:
        """The number of pulls learned from."""
        return int(self.state.scalars[SCALARS.pulls])

    @property
    def slope(self) -> Array:
        """θ̂ in coordinates of the span."""
        return self.state.slope

    @property
    def belief(self) -> Parts:
        """What the sums of weights are chosen by: see `readout.tilted_weights`."""
        return beliefs(tuple(self.state), self.known)

    @property
    def information(self) -> Array:
        """Σ n Σ_cov over the batches."""
        return self.state.information

    @property
    def spread(self) -> Array:
        """The expected (r − c(a))² of every source arm, shrunk towards that of all together."""
        return self.state.spread

    def rewards(self, size: int) -> Array:
        """c(a): what every source arm may be expected to pay in the next batch of `size` pulls."""
        expected = np.empty(len(self.coordinates))
        predict_rewards(tuple(self.state), self.coordinates, self.known, float(size), expected)
        return expected

    def learn(self, batch: BatchOutcome, pending: Counts | None = None) -> None:
        """Take in a batch's outcome.

        Args:
            batch: what came of it.
            pending: outstanding outcomes of each arm that can be drawn, if there are any. For r
                counts what is predicted, c, and for (r − c)² the largest that it can be.
        """
        sampling = batch.frame.sampling
        drawn = sampling.arms, sampling.centered, sampling.covariance, batch.frame.guess
        totals = batch.totals
        counts, second = totals.counts, totals.second
        if pending is not None:
            counts, second = counts + pending, second + pending * self._largest_square(batch)
        outcome = counts, totals.first, second, totals.third
        learn_batch(tuple(self.state), self.coordinates, self.known, drawn, outcome)

    @staticmethod
    def _largest_square(batch: BatchOutcome) -> Array:
        scale, guess = batch.frame.scale, batch.frame.guess
        farthest = np.maximum(scale.high - guess, guess - scale.low)
        return np.asarray(farthest * farthest)

    def correct(self, late: BatchOutcome) -> None:
        """Take in outcomes alone that were outstanding when their batch was learned from."""
        sampling, totals = late.frame.sampling, late.totals
        second = totals.second - totals.counts * self._largest_square(late)
        outcome = totals.first, second, totals.third
        correct_batch(tuple(self.state), self.known, (sampling.arms, sampling.centered), outcome)
