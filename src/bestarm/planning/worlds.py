"""The worlds that a plan simulates: scenarios as environments, with their numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm import bounds as theory
from bestarm.environments import Environment, Semiparametric
from bestarm.errors import InvalidInputError
from bestarm.geometry import Array
from bestarm.planning.assumptions import Scenario
from bestarm.planning.forecasts import AssumedWorld
from bestarm.planning.truths import closest, typical
from bestarm.problem import Problem

if TYPE_CHECKING:
    from bestarm.environments.paths import Constant, Moving

__all__ = ["ScenarioWorld", "make_world"]

_PERIOD = 1000.0  # outcomes per period of a drift, where outcomes per day are not known
_CAP = 100  # times the lower bound
_LEAST_CAP = 1_000_000


@dataclass(frozen=True)
class ScenarioWorld:
    """An environment with its numbers."""

    environment: Environment
    assumed: AssumedWorld

    @property
    def cap(self) -> int:
        """The number of pulls at which a run is cut."""
        return max(_LEAST_CAP, math.ceil(_CAP * self.assumed.lower_bound))


def make_world(
    problem: Problem,
    scenario: Scenario,
    *,
    bounds: tuple[float, float] | None,
    per_day: float | None,
) -> ScenarioWorld:
    """Make the world of a scenario.

    Args:
        problem: the problem that policies are told.
        scenario: the assumptions.
        bounds: the lowest and the highest reward, or None for Gaussian noise.
        per_day: outcomes per day, the period of a drift that names none.

    Raises:
        InvalidInputError: means would leave the bounds, or the gap cannot be attained.
    """
    if bounds is not None and scenario.noise is not None:
        raise InvalidInputError(
            "`noise` cannot be set for bounded rewards: it follows from the level.",
            field="noise",
            value=scenario.noise,
            remedy="Leave it out of the scenario.",
        )
    theta = _theta(problem, scenario, bounds)
    tau = theory.complexity(problem, theta).lower_bound
    means = problem.source @ theta
    middle = float(means.max() + means.min()) / 2
    spread = float(np.ptp(means))
    level, size, period = _movement(problem, scenario, spread, bounds=bounds, per_day=per_day)
    # The mean of the arms is part of the baseline; the arms themselves differ about the level.
    baseline = scenario.drift.path(level=level - middle, size=size, period=period)
    noise = _noise(problem, scenario, level + scenario.drift.places(size), spread, bounds)
    environment = _environment(problem, scenario, theta, baseline, bounds, noise)
    values = (problem.target - problem.target[0]) @ theta
    best, ranked = int(values.argmax()), np.sort(values)
    return ScenarioWorld(
        environment,
        AssumedWorld(
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
            noise=noise,
            bounded=bounds is not None,
            complexity=tau,
            lower_bound=2 * noise**2 * tau * _information(problem.delta),
        ),
    )


def _information(delta: float) -> float:
    """kl(δ, 1 − δ), the information needed to be right with probability 1 − δ; near log 1/δ."""
    return max((1 - 2 * delta) * math.log((1 - delta) / delta), 0.0)


def _theta(problem: Problem, scenario: Scenario, bounds: tuple[float, float] | None) -> Array:
    if not isinstance(scenario.theta, str):
        return np.array(scenario.theta)
    assert scenario.gap is not None
    if scenario.theta == "close":
        return closest(problem, scenario.gap)
    widest = 2 * problem.scale if bounds is None else _room(scenario, bounds)
    return typical(problem, scenario.gap, widest=widest)


def _room(scenario: Scenario, bounds: tuple[float, float]) -> float:
    """The largest spread of arm means about the level."""
    low, high = bounds
    level = (low + high) / 2 if scenario.level is None else scenario.level
    return 2 * min(level - low, high - level)


def _movement(
    problem: Problem,
    scenario: Scenario,
    spread: float,
    *,
    bounds: tuple[float, float] | None,
    per_day: float | None,
) -> tuple[float, float, float]:
    """The level, how far the baseline moves from it, and the period in outcomes."""
    drift = scenario.drift
    if bounds is None:
        level = scenario.level or 0.0
        usual = max(problem.baseline - abs(level), 0.0)
    else:
        level = sum(bounds) / 2 if scenario.level is None else scenario.level
        left = (_room(scenario, bounds) - spread) / 2
        if left < 0 or (drift.size is not None and drift.kind != "none" and drift.size > left):
            raise InvalidInputError(
                f"In scenario {scenario.name!r} means would leave the bounds {bounds[0]:g} to "
                f"{bounds[1]:g}: arms lie {spread:.3g} apart about {level:g}"
                + (f", which leaves ±{left:.3g} for the drift." if left >= 0 else "."),
                field="size" if left >= 0 else "gap",
                value=drift.size if left >= 0 else scenario.gap,
                remedy="Assume a smaller drift, a smaller gap, or another level.",
            )
        usual = left / 2
    size = 0.0 if drift.kind == "none" else usual if drift.size is None else drift.size
    period = drift.period or max(per_day or _PERIOD, 2.0)
    return level, size, period


def _noise(
    problem: Problem,
    scenario: Scenario,
    levels: Array,
    spread: float,
    bounds: tuple[float, float] | None,
) -> float:
    """The standard deviation of the noise.

    For bounded rewards it changes with the level. The information of a pull is proportional to
    1/variance, so 1/variance of the least noisy arm is averaged over time.
    """
    if bounds is None:
        return problem.noise if scenario.noise is None else scenario.noise
    low, high = bounds
    least = np.minimum(
        *((mean - low) * (high - mean) for mean in (levels - spread / 2, levels + spread / 2))
    )
    return math.sqrt(1 / float(np.mean(1 / least))) if least.min() > 0 else 0.0


def _environment(
    problem: Problem,
    scenario: Scenario,
    theta: Array,
    baseline: Constant | Moving,
    bounds: tuple[float, float] | None,
    noise: float,
) -> Environment:
    arguments: dict[str, Any] = {
        "target": problem.target,
        "baseline": baseline,
        "noise": noise,
        "declared_noise": problem.noise,
        "declared_baseline": problem.baseline,
        "source_labels": problem.source_labels,
        "target_labels": problem.target_labels,
        "name": scenario.name,
    }
    if bounds is None:
        return Semiparametric(problem.source, theta, **arguments)
    from bestarm.planning.two_point import TwoPoint  # noqa: PLC0415 - compiles kernels

    return TwoPoint(problem.source, theta, bounds=bounds, **arguments)
