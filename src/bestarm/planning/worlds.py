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
        means = problem.source @ theta
        middle = float(means.max() + means.min()) / 2
        spread = float(np.ptp(means))
        size = self._size(spread)
        period = scenario.drift.period or max(self.request.per_day or _PERIOD, 2.0)
        noise = self._noise(self._level + scenario.drift.places(size), spread)
        # The mean of the arms is part of the baseline; the arms themselves differ about the level.
        offset = self._level - middle
        if not problem.drifts and bounds is None and scenario.level is None:
            offset = 0.0  # there is no baseline
        baseline = scenario.drift.path(level=offset, size=size, period=period)
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
            level=self._level,
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

    @property
    def _widest(self) -> float:
        """The largest spread of arm means about the level."""
        if self.request.bounds is None:
            return 2 * self.request.problem.scale
        low, high = self.request.bounds
        return 2 * min(self._level - low, high - self._level)

    def _theta(self) -> Array:
        scenario = self.scenario
        if not isinstance(scenario.theta, str):
            return np.array(scenario.theta)
        assert scenario.gap is not None
        if scenario.theta == "close":
            return closest(self.request.problem, scenario.gap)
        return typical(self.request.problem, scenario.gap, widest=self._widest)

    def _size(self, spread: float) -> float:
        """How far the baseline moves from the level."""
        drift, bounds = self.scenario.drift, self.request.bounds
        wanted = 0.0 if drift.kind == "none" else drift.size
        if bounds is None:
            most = max(self.request.problem.baseline - abs(self._level), 0.0)
            return most if wanted is None else wanted
        left = (self._widest - spread) / 2
        if left < 0 or (wanted or 0.0) > left:
            raise InvalidInputError(
                f"In scenario {self.scenario.name!r} means would leave the bounds "
                f"{bounds[0]:g} to {bounds[1]:g}: arms lie {spread:.3g} apart about "
                f"{self._level:g}"
                + (f", which leaves ±{left:.3g} for the drift." if left >= 0 else "."),
                field="size" if left >= 0 else "gap",
                value=drift.size if left >= 0 else self.scenario.gap,
                remedy="Assume a smaller drift, a smaller gap, or another level.",
            )
        return left / 2 if wanted is None else wanted

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


def _information(delta: float) -> float:
    """kl(δ, 1 − δ), the information needed to be right with probability 1 − δ; near log 1/δ."""
    return max((1 - 2 * delta) * math.log((1 - delta) / delta), 0.0)
