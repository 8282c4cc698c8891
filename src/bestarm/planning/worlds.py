"""The worlds that a plan simulates: the hardest parameter with a gap, under a drift."""

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
from bestarm.planning.amounts import describe_lift
from bestarm.planning.request import Drift, PlanRequest
from bestarm.problem import Problem
from bestarm.units import Unit

_PERIOD = 1000.0  # rounds per period of a drift, where rounds per day are not known
_ROUNDING = 1e-9  # up to which features express a constant, and levels are equal
_CANDIDATES = 40  # targets tried as the best one
_SEED = 20_240_229  # of directions: a plan depends on its own seed through the runs alone
_RESIDUE = 1e-9
_TOLERANCE = 1e-2  # of complexities that are only ranked


@dataclass(frozen=True)
class AssumedWorld:
    """The world that is simulated under one drift, in numbers.

    Attributes:
        scenario: its name: the kind of drift that was asked for.
        theta: the parameter.
        best: the label of the best target.
        gap: by how much it leads the next one.
        farthest: by how much it leads the last one.
        spread: how far apart the best and the worst source arm are.
        drift: how the baseline moves: "none" where there is nowhere to go.
        size: how far the baseline goes to either side.
        period: over how many rounds.
        level: the reward about which arm means lie.
        base: the base rate, if it was stated: the mean reward of the next best target.
        baseline: what the baseline moves about: the level, of which the mean of the arms is a part;
            or, where no baseline is declared, what is added to every x·θ.
        noise: the standard deviation of the noise within a round. For bounded rewards it changes
            with the level; this one gives the same information per pull as the least noisy arm does
            over time.
        bounded: whether rewards are at one of two bounds, rather than Gaussian.
        complexity: τ*, certified from below.
        lower_bound: the mean number of pulls that every rule needs which is right with probability
            1 − δ for every θ and every baseline, in blocks or not; or, where no baseline is
            declared, for every θ.
        other_bound: the same with the other of the two assumptions.
    """

    scenario: str
    theta: tuple[float, ...]
    best: str
    gap: float
    farthest: float
    spread: float
    drift: str
    size: float
    period: float
    level: float
    base: float | None
    baseline: float
    noise: float
    bounded: bool
    complexity: float
    lower_bound: float
    other_bound: float

    def describe(self, unit: str, *, rates: bool) -> str:
        """The world in words; `unit` is what it moves with: outcomes, or rounds. In points where
        outcomes are rates."""
        write = Unit(percent=rates).difference
        lead = f"{self.best!r} leads the next one by {write(self.gap)}, the last by "
        lead += write(self.farthest)
        if math.isclose(self.farthest, self.gap, rel_tol=1e-6):
            lead = f"{self.best!r} leads all others by {write(self.gap)}"
        if self.base is not None and self.base > 0:
            lead += f", {describe_lift(self.gap, self.base, rates=rates)} of the base rate"
        law = "" if self.bounded else f"; the noise is {self.noise:.4g}"
        return f"{lead}{law}; {self.describe_drift(unit, rates=rates)}"

    def describe_drift(self, unit: str, *, rates: bool) -> str:
        """How the baseline moves, in words."""
        size, period = Unit(percent=rates).difference(self.size), f"{self.period:,.0f} {unit}"
        moves = {
            "none": "the level of all options stays as it is",
            "sine": f"the level of all options rises and falls by {size} every {period}",
            "walk": f"the level of all options wanders within ±{size}, about as far in {period}",
            "switches": f"the level of all options jumps by up to {size} either way every {period} "
            "or so",
            "people": f"every round has a level of its own, within ±{size}",
        }[self.drift]
        if self.baseline != self.level:
            moves += (
                f"; arm means lie about {self.level:.4g}, with a baseline of {self.baseline:.4g}"
            )
        return moves


