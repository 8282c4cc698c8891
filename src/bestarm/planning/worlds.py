"""The worlds that a plan simulates: scenarios as environments, with their numbers.

The parameter of a world is given in numbers, or one under which the best target leads by exactly
the gap: the hardest, or one that is neither hard nor easy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from bestarm.design import complexity
from bestarm.environments import Environment, Semiparametric
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.planning.forecasts import AssumedWorld
from bestarm.planning.request import PlanRequest, Scenario
from bestarm.problem import Problem

_PERIOD = 1000.0  # rounds per period of a drift, where rounds per day are not known
_ROUNDING = 1e-9  # up to which features express a constant, and levels are equal
_CANDIDATES = 40  # targets tried as the best one
_DRAWS = 51
_SEED = 20_240_229  # of directions: a plan depends on its own seed through the runs alone
_RESIDUE = 1e-9
_TOLERANCE = 1e-2  # of complexities that are only ranked


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
            what = "`noise` cannot be set for bounded rewards: it follows from the level."
            remedy = "Leave it out of the scenario."
            raise InvalidInputError(what, field="noise", value=scenario.noise, remedy=remedy)
        self._check_base()
        theta = self._theta()
        bound = problem.baseline if self._bounded_level else None
        moving = complexity(problem, theta, baseline=bound).lower_bound
        still = complexity(problem, theta, "linear").lower_bound
        tau, other = (moving, still) if problem.drifts else (still, moving)
        theta, level, added, spread, size = self._placed(theta)
        period = scenario.drift.period or max(self.request.per_day or _PERIOD, 2.0)
        noise = self._noise(level + scenario.drift.places(size), spread)
        baseline = scenario.drift.path(level=added, size=size, period=period)
        values = (problem.target - problem.target[0]) @ theta
        best, ranked = int(values.argmax()), np.sort(values)
        environment = (Semiparametric if bounds is None else TwoPoint).for_problem(
            problem,
            theta,
            baseline=baseline,
            noise=noise,
            name=scenario.name,
            block=self.request.block,
            **({} if bounds is None else {"bounds": bounds}),
        )
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
            base=scenario.base,
            baseline=level if problem.drifts else added,
            noise=noise,
            bounded=bounds is not None,
            complexity=tau,
            lower_bound=2 * noise**2 * tau * _information(problem.delta),
            other_bound=2 * noise**2 * other * _information(problem.delta),
        )

    def fits(self) -> bool:
        """Whether all means stay within the bounds."""
        try:
            self._check_base()
            self._placed(self._theta())
        except InvalidInputError:
            return False
        return True

    def _placed(self, theta: Array) -> tuple[Array, float, float, float, float]:
        """What `_place` gives, how far apart arm means are, and how far the baseline moves."""
        theta, level, added = self._place(theta)
        spread = float(np.ptp(self.request.problem.source @ theta))
        size = self._size(spread, added if self._bounded_level else level, theta)
        return theta, level, added, spread, size

    def _check_base(self) -> None:
        base, gap, bounds = self.scenario.base, self.scenario.gap or 0.0, self.request.bounds
        if base is None or bounds is None:
            return
        low, high = bounds
        if not low < base < high:
            what = f"`base` must lie between the bounds {low:g} and {high:g}; got {base:g}."
            remedy = "A rate of two percent is '2 %' or 0.02."
            raise InvalidInputError(what, field="base", value=base, remedy=remedy)
        if base + gap > high:
            what = (
                f"A lead of {gap:.4g} over a base rate of {base:.4g} makes {base + gap:.4g}, above "
                f"the highest outcome, {high:g}."
            )
            remedy = f"The lead can be at most {high - base:.4g}."
            raise InvalidInputError(what, field="gap", value=gap, remedy=remedy)

    @property
    def _bounded_level(self) -> bool:
        """Whether the rule uses that the baseline lies within its bound of 0."""
        problem = self.request.problem
        return problem.drifts and self.request.bounds is None and not problem.expresses_level

    def _level(self, theta: Array) -> float:
        if self.scenario.level is not None:
            return self.scenario.level
        if self.scenario.base is not None:  # that of the next best target
            problem = self.request.problem
            means, values = problem.source @ theta, np.sort(problem.target @ theta)
            return self.scenario.base + float((means.max() + means.min()) / 2 - values[-2])
        return 0.0 if self.request.bounds is None else sum(self.request.bounds) / 2

    def _place(self, theta: Array) -> tuple[Array, float, float]:
        """The parameter, the middle of the arm means, and what the baseline adds to every x·θ.

        With a baseline, the mean of the arms is part of it, and the arms differ about the level.
        Without one, means are x·θ: the level is θ's where features can express it.
        """
        problem, level = self.request.problem, self._level(theta)
        means = problem.source @ theta
        middle = float(means.max() + means.min()) / 2
        added = level - middle
        if problem.drifts:
            # Where the level matters, the baseline has to stay within its bound.
            far = self._bounded_level and abs(added) > problem.baseline / 2
            return (theta, middle, 0.0) if far else (theta, level, added)
        # A parameter in numbers stays as it is, unless a level says where to move it.
        stated = self.scenario.level is not None or self.scenario.base is not None
        movable = isinstance(self.scenario.theta, str) or stated
        if self.request.bounds is not None and movable:
            constant = np.linalg.lstsq(problem.source, np.ones(problem.arms), rcond=None)[0]
            if np.allclose(problem.source @ constant, 1.0, rtol=0.0, atol=_ROUNDING):
                return theta + added * constant, level, 0.0
        if not stated or abs(added) <= _ROUNDING * abs(middle):
            return theta, middle, 0.0
        return theta, level, added

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
            return hardest_parameter(self.request.problem, scenario.gap)
        level = self._level(np.zeros(self.request.problem.source.shape[1]))
        return typical_parameter(self.request.problem, scenario.gap, widest=self._widest(level))

    def _size(self, spread: float, level: float, theta: Array) -> float:
        """How far the baseline moves from the level."""
        drift, bounds = self.scenario.drift, self.request.bounds
        wanted = 0.0 if drift.kind == "none" else drift.size
        most = max(self.request.problem.baseline - abs(level), 0.0)
        if bounds is None:
            return most if wanted is None else wanted
        left = (self._widest(level) - spread) / 2
        if left < 0 or (wanted or 0.0) > left:
            raise self._leaves_the_bounds(bounds, spread, level, left, theta)
        return min(left / 2, most) if wanted is None else wanted

    def _leaves_the_bounds(
        self,
        bounds: tuple[float, float],
        spread: float,
        level: float,
        left: float,
        theta: Array,
    ) -> InvalidInputError:
        scenario = self.scenario
        field, value, why = "gap", scenario.gap, ""
        remedy = "Assume a smaller drift, a smaller gap, or another level."
        if left >= 0:
            field, value = "size", scenario.drift.size
            why = f", which leaves ±{left:.3g} for the drift"
        elif level != self._level(theta):  # that of x·θ
            field, value = "baseline", self.request.problem.baseline
            why = ", as no baseline is declared"
            remedy = "Declare a baseline, or assume a `theta` in numbers whose means fit."
        what = (
            f"In scenario {scenario.name!r} means would leave the bounds {bounds[0]:g} to "
            f"{bounds[1]:g}: options lie {spread:.3g} apart about {level:.4g}{why}."
        )
        return InvalidInputError(what, field=field, value=value, remedy=remedy)

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


def _information(delta: float) -> float:
    """kl(δ, 1 − δ), the information needed to be right with probability 1 − δ; near log 1/δ."""
    return max((1 - 2 * delta) * math.log((1 - delta) / delta), 0.0)


def hardest_parameter(problem: Problem, gap: float) -> Array:
    """The hardest parameter with this gap: all others are as close behind the best as possible.

    For a best target z, it minimises Σ ((z − z′)·θ)² subject to (z − z′)·θ ≥ gap for every z′,
    which does not depend on how the features are scaled or mixed. Of the targets that can be the
    best (at most 40 are tried) it takes the one with the largest complexity.
    """
    return _scale_to_gap(problem, _hardest_direction(problem), gap)


@lru_cache(maxsize=4)  # the same for every gap and drift
def _hardest_direction(problem: Problem) -> Array:
    candidates = _candidates(problem)
    found = [theta for z in candidates if (theta := _least_distance(problem, int(z))) is not None]
    if not found:  # in exact arithmetic some target is a corner of the hull
        what = "The targets lie too close together for any of them to lead."
        raise InvalidInputError(what, field="target", remedy="Give `theta` in numbers.")
    hardness = np.array([_complexity(problem, theta) for theta in found])
    # The first of those that are equally hard, up to the solver's tolerance.
    hardest = int(np.argmax(hardness >= hardness.max() * (1 - 2 * _TOLERANCE)))
    return found[hardest]


def typical_parameter(problem: Problem, gap: float, *, widest: float) -> Array:
    """A parameter with this gap that is neither hard nor easy: the median of 51 directions.

    Directions are isotropic in the coordinates in which the arms have unit variance, each scaled to
    the gap; the median is by complexity. Directions that spread arm means over more than `widest`
    are skipped.
    """
    rng = np.random.default_rng(_SEED)
    drawn = [problem.span.dual @ rng.standard_normal(problem.rank) for _ in range(_DRAWS)]
    scaled = [_scale_to_gap(problem, theta, gap) for theta in drawn]
    fitting = [theta for theta in scaled if np.ptp(problem.source @ theta) <= widest]
    if not fitting:
        what = f"With a gap of {gap:g} a typical parameter spreads arm means beyond {widest:g}."
        remedy = "Assume a smaller gap or theta = 'close', or declare larger scales."
        raise InvalidInputError(what, field="gap", value=gap, remedy=remedy)
    return sorted(fitting, key=lambda theta: _complexity(problem, theta))[len(fitting) // 2]


def _complexity(problem: Problem, theta: Array) -> float:
    return complexity(problem, theta, tol=_TOLERANCE).value


def _candidates(problem: Problem) -> NDArray[np.intp]:
    if problem.targets <= _CANDIDATES:
        return np.arange(problem.targets)
    # Winners of random directions: each can be the best, because it was.
    directions = np.random.default_rng(_SEED).standard_normal((problem.rank, 20 * _CANDIDATES))
    contrasts = problem.span.contrast_coordinates(problem.target - problem.target[0])
    winners, first = np.unique((contrasts @ directions).argmax(axis=0), return_index=True)
    return winners[np.argsort(first)][:_CANDIDATES]


def _least_distance(problem: Problem, best: int) -> Array | None:
    """The least Σ ((z − z′)·θ)² with every (z − z′)·θ ≥ 1; None where z cannot be the best.

    A least-distance problem: with an orthonormal basis U of the contrasts' columns it is
    min ‖u‖² subject to Uu ≥ 1, which one nonnegative regression solves.

    Reference: Lawson and Hanson (1974), chapter 23.
    """
    others = np.delete(problem.target, best, axis=0)
    contrasts = problem.span.contrast_coordinates(problem.target[best] - others)
    left, values, right = np.linalg.svd(contrasts, full_matrices=False)
    rank = int(np.count_nonzero(values > _RESIDUE * values[0]))
    left = left[:, :rank]
    system = np.vstack([left.T, np.ones(len(left))])
    goal = np.append(np.zeros(rank), 1.0)
    residual = system @ nnls(system, goal)[0] - goal
    if -residual[-1] <= _RESIDUE:
        return None
    step = -residual[:-1] / residual[-1]
    coordinates = right[:rank].T @ (step / values[:rank])
    return np.asarray(problem.span.dual @ coordinates)


def _scale_to_gap(problem: Problem, theta: Array, gap: float) -> Array:
    values = (problem.target - problem.target[0]) @ theta
    second, best = np.sort(values)[-2:]
    return np.asarray(theta * (gap / (best - second)))
