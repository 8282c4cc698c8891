"""Runs: plans in, totals out, with the same joint distribution as single pulls.

A policy sees only totals per arm, so only totals need to be drawn. If the baseline does not react
to the rewards, arms are drawn pull by pull and the noise arm by arm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bestarm.environments.environment import AdjustableStream, ForecastFunction, Pulls, Stream
from bestarm.errors import InvalidInputError
from bestarm.forecasting import Forecaster, Regression
from bestarm.numerics.geometry import Array
from bestarm.numerics.grouping import group
from bestarm.numerics.sampling import Categorical
from bestarm.policies.policy import Policy
from bestarm.presampled import PresampledRewards
from bestarm.records import BlockPlan, Counts, Plan, Rounds, Summary

Arms = NDArray[np.int64]

CHUNK = 2**14  # pulls drawn at a time; their arms and values stay in the nearest caches


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
        found = group(arms, rewards - center, len(self.counts))
        for total, more in (
            (self.counts, found.counts),
            (self.sums, found.sums),
            (self.squares, found.squares),
            (self.cubes, found.cubes),
        ):
            np.add(total, more, out=total)
        np.minimum(self.least, found.least, out=self.least)
        np.maximum(self.largest, found.largest, out=self.largest)

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
        self._last_drawn: tuple[Array, Categorical] | None = None

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
        arms, counts = self._categorical(plan), np.zeros(plan.arms, dtype=np.int64)
        counts[arms.outcomes] = self._arms_rng.multinomial(plan.pulls, arms.probabilities)
        return counts

    def _categorical(self, plan: Plan) -> Categorical:
        """The arms of a randomised plan, to draw."""
        assert plan.weights is not None
        if self._last_drawn is None or self._last_drawn[0] is not plan.weights:
            self._last_drawn = plan.weights, Categorical(plan.weights)
        return self._last_drawn[1]

    def _arms_in_order(self, plan: Plan) -> Iterator[Arms]:
        """The arms of a plan's pulls in chunks: drawn, or dealt in a round-robin."""
        arm_of, chunks = self._cells_in_order(plan)
        return (arm_of[cells] for cells in chunks)

    def _cells_in_order(self, plan: Plan) -> tuple[Arms, Iterator[Arms]]:
        """The arm of each cell, and the cells of a plan's pulls in chunks.

        Totals per cell need no look at the arm of each pull; an arm may have many.
        """
        if plan.counts is not None:
            return np.arange(plan.arms), deal_round_robin(plan.counts)
        arms, rng = self._categorical(plan), self._arms_rng
        sizes = (min(CHUNK, plan.pulls - start) for start in range(0, plan.pulls, CHUNK))
        if len(arms.outcome_of) > CHUNK // 2:  # to add them up would take longer than to look
            return np.arange(plan.arms), (arms.draw(rng, size) for size in sizes)
        return arms.outcome_of, (arms.draw_cells(rng, size) for size in sizes)

    def _add_noise(self, means: Array) -> Array:
        """Rewards with these means; changes them in place."""
        means += self._noise * self._noise_rng.standard_normal(means.shape)
        return means

    def presample(self, rounds: int) -> PresampledRewards | None:  # noqa: ARG002 - subclasses use it
        """The rewards of the next rounds. See `Stream`; None here: they cannot be known."""
        return None

    def skip(self, rounds: int) -> None:
        """Advance by this many of the rounds that `presample` returned."""
        self._rounds += rounds

    def _presample_common(self, common: Array) -> PresampledRewards:
        """Rewards of the arms' means and what the rounds add to all; adds noise to it in place."""
        self._add_noise(common)
        table, rows = self._means.reshape(1, -1), np.zeros(len(common), dtype=np.int64)
        return PresampledRewards(table, rows, common)

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
    def _blocks_rng(self) -> np.random.Generator:
        return np.random.Generator(self._bit_generator(3))

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
        kinds = Categorical(plan.block_weights).draw(self._blocks_rng, plan.rounds)
        arms = plan.blocks[kinds]
        table = self._block_rewards(arms)
        self._rounds += plan.rounds
        totals = Totals.empty(plan.arms)
        totals.add(arms.ravel(), table.ravel(), plan.center)
        rounds = {"blocks": plan.blocks, "kinds": kinds, "table": table}
        rounds["awaited"] = np.zeros(table.shape, np.bool_)
        return Rounds.unchecked(totals.by_name() | rounds, center=plan.center)

    @abstractmethod
    def _block_rewards(self, arms: Arms) -> Array:
        """The rewards of the next rounds, whose arms these are: one row per round."""


class ForecastStream:
    """A run whose rewards are told less their forecasts. Its rewards cannot be presampled.

    Forecasts are of a forecaster of its own, from the features of source arms (one row per arm),
    and lie in an interval, unless a plan says which.

    Attributes:
        stream: the run, whose rewards they are.
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
        self.stream, self._forecaster = stream, forecaster
        self._features, self._interval = features, interval
        self._pulls = 0

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals, less the forecaster's forecasts."""
        return self.stream.pull_adjusted(plan, self._forecast)

    def allows_side_by_side(self, policy: Policy) -> bool:
        """Whether runs of this policy can be made side by side, with forecasts from the past alone.

        The policy must limit forecasts itself, and the forecaster be the default one.
        """
        plan = policy.plan()
        limits = plan is not None and plan.forecasts is not None
        blind = not getattr(self.stream, "knows_users", False)
        return limits and blind and type(self._forecaster) is Regression

    def _forecast(self, pulls: Pulls, plan: Plan) -> Array:
        low, high = plan.forecasts or self._interval
        features, known = self._features[pulls.arms], pulls.covariates
        forecasts = self._forecaster.follow(self._pulls, None, known, features, pulls.rewards)
        self._pulls += len(forecasts)
        return np.minimum(np.maximum(forecasts, low), high)


def deal_round_robin(counts: Counts) -> Iterator[Arms]:
    """The pulls of a fixed plan in chunks: each remaining arm once per round."""
    for before, after in pairwise([0, *np.unique(counts[counts > 0]).tolist()]):
        remaining = np.flatnonzero(counts > before)  # for so many rounds
        left = (after - before) * len(remaining)
        chunk = np.tile(remaining, min(after - before, max(1, CHUNK // len(remaining))))
        while left:
            yield chunk[: min(left, len(chunk))]
            left -= min(left, len(chunk))