@dataclass(frozen=True)
class PlannedWorld:
    """The world of a request in which the best target leads by the gap, under one drift."""

    request: PlanRequest
    drift: Drift
    gap: float

    def make(self) -> tuple[Environment, AssumedWorld]:
        """The environment, and its numbers.

        Raises:
            InvalidInputError: means would leave the bounds.
        """
        problem, bounds = self.request.problem, self.request.bounds
        self._check_base()
        theta = hardest_parameter(problem, self.gap)
        bound = problem.baseline if self._bounded_level else None
        moving = complexity(problem, theta, baseline=bound).lower_bound
        still = complexity(problem, theta, "linear").lower_bound
        tau, other = (moving, still) if problem.drifts else (still, moving)
        theta, level, added = self._place(theta)
        spread = float(np.ptp(problem.source @ theta))
        size = self._size(spread, level, added)
        period = self.drift.period or max(self.request.per_day or _PERIOD, 2.0)
        noise = self._noise(level + self.drift.places(size), spread)
        values = (problem.target - problem.target[0]) @ theta
        best, ranked = int(values.argmax()), np.sort(values)
        environment = (Semiparametric if bounds is None else TwoPoint).for_problem(
            problem,
            theta,
            baseline=self.drift.path(level=added, size=size, period=period),
            noise=noise,
            name=self.drift.kind,
            block=self.request.block,
            **({} if bounds is None else {"bounds": bounds}),
        )
        return environment, AssumedWorld(
            scenario=self.drift.kind,
            theta=tuple(theta.tolist()),
            best=problem.target_labels[best],
            gap=float(ranked[-1] - ranked[-2]),
            farthest=float(ranked[-1] - ranked[0]),
            spread=spread,
            drift="none" if size == 0 else self.drift.kind,
            size=size,
            period=period,
            level=level,
            base=self.request.base_rate,
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
            theta, level, added = self._place(hardest_parameter(self.request.problem, self.gap))
            self._size(float(np.ptp(self.request.problem.source @ theta)), level, added)
        except InvalidInputError:
            return False
        return True

    def _check_base(self) -> None:
        base, bounds = self.request.base_rate, self.request.bounds
        if base is None or bounds is None:
            return
        low, high = bounds
        if not low < base < high:
            what = f"`base` must lie between the bounds {low:g} and {high:g}; got {base:g}."
            remedy = "A rate of two percent is '2 %' or 0.02."
            raise InvalidInputError(what, field="base", value=base, remedy=remedy)
        if base + self.gap > high:
            what = (
                f"A lead of {self.gap:.4g} over a base rate of {base:.4g} makes "
                f"{base + self.gap:.4g}, above the highest outcome, {high:g}."
            )
            remedy = f"The lead can be at most {high - base:.4g}."
            raise InvalidInputError(what, field="gap", value=self.gap, remedy=remedy)

    @property
    def _bounded_level(self) -> bool:
        """Whether the rule uses that the baseline lies within its bound of 0."""
        problem = self.request.problem
        return problem.drifts and self.request.bounds is None and not problem.expresses_level

    def _level(self, theta: Array) -> float:
        """The middle of the arm means: as the base rate implies, else 0, or that of the bounds."""
        base, bounds = self.request.base_rate, self.request.bounds
        if base is not None:  # that of the next best target
            problem = self.request.problem
            means, values = problem.source @ theta, np.sort(problem.target @ theta)
            return base + float((means.max() + means.min()) / 2 - values[-2])
        return 0.0 if bounds is None else sum(bounds) / 2

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
        if self.request.bounds is not None:
            constant = np.linalg.lstsq(problem.source, np.ones(problem.arms), rcond=None)[0]
            if np.allclose(problem.source @ constant, 1.0, rtol=0.0, atol=_ROUNDING):
                return theta + added * constant, level, 0.0
        if self.request.base_rate is None or abs(added) <= _ROUNDING * abs(middle):
            return theta, middle, 0.0
        return theta, level, added

    def _size(self, spread: float, level: float, added: float) -> float:
        """How far the baseline moves from the level."""
        problem, drift, bounds = self.request.problem, self.drift, self.request.bounds
        wanted = 0.0 if drift.kind == "none" else drift.size
        from_zero = added if self._bounded_level else level
        most = max(problem.baseline - abs(from_zero), 0.0)
        if bounds is None:
            return most if wanted is None else wanted
        left = min(level - bounds[0], bounds[1] - level) - spread / 2
        if left < 0 or (wanted or 0.0) > left:
            raise self._leaves_the_bounds(bounds, spread, level, left)
        return min(left / 2, most) if wanted is None else wanted

    def _leaves_the_bounds(
        self, bounds: tuple[float, float], spread: float, level: float, left: float
    ) -> InvalidInputError:
        field: str = "gap"
        value: float | None = self.gap
        why, remedy = "", "Assume a smaller drift, a smaller gap, or another base rate."
        if left >= 0:
            field, value = "size", self.drift.size
            why = f", which leaves ±{left:.3g} for the drift"
        elif not self.request.problem.drifts and self.request.base_rate is None:
            field, value = "baseline", self.request.problem.baseline
            why = ", as no baseline is declared"
            remedy = "Declare a baseline, or give the base rate."
        what = (
            f"Under {self.drift.kind!r} means would leave the bounds {bounds[0]:g} to "
            f"{bounds[1]:g}: options lie {spread:.3g} apart about {level:.4g}{why}."
        )
        return InvalidInputError(what, field=field, value=value, remedy=remedy)

    def _noise(self, levels: Array, spread: float) -> float:
        """The standard deviation of the noise.

        For bounded rewards it changes with the level. The information of a pull is proportional to
        1/variance, so 1/variance of the least noisy arm is averaged over time.
        """
        if self.request.bounds is None:
            return self.request.problem.noise
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
        raise InvalidInputError(what, field="target", remedy="Leave one of two like targets out.")
    hardness = np.array([_complexity(problem, theta) for theta in found])
    # The first of those that are equally hard, up to the solver's tolerance.
    hardest = int(np.argmax(hardness >= hardness.max() * (1 - 2 * _TOLERANCE)))
    return found[hardest]


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
