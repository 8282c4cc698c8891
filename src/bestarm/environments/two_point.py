"""A world with two rewards, like yes and no, whose means drift together."""

from __future__ import annotations

from typing import Any

import numpy as np

from bestarm.environments.baselines import Constant, Moving
from bestarm.environments.environment import Stream
from bestarm.environments.semiparametric import Semiparametric
from bestarm.environments.streams import BaseStream, ConstantStream, MovingStream
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards
from bestarm.records import Counts, Plan, Summary


class TwoPoint(Semiparametric):
    """A pull of arm a at round t pays `high` with the probability that makes its mean x_a·θ + ν_t.

    Of all bounded rewards with these means, these have the largest variance: with finer outcomes
    than yes and no, an experiment is quicker. Arms that a round pulls together pay independently,
    given ν_t.

    Args:
        bounds: the two rewards, the lower one first.
        world: the arguments of `Semiparametric`; a baseline must not react to the pulls.

    Raises:
        InvalidInputError: in a run, a mean leaves the bounds.
    """

    def __init__(self, *world: Any, bounds: tuple[float, float], **options: Any) -> None:
        super().__init__(*world, **options)
        self._bounds = bounds

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run at round 1."""
        if isinstance(self._baseline, Constant):
            level = self._baseline.level
            steady = _SteadyChances(self._bounds, self._means, level=level, rng=rng)
            return steady.with_blocks(self._block)
        path = self._baseline
        assert isinstance(path, Moving)
        options = {"path": path.chunk_source, "horizon": path.horizon, "rng": rng}
        return _MovingChances(self._bounds, self._means, **options).with_blocks(self._block)


class _Chances(BaseStream):
    """Rewards that are one of two."""

    _bounds: tuple[float, float]

    def _noisy(self, means: Array) -> Array:
        won = self._noise_rng.random(means.shape) < _chances(means, self._bounds)
        return np.where(won, self._bounds[1], self._bounds[0])


class _SteadyChances(_Chances, ConstantStream):
    """A run on a constant baseline: counts are multinomial, successes binomial."""

    def __init__(self, bounds: tuple[float, float], *run: Any, **options: Any) -> None:
        super().__init__(*run, noise=0.0, **options)
        self._bounds = bounds

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds."""
        return _outcomes(self._means, np.zeros(rounds), self._bounds, self._noise_rng)

    def _carry_out(self, plan: Plan) -> Summary:
        counts = self._counts(plan)
        hits = self._noise_rng.binomial(counts, _chances(self._means, self._bounds))
        return _totals(counts, hits, self._bounds, plan.center)


class _MovingChances(_Chances, MovingStream):
    """A run on a moving baseline: one draw per pull."""

    def __init__(self, bounds: tuple[float, float], *run: Any, **options: Any) -> None:
        super().__init__(*run, noise=0.0, **options)
        self._bounds = bounds

    def _shared(self, common: Array) -> PresampledRewards:
        return _outcomes(self._means, common, self._bounds, self._noise_rng)

    def _carry_out(self, plan: Plan) -> Summary:
        from bestarm.environments.two_point_kernels import win  # noqa: PLC0415 - compiles

        self._check_horizon(plan.pulls)
        deal = self._deal(plan)
        counts, hits = (np.zeros(plan.arms, dtype=np.int64) for _ in range(2))
        for values in self._blocks(plan.pulls):
            arms = self._arms[: len(values)]
            deal(arms)
            draws = self._noise_rng.random(len(values))
            ends = win((arms, values, draws), self._means, self._bounds, counts, hits)
            _chances(np.array(ends), self._bounds)  # raises where a mean leaves the bounds
        return _totals(counts, hits, self._bounds, plan.center)


def _chances(means: Array, bounds: tuple[float, float]) -> Array:
    low, high = bounds
    chances = (means - low) / (high - low)
    if chances.min() < -1e-9 or chances.max() > 1 + 1e-9:
        raise InvalidInputError(
            f"A mean of {means.min():g} to {means.max():g} leaves the bounds {low:g} to {high:g}.",
            field="bounds",
            value=bounds,
        )
    return np.clip(chances, 0.0, 1.0)


def _outcomes(
    means: Array, common: Array, bounds: tuple[float, float], rng: np.random.Generator
) -> PresampledRewards:
    """What each arm would pay: row j of the table is where the j worst arms pay `low`.

    One uniform draw per round decides for all arms. At most one of them is pulled, so only the
    distribution of each arm matters.
    """
    low, high = bounds
    extremes = [means.min() + common.min(), means.max() + common.max()]
    _chances(np.array(extremes), bounds)  # raises where a mean leaves the bounds
    order = np.argsort(means, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(means))
    # Floats, whatever the bounds are given as: kernels are compiled once.
    table = np.where(rank >= np.arange(len(means) + 1)[:, None], float(high), float(low))
    table.flags.writeable = False
    passed = low + (high - low) * rng.random(len(common)) - common
    rows = np.searchsorted(means[order], passed, side="right")
    return PresampledRewards(table, rows.astype(np.int64), np.zeros(len(common)))


def _totals(counts: Counts, hits: Counts, bounds: tuple[float, float], center: float) -> Summary:
    low, high = (end - center for end in bounds)
    misses = counts - hits
    sums, squares = hits * high + misses * low, hits * high**2 + misses * low**2
    return Summary(counts, sums, squares, center=center)
