"""A world with two rewards, like yes and no, whose means drift together."""

from __future__ import annotations

from typing import Any

import numpy as np

from bestarm.environments.baselines import Constant, ConstantStream, Moving, MovingStream
from bestarm.environments.environment import Stream
from bestarm.environments.semiparametric import Semiparametric
from bestarm.environments.streams import BaseStream, BlockStream
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.numerics.sampling import round_probabilities
from bestarm.presampled import PresampledRewards
from bestarm.records import Counts, Plan, Summary


class TwoPoint(Semiparametric):
    """A pull of arm a at round t pays `high` with the probability that makes its mean x_a·θ + ν_t.

    Of all bounded rewards with these means, these have the largest variance: with finer outcomes
    than yes and no, an experiment is quicker. Arms that a round pulls together pay independently,
    given ν_t.

    Args:
        bounds: the two rewards, the lower one first.
        world: the arguments of `Semiparametric`; a baseline must not react to the pulls, and the
            noise is by default half the distance of the two rewards, its sub-Gaussian scale.

    Raises:
        InvalidInputError: in a run, a mean leaves the bounds.
    """

    def __init__(self, *world: Any, bounds: tuple[float, float], **options: Any) -> None:
        super().__init__(*world, **{"noise": (bounds[1] - bounds[0]) / 2} | options)
        self._bounds = bounds

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run at round 1."""
        baseline, means, bounds = self.baseline, self._means, self._bounds
        if isinstance(baseline, Constant):
            run: BlockStream = _ConstantRun(means + baseline.level, bounds, rng=rng)
        else:
            assert isinstance(baseline, Moving)
            run = _MovingRun(means, bounds, baseline=baseline, rng=rng)
        return run.with_blocks(self._block)


class _TwoPointRun(BaseStream):
    """Rewards that are one of two."""

    def __init__(self, means: Array, bounds: tuple[float, float], **options: Any) -> None:
        super().__init__(means, noise=0.0, **options)
        self._bounds = bounds

    def _add_noise(self, means: Array) -> Array:
        won = self._noise_rng.random(means.shape) < _success_probabilities(means, self._bounds)
        return np.where(won, self._bounds[1], self._bounds[0])

    def _presample_common(self, common: Array) -> PresampledRewards:
        """What each arm would pay: row j of the table is where the j worst arms pay `low`.

        One uniform draw per round decides for all arms. At most one of them is pulled, so only the
        distribution of each arm matters.
        """
        means, (low, high) = self._means, self._bounds
        extremes = [means.min() + common.min(), means.max() + common.max()]
        _success_probabilities(np.array(extremes), self._bounds)  # raises if a mean leaves them
        order = np.argsort(means, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(means))
        table = np.where(rank >= np.arange(len(means) + 1)[:, None], float(high), float(low))
        threshold = low + (high - low) * self._noise_rng.random(len(common)) - common
        rows = np.searchsorted(means[order], threshold, side="right")
        return PresampledRewards(table, rows, np.zeros(len(common)))

    def _summary(self, counts: Counts, successes: Counts, center: float) -> Summary:
        low, high = (end - center for end in self._bounds)
        failures = counts - successes
        sums = successes * high + failures * low
        squares = successes * high**2 + failures * low**2
        return Summary(counts, sums, squares, center=center)


class _ConstantRun(_TwoPointRun, ConstantStream):
    """A run on a constant baseline: counts are multinomial, successes binomial."""

    def _total(self, plan: Plan) -> Summary:
        counts = self._counts(plan)
        probabilities = _success_probabilities(self._means, self._bounds)
        successes = self._noise_rng.binomial(counts, round_probabilities(probabilities))
        return self._summary(counts, successes, plan.center)


class _MovingRun(_TwoPointRun, MovingStream):
    """A run on a moving baseline: one draw per pull."""

    def _total(self, plan: Plan) -> Summary:
        outcomes = np.zeros(2 * plan.arms, dtype=np.int64)  # arm by arm: failures, successes
        for arms, values in self._arms_and_values(plan):
            chances = _success_probabilities(self._means[arms] + values, self._bounds)
            won = self._noise_rng.random(len(values)) < chances
            outcomes += np.bincount(2 * arms + won, minlength=len(outcomes))
        failures, successes = outcomes.reshape(-1, 2).T
        return self._summary(failures + successes, successes, plan.center)


def _success_probabilities(means: Array, bounds: tuple[float, float]) -> Array:
    low, high = bounds
    probabilities = (means - low) / (high - low)
    if probabilities.min() < -1e-9 or probabilities.max() > 1 + 1e-9:
        raise InvalidInputError(
            f"A mean of {means.min():g} to {means.max():g} leaves the bounds {low:g} to {high:g}.",
            field="bounds",
            value=bounds,
        )
    return np.clip(probabilities, 0.0, 1.0)
