"""Parameters under which the best target leads by exactly the gap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from bestarm import bounds
from bestarm.errors import InvalidInputError
from bestarm.geometry import Array
from bestarm.problem import Problem

_CANDIDATES = 40  # targets tried as the best one
_DRAWS = 51
_SEED = 20_240_229  # of directions: a plan depends on its own seed through the runs alone
_RESIDUE = 1e-9
_TOLERANCE = 1e-2  # of complexities that are only ranked


def closest(problem: Problem, gap: float) -> Array:
    """The hardest parameter with this gap: all others are as close behind the best as possible.

    For a best target z, it minimises Σ ((z − z′)·θ)² subject to (z − z′)·θ ≥ gap for every z′,
    which does not depend on how the features are scaled or mixed. Of the targets that can be the
    best (at most 40 are tried) it takes the one with the largest complexity.
    """
    candidates = _candidates(problem)
    found = [theta for z in candidates if (theta := _least(problem, int(z))) is not None]
    if not found:  # in exact arithmetic some target is a corner of the hull
        raise InvalidInputError(
            "The targets lie too close together for any of them to lead.",
            field="target",
            remedy="Give `theta` in numbers.",
        )
    hardness = np.array([_hardness(problem, theta) for theta in found])
    # The first of those that are equally hard, up to the solver's tolerance.
    hardest = int(np.argmax(hardness >= hardness.max() * (1 - 2 * _TOLERANCE)))
    return _scaled(problem, found[hardest], gap)


def typical(problem: Problem, gap: float, *, widest: float) -> Array:
    """A parameter with this gap that is neither hard nor easy: the median of 51 directions.

    Directions are isotropic in the coordinates in which the arms have unit variance, each scaled to
    the gap; the median is by complexity. Directions that spread arm means over more than `widest`
    are skipped.
    """
    rng = np.random.default_rng(_SEED)
    drawn = [problem.span.dual @ rng.standard_normal(problem.rank) for _ in range(_DRAWS)]
    scaled = [_scaled(problem, theta, gap) for theta in drawn]
    fitting = [theta for theta in scaled if np.ptp(problem.source @ theta) <= widest]
    if not fitting:
        raise InvalidInputError(
            f"With a gap of {gap:g} a typical parameter spreads arm means over more than "
            f"{widest:g}, more than was declared.",
            field="gap",
            value=gap,
            remedy="Assume a smaller gap or theta = 'close', or declare larger scales.",
        )
    return sorted(fitting, key=lambda theta: _hardness(problem, theta))[len(fitting) // 2]


def _hardness(problem: Problem, theta: Array) -> float:
    return bounds.complexity(problem, theta, tol=_TOLERANCE).value


def _candidates(problem: Problem) -> NDArray[np.intp]:
    if problem.targets <= _CANDIDATES:
        return np.arange(problem.targets)
    # Winners of random directions: each can be the best, because it was.
    directions = np.random.default_rng(_SEED).standard_normal((problem.rank, 20 * _CANDIDATES))
    contrasts = problem.span.contrast_coordinates(problem.target - problem.target[0])
    winners, first = np.unique((contrasts @ directions).argmax(axis=0), return_index=True)
    return winners[np.argsort(first)][:_CANDIDATES]


def _least(problem: Problem, best: int) -> Array | None:
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


def _scaled(problem: Problem, theta: Array, gap: float) -> Array:
    values = (problem.target - problem.target[0]) @ theta
    second, best = np.sort(values)[-2:]
    return np.asarray(theta * (gap / (best - second)))
