"""Runs: plans in, totals out, with the same joint distribution as single pulls.

A policy sees only totals per arm, so only totals need to be drawn. If the baseline does not react
to the rewards, arms are drawn pull by pull and the noise arm by arm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bestarm.environments import kernels
from bestarm.environments.baselines import ChunkSource
from bestarm.environments.environment import Foresee, Pulls
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards
from bestarm.records import BlockPlan, Counts, Plan, Rounds, Summary

BLOCK = 2**14  # pulls drawn at a time; their arms and values stay in the nearest caches
_GUIDE = 256  # cells of the guide per arm: at most one draw in 256 needs a second word

Deal = Callable[[NDArray[np.uint32]], None]


class BaseStream(ABC):
    """The base of all runs: the means of the arms, the noise and four independent generators."""

    def __init__(self, means: Array, *, noise: float, rng: np.random.Generator) -> None:
        self._means, self._noise = means, noise
        # 128 bits of the generator passed in.
        self._entropy: list[int] = rng.integers(0, 2**32, size=4).tolist()
        self._rounds, self._block = 0, 1
        # Of the last plan that was drawn: many have the same weights.
        self._last_support: tuple[Array, NDArray[np.uint32], Array] | None = None

    def _words_of(self, place: int) -> np.random.SFC64:
        """One of the children of `SeedSequence(entropy)`; few runs need all of them.

        The kernels continue the state of an SFC64.
        """
        return np.random.SFC64(np.random.SeedSequence(self._entropy, spawn_key=(place,)))

    @cached_property
    def _arms_rng(self) -> np.random.Generator:
        return np.random.Generator(self._words_of(0))

    @cached_property
    def _noise_rng(self) -> np.random.Generator:
        return np.random.Generator(self._words_of(1))

    @cached_property
    def _baseline_rng(self) -> np.random.Generator:
        return np.random.Generator(self._words_of(2))

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals."""
        return self._pull(plan)

    def pull_less(self, plan: Plan, foresee: Foresee) -> Summary:
        """Carry out a plan and return the totals of rewards less their forecasts."""
        return self._pull(plan, foresee)

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

    def _pull(self, plan: Plan, foresee: Foresee | None = None) -> Summary:
        self._check(plan)
        single = plan.extremes or foresee is not None
        summary = self._add_up(plan, foresee) if single else self._carry_out(plan)
        self._rounds += plan.pulls
        return summary

    def _add_up(self, plan: Plan, foresee: Foresee | None = None) -> Summary:
        """Carry out a plan pull by pull, with each arm's least and largest reward."""
        totals, forecast_sum = kernels.Totals.empty(plan.arms), 0.0
        for pulls in self._single_pulls(plan):
            rewards = pulls.rewards
            if foresee is not None:
                forecasts = foresee(pulls, plan)
                forecast_sum += float(forecasts.sum())
                rewards = rewards - forecasts
            kernels.add_up(pulls.arms, rewards, plan.center, tuple(totals))
        return totals.summary(plan.center, forecast_sum)

    @abstractmethod
    def _carry_out(self, plan: Plan) -> Summary:
        """Carry out a plan, by a shortcut where there is one."""

    @abstractmethod
    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        """The arms and rewards of a plan's pulls, in parts."""

    def _counts(self, plan: Plan) -> Counts:
        """How often each arm is pulled: as planned, or one multinomial draw."""
        if plan.counts is not None:
            return plan.counts
        support, weights = self._support(plan)
        counts = np.zeros(plan.arms, dtype=np.int64)
        counts[support] = self._arms_rng.multinomial(plan.pulls, weights)
        return counts

    def _support(self, plan: Plan) -> tuple[NDArray[np.uint32], Array]:
        """The arms of positive probability, and their probabilities.

        Only these are drawn: an arm of probability 0 must not receive the remainder of rounding.
        """
        assert plan.weights is not None
        if self._last_support is None or self._last_support[0] is not plan.weights:
            support = np.flatnonzero(plan.weights).astype(np.uint32)
            weights = plan.weights[support]
            self._last_support = plan.weights, support, weights / weights.sum()
        return self._last_support[1:]

    def _noisy(self, means: Array) -> Array:
        """Rewards with these means; changes them in place."""
        means += self._noise * self._noise_rng.standard_normal(means.shape)
        return means

    def presample(self, rounds: int) -> PresampledRewards | None:  # noqa: ARG002 - subclasses use it
        """The rewards of at most this many future rounds, or None if they cannot be known."""
        return None

    def skip(self, rounds: int) -> None:
        """Advance by this many of the rounds that `presample` returned."""
        self._rounds += rounds

    def _noisy_totals(
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

    def _shared(self, common: Array) -> PresampledRewards:
        """The means of the arms, and what the rounds add to them; adds noise in place."""
        self._noisy(common)
        table = self._means.reshape(1, -1)
        table.flags.writeable = False  # as tables of ratings are: kernels are compiled once
        return PresampledRewards(table, np.zeros(len(common), dtype=np.int64), common)


class BlockStream(BaseStream):
    """A run whose rounds may pull several arms, all under one baseline."""

    _kinds_words: NDArray[np.uint64] | None = None

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
        if self._kinds_words is None:
            state = self._words_of(3).state["state"]["state"]
            self._kinds_words = np.array(state, dtype=np.uint64)
        support = np.flatnonzero(plan.block_weights).astype(np.uint32)
        weights = plan.block_weights[support] / plan.block_weights.sum()
        cells = min(_GUIDE * len(support), plan.rounds // 8)
        kinds = np.empty(plan.rounds, dtype=np.uint32)
        kernels.draw(self._kinds_words, *guided(weights, cells), support, kinds)
        arms = plan.blocks.astype(np.uint32)[kinds]
        table = self._paid(arms)
        self._rounds += plan.rounds
        totals = kernels.Totals.empty(plan.arms)
        kernels.add_up(arms.ravel(), table.ravel(), plan.center, tuple(totals))
        return Rounds.complete(plan, kinds.astype(np.int64), table, totals.known())

    @abstractmethod
    def _paid(self, arms: NDArray[np.uint32]) -> Array:
        """The rewards of the next rounds, whose arms these are: one row per round."""


class ConstantStream(BlockStream):
    """A run on a baseline that stays at `level`: counts are multinomial, O(arms) per plan."""

    def __init__(
        self, means: Array, *, level: float, noise: float, rng: np.random.Generator
    ) -> None:
        super().__init__(means + level, noise=noise, rng=rng)

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds."""
        return self._shared(np.zeros(rounds))

    def _carry_out(self, plan: Plan) -> Summary:
        counts, nothing = self._counts(plan), np.zeros(plan.arms)
        return self._noisy_totals(counts, self._means, nothing, nothing, plan.center)

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        counts = self._counts(plan)
        arms = np.repeat(np.arange(plan.arms, dtype=np.uint32), counts)
        self._arms_rng.shuffle(arms)  # forecasts must not learn from the order
        for start in range(0, plan.pulls, BLOCK):
            part = arms[start : start + BLOCK]
            yield Pulls(part, self._noisy(self._means[part]))

    def _paid(self, arms: NDArray[np.uint32]) -> Array:
        return self._noisy(self._means[arms])


class DealtStream(BaseStream):
    """A run in which the arms of single pulls are drawn or dealt."""

    def __init__(self, means: Array, *, noise: float, rng: np.random.Generator) -> None:
        super().__init__(means, noise=noise, rng=rng)
        self._guide: tuple[Array, int, Deal] | None = None  # of the last probabilities

    @cached_property
    def _arms(self) -> NDArray[np.uint32]:
        return np.empty(BLOCK, dtype=np.uint32)

    @cached_property
    def _words(self) -> NDArray[np.uint64]:
        generator = self._arms_rng.bit_generator
        return np.array(generator.state["state"]["state"], dtype=np.uint64)

    def _deal(self, plan: Plan) -> Deal:
        """A function that fills an array with the plan's next arms."""
        if plan.counts is not None:
            active = np.flatnonzero(plan.counts).astype(np.uint32)
            left = np.array(plan.counts)
            cursor = np.array([len(active), len(active), 0], dtype=np.int64)  # a round just ended
            return lambda arms: kernels.deal(active, left, cursor, arms)
        assert plan.weights is not None
        if self._guide is not None and self._guide[0] is plan.weights:
            _, pulls, deal = self._guide
            if plan.pulls < 2 * pulls:
                return deal
        support, weights = self._support(plan)
        wanted = min(_GUIDE * len(support), plan.pulls // 8)  # a short plan needs no long guide
        bounds, guide, bits = guided(weights, wanted)

        def draw(arms: NDArray[np.uint32]) -> None:
            kernels.draw(self._words, bounds, guide, bits, support, arms)

        self._guide = plan.weights, plan.pulls, draw
        return draw


class MovingStream(DealtStream, BlockStream):
    """A run on a baseline that moves but does not react.

    Args:
        means: x_a·θ for each source arm.
        path: makes the values of the baseline for rounds 1, 2, … as arrays of any lengths. It has
            its own generator, so the path depends on the seed and not on the pulls. An iterator
            over the values if nothing is drawn.
        horizon: the number of rounds that the path covers.
        noise: the standard deviation of the noise.
        rng: the source of randomness of the run.
    """

    def __init__(
        self,
        means: Array,
        *,
        path: ChunkSource,
        horizon: float,
        noise: float,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(means, noise=noise, rng=rng)
        self._path = path(self._baseline_rng) if callable(path) else path
        self._horizon = horizon
        self._values = np.empty(0)  # drawn, for the rounds to come

    def _check_horizon(self, rounds: int) -> None:
        if self._rounds + rounds > self._horizon:
            raise InvalidInputError(
                f"The baseline has values for {self._horizon:g} rounds, and the plan would reach "
                f"round {self._rounds + rounds}.",
                field="baseline",
                value=self._horizon,
                remedy="Give a longer array, a function of the round, or a policy with a cap.",
            )

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        self._check_horizon(plan.pulls)
        deal = self._deal(plan)
        for values in self._blocks(plan.pulls):
            arms = self._arms[: len(values)]
            deal(arms)
            yield Pulls(arms, self._noisy(self._means[arms] + values))

    def _carry_out(self, plan: Plan) -> Summary:
        self._check_horizon(plan.pulls)
        deal = self._deal(plan)
        counts = np.zeros((kernels.BANKS, plan.arms), dtype=np.int64)
        moments = np.zeros((kernels.BANKS, plan.arms, 2))
        shift = 0.0
        for number, values in enumerate(self._blocks(plan.pulls)):
            # Measured from a value on the path, a baseline far from 0 loses no digits in Σv².
            shift = float(values[0]) if number == 0 else shift
            arms = self._arms[: len(values)]
            deal(arms)
            kernels.accumulate(arms, values, shift, counts, moments)
        first, second = moments.sum(axis=0).T
        level = self._means + shift
        return self._noisy_totals(counts.sum(axis=0), level, first, second, plan.center)

    def _paid(self, arms: NDArray[np.uint32]) -> Array:
        self._check_horizon(len(arms))
        levels = np.concatenate([values.copy() for values in self._blocks(len(arms))])
        return self._noisy(self._means[arms] + levels[:, None])

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds, as far as the path goes."""
        wanted = int(min(rounds, self._horizon - self._rounds))
        parts, known = [self._values], len(self._values)
        while known < wanted and (values := next(self._path, None)) is not None:
            parts.append(values)
            known += len(values)
        if len(parts) > 1:
            self._values = np.concatenate(parts)
        return self._shared(self._values[:wanted].copy()) if min(wanted, known) > 0 else None

    def skip(self, rounds: int) -> None:
        """Advance by this many rounds, and along the path with them."""
        for _ in self._blocks(rounds):
            pass
        super().skip(rounds)

    def _blocks(self, pulls: int) -> Iterator[Array]:
        while pulls:
            while not len(self._values):
                self._values = next(self._path)
            values = self._values[: min(pulls, BLOCK)]
            self._values = self._values[len(values) :]
            pulls -= len(values)
            yield values


def guided(weights: Array, cells: int) -> tuple[NDArray[np.uint64], NDArray[np.int32], int]:
    """Bounds, a guide of about this many cells, and its bits, for `kernels.draw`."""
    # A cumulative sum rounds each difference by 2⁻⁵³ at most, and the last outcome takes the rest:
    # probabilities are exact to 2⁻⁵³, that of the last outcome to 2⁻⁵³ times their number.
    cumulative = np.minimum(np.cumsum(weights)[:-1], 1.0 - 2.0**-53)
    bounds = (cumulative * 2.0**64).astype(np.uint64)
    bits = min(max(cells.bit_length(), 4), kernels.LANE)
    guide = np.empty(2**bits, dtype=np.int32)
    kernels.fill_guide(bounds, bits, guide)
    return bounds, guide, bits
