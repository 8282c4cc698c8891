"""The worlds that a plan simulates: scenarios as environments, with their numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bestarm import bounds as theory
from bestarm.environments import Environment, Semiparametric
from bestarm.errors import InvalidInputError
from bestarm.geometry import Array
from bestarm.planning.assumptions import Scenario
from bestarm.planning.forecasts import AssumedWorld
from bestarm.planning.request import PlanRequest
from bestarm.planning.truths import closest, typical

_PERIOD = 1000.0  # rounds per period of a drift, where rounds per day are not known
_ROUNDING = 1e-9  # up to which features express a constant, and levels are equal


@dataclass(frozen=True)
class _Placed:
    """A parameter, and the baseline before it moves.

    Attributes:
        theta: the parameter.
        level: the middle of the arm means, baseline included.
        offset: what is added to every x·θ.
        baseline: the part of the level that is the baseline's.
    """

    theta: Array
    level: float
    offset: float
    baseline: float


@dataclass(frozen=True)
class ScenarioWorld:
    """The world of a scenario for the problem and the bounds of a request."""

    request: PlanRequest
    scenario: Scenario

    def make(self) -> tuple[Environment, AssumedWorld]:
        """The environment, and its numbers.

        Raises:
            InvalidInputError: means would leave the bounds, or the gap cannot be attained.
        """
        problem, scenario = self.request.problem, self.scenario
        bounds = self.request.bounds
        if bounds is not None and scenario.noise is not None:
            raise InvalidInputError(
                "`noise` cannot be set for bounded rewards: it follows from the level.",
                field="noise",
                value=scenario.noise,
                remedy="Leave it out of the scenario.",
            )
        theta = self._theta()
        kinds: tuple[Literal["centered", "linear"], ...] = ("centered", "linear")
        moving, still = (theory.complexity(problem, theta, kind).lower_bound for kind in kinds)
        tau, other = (moving, still) if problem.drifts else (still, moving)
        placed = self._place(theta)
        theta, level = placed.theta, placed.level
        spread = float(np.ptp(problem.source @ theta))
        size = self._size(spread, level)
        period = scenario.drift.period or max(self.request.per_day or _PERIOD, 2.0)
        noise = self._noise(level + scenario.drift.places(size), spread)
        baseline = scenario.drift.path(level=placed.offset, size=size, period=period)
        values = (problem.target - problem.target[0]) @ theta
        best, ranked = int(values.argmax()), np.sort(values)
        environment = self._environment(theta, baseline=baseline, noise=noise, name=scenario.name)
        return environment, AssumedWorld(
            scenario=scenario.name,
            theta=tuple(theta.tolist()),
            best=problem.target_labels[best],
            gap=float(ranked[-1] - ranked[-2]),
            farthest=float(ranked[-1] - ranked[0]),
            spread=spread,
            drift="none" if size == 0 else scenario.drift.kind,
            size=size,
            period=period,
            level=level,
            baseline=placed.baseline,
            noise=noise,
            bounded=bounds is not None,
            complexity=tau,
            lower_bound=2 * noise**2 * tau * _information(problem.delta),
            other_bound=2 * noise**2 * other * _information(problem.delta),
        )

    @property
    def _level(self) -> float:
        if self.scenario.level is not None:
            return self.scenario.level
        return 0.0 if self.request.bounds is None else sum(self.request.bounds) / 2

    def _place(self, theta: Array) -> _Placed:
        """Where arm means lie, and what of that is the baseline's.

        With a baseline, the mean of the arms is part of it, and the arms differ about the level.
        Without one, means are x·θ: the level is θ's where features can express it.
        """
        problem, bounds, level = self.request.problem, self.request.bounds, self._level
        middle = _middle(problem.source @ theta)
        if problem.drifts:
            return _Placed(theta, level, level - middle, baseline=level)
        added = level - middle
        if bounds is not None and not self._has_own_level:
            constant = np.linalg.lstsq(problem.source, np.ones(problem.arms), rcond=None)[0]
            if np.allclose(problem.source @ constant, 1.0, rtol=0.0, atol=_ROUNDING):
                return _Placed(theta + added * constant, level, 0.0, baseline=0.0)
        if self.scenario.level is None or abs(added) <= _ROUNDING * abs(middle):
            return _Placed(theta, middle, 0.0, baseline=0.0)
        return _Placed(theta, level, added, baseline=added)

    @property
    def _has_own_level(self) -> bool:
        """Whether the parameter was given in numbers, without a level to move it to."""
        return self.scenario.level is None and not isinstance(self.scenario.theta, str)

    def _widest(self, level: float) -> float:
        """The largest spread of arm means about a level."""
        if self.request.bounds is None:
            return 2 * self.request.problem.scale
        low, high = self.request.bounds
        return 2 * min(level - low, high - level)

    def _theta(self) -> Array:
        scenario = self.scenario
        if not isinstance(scenario.theta, str):
            return np.array(scenario.theta)
        assert scenario.gap is not None
        if scenario.theta == "close":
            return closest(self.request.problem, scenario.gap)
        return typical(self.request.problem, scenario.gap, widest=self._widest(self._level))

    def _size(self, spread: float, level: float) -> float:
        """How far the baseline moves from the level."""
        drift, bounds = self.scenario.drift, self.request.bounds
        wanted = 0.0 if drift.kind == "none" else drift.size
        most = max(self.request.problem.baseline - abs(level), 0.0)
        if bounds is None:
            return most if wanted is None else wanted
        left = (self._widest(level) - spread) / 2
        if left < 0 or (wanted or 0.0) > left:
            raise self._leaves_the_bounds(bounds, spread, level, left)
        return min(left / 2, most) if wanted is None else wanted

    def _leaves_the_bounds(
        self, bounds: tuple[float, float], spread: float, level: float, left: float
    ) -> InvalidInputError:
        scenario = self.scenario
        said = (
            f"In scenario {scenario.name!r} means would leave the bounds {bounds[0]:g} to "
            f"{bounds[1]:g}: arms lie {spread:.3g} apart about {level:.4g}"
        )
        if left >= 0:
            return InvalidInputError(
                f"{said}, which leaves ±{left:.3g} for the drift.",
                field="size",
                value=scenario.drift.size,
                remedy="Assume a smaller drift, a smaller gap, or another level.",
            )
        if level != self._level:  # that of x·θ
            return InvalidInputError(
                f"{said}, as no baseline is declared.",
                field="baseline",
                value=self.request.problem.baseline,
                remedy="Declare a baseline, or assume a `theta` in numbers whose means fit.",
            )
        return InvalidInputError(
            f"{said}.",
            field="gap",
            value=scenario.gap,
            remedy="Assume a smaller drift, a smaller gap, or another level.",
        )

    def _noise(self, levels: Array, spread: float) -> float:
        """The standard deviation of the noise.

        For bounded rewards it changes with the level. The information of a pull is proportional to
        1/variance, so 1/variance of the least noisy arm is averaged over time.
        """
        if self.request.bounds is None:
            return self.scenario.noise or self.request.problem.noise
        low, high = self.request.bounds
        least = np.minimum(
            *((mean - low) * (high - mean) for mean in (levels - spread / 2, levels + spread / 2))
        )
        return math.sqrt(1 / float(np.mean(1 / least))) if least.min() > 0 else 0.0

    def _environment(self, theta: Array, **options: Any) -> Environment:
        problem, bounds = self.request.problem, self.request.bounds
        options["block"] = self.request.block
        if bounds is None:
            return Semiparametric.for_problem(problem, theta, **options)
        from bestarm.environments.two_point import TwoPoint  # noqa: PLC0415 - compiles kernels

        return TwoPoint.for_problem(problem, theta, bounds=bounds, **options)


def _middle(means: Array) -> float:
    return float(means.max() + means.min()) / 2


def _information(delta: float) -> float:
    """kl(δ, 1 − δ), the information needed to be right with probability 1 − δ; near log 1/δ."""
    return max((1 - 2 * delta) * math.log((1 - delta) / delta), 0.0)
