"""Runs: plans in, totals out, with the same joint distribution as single pulls.

A policy sees only totals per arm, so only totals need to be drawn. If the baseline does not react
to the rewards, arms are drawn pull by pull and the noise arm by arm.

Loops over single pulls are compiled. Their random words come from NumPy's SFC64, continued from the
state of the generator, so that they need not pass through memory: bit for bit, they are those of
`SFC64.random_raw`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from bestarm.compiling import compiled
from bestarm.environments.environment import AdjustableStream, ForecastFunction, Pulls, Stream
from bestarm.errors import InvalidInputError
from bestarm.forecasting import Forecaster
from bestarm.numerics.geometry import Array
from bestarm.numerics.sampling import next_random_word, round_probabilities
from bestarm.presampled import Parts, PresampledRewards
from bestarm.records import BlockPlan, Counts, Plan, Rounds, Summary

Arms = NDArray[np.uint32]  # unsigned: no test for negative indices in the inner loops
Guide = NDArray[np.int32]
Words = NDArray[np.uint64]
FillArms = Callable[[Arms], None]  # fills an array with the next arms of a plan

CHUNK = 2**14  # pulls drawn at a time; their arms and values stay in the nearest caches
BANKS = 4  # accumulators per arm: consecutive pulls of one arm do not wait for each other's store
_LANE = 16  # bits of a word used per pull; a word serves BANKS pulls
_CELLS = 256  # of the guide table per arm: at most one draw in 256 needs a second word


class Totals(NamedTuple):
    """Counts, Σx, Σx², the least and the largest x, and Σx³ per arm, with x = r − center.

    Arms without pulls have +∞ and −∞ as extremes.
    """

    counts: Counts
    sums: Array
    squares: Array
    least: Array
    largest: Array
    cubes: Array

    @classmethod
    def empty(cls, arms: int) -> Totals:
        """No pulls yet."""
        sums, squares, least, largest, cubes = np.zeros((5, arms))
        least[:], largest[:] = np.inf, -np.inf
        return cls(np.zeros(arms, dtype=np.int64), sums, squares, least, largest, cubes)

    def add(self, arms: Arms, rewards: Array, center: float) -> None:
        """Add single pulls."""
        add_rewards(arms, rewards, center, tuple(self))

    def summary(self, center: float, forecast_sum: float = 0.0) -> Summary:
        """The totals as a policy is told them."""
        return Summary.unchecked(self.by_name(), center=center, forecast_sum=forecast_sum)

    def by_name(self) -> dict[str, Any]:
        """The totals by name, with extremes of 0 for arms without pulls."""
        none = self.counts == 0
        self.least[none] = self.largest[none] = 0.0
        return self._asdict()


class BaseStream(ABC):
    """The base of all runs: the means of the arms, the noise and four independent generators."""

    def __init__(self, means: Array, *, noise: float, rng: np.random.Generator) -> None:
        self._means, self._noise = means, noise
        # 128 bits of the generator passed in.
        self._entropy: list[int] = rng.integers(0, 2**32, size=4).tolist()
        self._rounds, self._block = 0, 1
        # Of the last plan that was drawn: many have the same weights.
        self._last_sampler: tuple[Array, int, FillArms] | None = None

    def _bit_generator(self, place: int) -> np.random.SFC64:
        """One of the children of `SeedSequence(entropy)`; few runs need all of them."""
        return np.random.SFC64(np.random.SeedSequence(self._entropy, spawn_key=(place,)))

    @cached_property
    def _arms_rng(self) -> np.random.Generator:
        return np.random.Generator(self._bit_generator(0))

    @cached_property
    def _noise_rng(self) -> np.random.Generator:
        return np.random.Generator(self._bit_generator(1))

    @cached_property
    def _baseline_rng(self) -> np.random.Generator:
        return np.random.Generator(self._bit_generator(2))

    @cached_property
    def _arms_state(self) -> Words:
        return state_of(self._arms_rng.bit_generator)

    @cached_property
    def _arms(self) -> Arms:
        """Room for the arms of a chunk."""
        return np.empty(CHUNK, dtype=np.uint32)

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals."""
        return self._pull(plan)

    def pull_adjusted(self, plan: Plan, forecast: ForecastFunction) -> Summary:
        """Carry out a plan and return the totals of rewards minus their forecasts."""
        return self._pull(plan, forecast)

    def _check(self, plan: Plan) -> None:
        if plan.arms != len(self._means):
            raise InvalidInputError(
                f"The plan is over {plan.arms} arms; this world has {len(self._means)}.",
                field="plan",
                value=plan.arms,
                remedy="Make the policy from the problem of this world.",
            )
        if plan.size > self._block:
            raise InvalidInputError(
                f"The plan asks for {plan.size} pulls in a round; this world has at most "
                f"{self._block}.",
                field="block",
                value=plan.size,
                remedy=f"Give the environment block={plan.size}.",
            )

    def _pull(self, plan: Plan, forecast: ForecastFunction | None = None) -> Summary:
        self._check(plan)
        by_pull = plan.extremes or forecast is not None
        summary = self._total_by_pull(plan, forecast) if by_pull else self._total(plan)
        self._rounds += plan.pulls
        return summary

    def _total(self, plan: Plan) -> Summary:
        """The totals of a plan; subclasses draw them at once where they can."""
        return self._total_by_pull(plan)

    def _total_by_pull(self, plan: Plan, forecast: ForecastFunction | None = None) -> Summary:
        """The totals of a plan, pull by pull, with each arm's least and largest reward."""
        totals, forecast_sum = Totals.empty(plan.arms), 0.0
        for pulls in self._single_pulls(plan):
            rewards = pulls.rewards
            if forecast is not None:
                forecasts = forecast(pulls, plan)
                forecast_sum += float(forecasts.sum())
                rewards = rewards - forecasts
            totals.add(pulls.arms, rewards, plan.center)
        return totals.summary(plan.center, forecast_sum)

    @abstractmethod
    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        """The arms and rewards of a plan's pulls, in chunks."""

    def _counts(self, plan: Plan) -> Counts:
        """How often each arm is pulled: as planned, or one multinomial draw."""
        if plan.counts is not None:
            return plan.counts
        support, weights = self._support(plan)
        counts = np.zeros(plan.arms, dtype=np.int64)
        counts[support] = self._arms_rng.multinomial(plan.pulls, weights)
        return counts

    def _support(self, plan: Plan) -> tuple[Arms, Array]:
        """The arms of positive probability, and their probabilities.

        Only these are drawn: an arm of probability 0 must not receive the remainder of rounding.
        """
        assert plan.weights is not None
        support = np.flatnonzero(plan.weights).astype(np.uint32)
        weights = round_probabilities(plan.weights[support])
        return support, weights / math.fsum(weights)

    def _arm_sampler(self, plan: Plan) -> FillArms:
        """A function that fills an array with the plan's next arms: drawn, or in a round-robin."""
        if plan.counts is not None:
            active = np.flatnonzero(plan.counts).astype(np.uint32)
            left = np.array(plan.counts)
            cursor = np.array([len(active), len(active), 0], dtype=np.int64)  # a round just ended
            return lambda arms: deal_round_robin(active, left, cursor, arms)
        assert plan.weights is not None
        if self._last_sampler is not None and self._last_sampler[0] is plan.weights:
            _, pulls, sampler = self._last_sampler
            if plan.pulls < 2 * pulls:
                return sampler
        support, weights = self._support(plan)
        cells = min(_CELLS * len(support), plan.pulls // 8)  # a short plan needs no long table
        bounds, guide, bits = guide_table(weights, cells)

        def sample(arms: Arms) -> None:
            draw_categorical(self._arms_state, bounds, guide, bits, support, arms)

        self._last_sampler = plan.weights, plan.pulls, sample
        return sample

    def _arms_in_order(self, plan: Plan) -> Iterator[tuple[int, Arms]]:
        """The number of the first pull and the arms of each chunk, which share their memory."""
        sample = self._arm_sampler(plan)
        for start in range(0, plan.pulls, CHUNK):
            arms = self._arms[: min(plan.pulls - start, CHUNK)]
            sample(arms)
            yield start, arms

    def _arms_by_counts(self, plan: Plan) -> Iterator[Arms]:
        """The arms of each chunk, where only their counts are drawn.

        They are shuffled, because forecasts must not learn from the order.
        """
        arms = np.repeat(np.arange(plan.arms, dtype=np.uint32), self._counts(plan))
        self._arms_rng.shuffle(arms)
        for start in range(0, plan.pulls, CHUNK):
            yield arms[start : start + CHUNK]

    def _add_noise(self, means: Array) -> Array:
        """Rewards with these means; changes them in place."""
        means += self._noise * self._noise_rng.standard_normal(means.shape)
        return means

    def presample(self, rounds: int) -> PresampledRewards | None:  # noqa: ARG002 - subclasses use it
        """The rewards of at most this many future rounds, or None if they cannot be known."""
        return None

    def skip(self, rounds: int) -> None:
        """Advance by this many of the rounds that `presample` returned."""
        self._rounds += rounds

    def _presample_common(self, common: Array) -> PresampledRewards:
        """Rewards of the arms' means and what the rounds add to all; adds noise to it in place."""
        self._add_noise(common)
        table = self._means.reshape(1, -1)
        table.flags.writeable = False  # as tables of ratings are: kernels are compiled once
        return PresampledRewards(table, np.zeros(len(common), dtype=np.int64), common)

    def _gaussian_totals(
        self, counts: Counts, level: Array, first: Array, second: Array, center: float
    ) -> Summary:
        """Totals of r = μ + η, less a center, over each arm's pulls, in O(1) per arm.

        An arm was pulled n times with means μ_t = level + v_t, where Σv = `first`, Σv² = `second`.
        Put m = Σμ/n and S = Σ(μ − m)². In an orthonormal basis that begins with the direction of
        (1, …, 1) and then of (μ_t − m), the noise has independent coordinates σz₁, σz₂, …, so

            Σr = nm + σ√n z₁,     Σr² = (Σr)²/n + (√S + σz₂)² + σ²χ²_{n−2}.

        One pull has no second direction. Where S = 0 with n ≥ 2 any second direction is valid, and
        the last two terms are together σ²χ²_{n−1}, as they must be.
        """
        sums, squares = np.zeros(len(counts)), np.zeros(len(counts))
        pulled = np.flatnonzero(counts)
        n, noise = counts[pulled], self._noise
        normal = self._noise_rng.standard_normal((2, len(n)))
        chi_square = 2.0 * self._noise_rng.standard_gamma(np.maximum(n - 2, 0) / 2.0)
        deviation = np.sqrt(np.maximum(second[pulled] - first[pulled] ** 2 / n, 0.0))
        total = n * (level[pulled] - center) + first[pulled] + noise * np.sqrt(n) * normal[0]
        within = (deviation + noise * normal[1]) ** 2 + noise * noise * chi_square
        sums[pulled] = total
        squares[pulled] = total * total / n + np.where(n > 1, within, 0.0)
        return Summary(counts, sums, squares, center=center)


class BlockStream(BaseStream):
    """A run whose rounds may pull several arms, all under one baseline."""

    @cached_property
    def _blocks_state(self) -> Words:
        return state_of(self._bit_generator(3))

    def with_blocks(self, size: int) -> Self:
        """This run, with rounds of up to so many pulls."""
        self._block = size
        return self

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals, or the rounds of a plan over blocks."""
        return self._pull_blocks(plan) if isinstance(plan, BlockPlan) else self._pull(plan)

    def _pull_blocks(self, plan: BlockPlan) -> Rounds:
        """Draw the block of every round, and pull all its arms."""
        self._check(plan)
        support = np.flatnonzero(plan.block_weights).astype(np.uint32)
        weights = plan.block_weights[support] / plan.block_weights.sum()
        cells = min(_CELLS * len(support), plan.rounds // 8)
        kinds = np.empty(plan.rounds, dtype=np.uint32)
        draw_categorical(self._blocks_state, *guide_table(weights, cells), support, kinds)
        arms = plan.blocks.astype(np.uint32)[kinds]
        table = self._block_rewards(arms)
        self._rounds += plan.rounds
        totals = Totals.empty(plan.arms)
        totals.add(arms.ravel(), table.ravel(), plan.center)
        rounds = {"blocks": plan.blocks, "kinds": kinds.astype(np.int64), "table": table}
        rounds["awaited"] = np.zeros(table.shape, np.bool_)
        return Rounds.unchecked(totals.by_name() | rounds, center=plan.center)

    @abstractmethod
    def _block_rewards(self, arms: Arms) -> Array:
        """The rewards of the next rounds, whose arms these are: one row per round."""


class ForecastStream:
    """A run whose rewards are told less their forecasts. Its rewards cannot be presampled.

    Forecasts are of a forecaster of its own, from the features of source arms (one row per arm),
    and lie in an interval, unless a plan says which.
    """

    def __init__(
        self, stream: Stream, forecaster: Forecaster, features: Array, interval: tuple[float, float]
    ) -> None:
        if not isinstance(stream, AdjustableStream):
            raise InvalidInputError(
                "This environment does not tell its single pulls, which forecasts need.",
                field="forecaster",
                remedy="Give its streams a method `pull_adjusted(plan, forecast)`, or leave it "
                "out.",
            )
        self._stream, self._forecaster = stream, forecaster
        self._features, self._interval = features, interval
        self._pulls = 0

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals, less the forecaster's forecasts."""
        return self._stream.pull_adjusted(plan, self._forecast)

    def _forecast(self, pulls: Pulls, plan: Plan) -> Array:
        low, high = plan.forecasts or self._interval
        features, known = self._features[pulls.arms], (pulls.times, pulls.covariates)
        forecasts = self._forecaster.follow(self._pulls, *known, features, pulls.rewards)
        self._pulls += len(forecasts)
        return np.minimum(np.maximum(forecasts, low), high)


def state_of(generator: Any) -> Words:
    """The state of an SFC64, for kernels that continue it."""
    return np.array(generator.state["state"]["state"], dtype=np.uint64)


def guide_table(weights: Array, cells: int) -> tuple[Words, Guide, int]:
    """Bounds, a guide table of about this many cells, and its bits, for `draw_categorical`."""
    # A cumulative sum rounds each difference by 2⁻⁵³ at most, and the last outcome takes the rest:
    # probabilities are exact to 2⁻⁵³, that of the last outcome to 2⁻⁵³ times their number.
    cumulative = np.minimum(np.cumsum(weights)[:-1], 1.0 - 2.0**-53)
    bounds = (cumulative * 2.0**64).astype(np.uint64)
    bits = min(max(cells.bit_length(), 4), _LANE)
    guide = np.empty(2**bits, dtype=np.int32)
    fill_guide(bounds, bits, guide)
    return bounds, guide, bits


@compiled
def fill_guide(bounds: Words, bits: int, guide: Guide) -> None:
    """Index a cumulative distribution: entry j is for uniforms whose first `bits` bits are j.

    An entry is the outcome k if the whole cell belongs to k, and −1 − k if k is the lowest outcome
    of the cell and more bits must decide. `bounds[k]` · 2⁻⁶⁴ is P(outcome ≤ k).
    """
    shift = uint64(64 - bits)
    rest = (uint64(1) << shift) - uint64(1)
    k, last = 0, len(bounds)
    for j in range(len(guide)):
        low = uint64(j) << shift
        while k < last and bounds[k] <= low:
            k += 1
        guide[j] = k if k == last or bounds[k] > low + rest else -1 - k


@compiled
def draw_categorical(
    state: Words, bounds: Words, guide: Guide, bits: int, support: Arms, arms: Arms
) -> None:
    """Fill `arms` with independent draws: inversion of a 64-bit uniform, through the guide table.

    The first `bits` bits of the uniform are a lane of a word shared by BANKS pulls; if they do not
    settle the outcome, the rest come from another word. Only the bounds are rounded.
    """
    a, b, c, w = state[0], state[1], state[2], state[3]
    mask, unused, below = uint64((1 << _LANE) - 1), uint64(_LANE - bits), uint64(64 - bits)
    last = len(bounds)
    word = uint64(0)
    for i in range(len(arms)):
        if i % BANKS == 0:
            word, a, b, c, w = next_random_word(a, b, c, w)
        cell = (word & mask) >> unused
        word >>= uint64(_LANE)
        k = guide[cell]
        if k < 0:
            more, a, b, c, w = next_random_word(a, b, c, w)
            uniform = (cell << below) | (more >> uint64(bits))
            k = -1 - k
            while k < last and bounds[k] <= uniform:
                k += 1
        arms[i] = support[uint64(k)]
    state[0], state[1], state[2], state[3] = a, b, c, w


@compiled
def _regroup(active: Arms, left: Counts, size: int) -> tuple[int, int]:
    """Move the arms with pulls left to the front; count the rounds until one of them runs out."""
    kept, rounds = 0, np.iinfo(np.int64).max
    for j in range(size):
        arm = active[j]
        if left[arm] > 0:
            active[kept] = arm
            kept += 1
            rounds = min(rounds, left[arm])
    for j in range(kept):
        left[active[j]] -= rounds
    return kept, rounds


@compiled
def deal_round_robin(active: Arms, left: Counts, cursor: Counts, arms: Arms) -> None:
    """Fill `arms` with the next pulls of a round-robin: each remaining arm once per round.

    `cursor` holds the place in this round, the number of arms in it, and the rounds still to be
    dealt among these arms, this one included; `left` is the pulls of each arm after those.
    """
    place, size, rounds = cursor[0], cursor[1], cursor[2]
    for i in range(len(arms)):
        if place == size:
            place = 0
            rounds -= 1
            if rounds <= 0:
                size, rounds = _regroup(active, left, size)
        arms[i] = active[place]
        place += 1
    cursor[0], cursor[1], cursor[2] = place, size, rounds


@compiled
def add_rewards(arms: Arms, rewards: Array, center: float, totals: Parts) -> None:
    """Add single pulls to totals. `totals` are the parts of `Totals`."""
    counts, sums, squares, least, largest, cubes = totals
    for i in range(len(arms)):
        arm = arms[i]
        value = rewards[i] - center
        counts[arm] += 1
        sums[arm] += value
        squares[arm] += value * value
        cubes[arm] += value * value * value
        least[arm] = min(least[arm], value)
        largest[arm] = max(largest[arm], value)
