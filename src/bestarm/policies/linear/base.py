"""The base of linear rules that decide after every pull: least squares and a threshold."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from bestarm.bounds import LinearThreshold
from bestarm.checks import positive
from bestarm.numerics.geometry import Array, linear_span
from bestarm.policies.pull_by_pull import PullByPull
from bestarm.policies.stepwise import NO_DRIFT, Indices
from bestarm.problem import Problem

_GROWTHS = ("log-log", "log", "determinant", "trace", "counts", "certified")  # as kernels number


class LinearRule(PullByPull):
    """A rule on least squares that stops once the leader is far enough ahead of every target.

    It works in the span of the source: features that the source does not vary in do not matter.
    Without regularisation it never stops while one feature is, over the pulls, a combination of
    others but for a part in 100,000: rounding would decide.

    Args:
        problem: the problem; targets may be others than the source arms.
        threshold: what the statistic is compared with.
        name: what users call this threshold.
        sigma: the sub-Gaussian scale of the noise it assumes.
        ridge: λ, where A = λI + Σ x xᵀ.
        opening: arms to pull once before anything is decided; None for all, in order.
        max_pulls: stop at this many pulls; such a stop is never final.
    """

    _norm: float | None = None  # the bound on ‖θ‖ that the published threshold rests on

    def __init__(
        self,
        problem: Problem,
        threshold: LinearThreshold,
        *,
        name: str,
        sigma: float,
        ridge: float = 0.0,
        opening: Indices | None = None,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._sigma, self._threshold = positive(sigma, "sigma"), name
        source, target = coordinates(problem)
        arms, rank = source.shape
        opening = np.arange(arms) if opening is None else opening
        self._model = (source, target, opening, float(ridge), self._sigma)
        self._due = int(opening[0])
        self._fit = (np.zeros((rank, rank)), np.zeros(rank))  # A⁻¹ and θ̂, in units of sigma
        self._standing = (np.zeros(len(target)), np.zeros(len(target)))  # z·θ̂, ‖z_leader − z‖²
        self._spreads = np.zeros(arms)  # ‖x‖² under A⁻¹
        self._numbers = np.array([0.0, -1.0])  # log det A, the threshold when last computed
        self._counters = np.zeros(5, dtype=np.int64)  # pulls, leader, refresh, opening, doubt
        self._rule = _rule(threshold, source)

    def _lead(self) -> None:
        """Name the target that the kernel left in front."""
        self._leader = int(self._counters[1])

    def _assumptions(self) -> tuple[str, ...]:
        if self._threshold == "experiments":
            return ()
        known = linear_assumptions(self._sigma)
        if self._norm is None or self._threshold != "published":
            return known
        return (
            *known,
            f"The coefficients of the features have norm {self._norm:g} or less, in a unit in "
            "which the longest option has norm 1.",
        )

    @property
    def _state(self) -> tuple[Any, ...]:
        """Everything that pulls change, as the kernels take it."""
        return (
            self._counts,
            self._sums,
            *self._fit,
            *self._standing,
            self._spreads,
            self._numbers,
            self._counters,
        )


def linear_assumptions(sigma: float) -> tuple[str, ...]:
    """What the proofs of linear methods rest on."""
    return (
        "The mean reward of an option is x·θ: linear in its features, without an intercept.",
        f"The noise is {sigma:g}-sub-Gaussian, given the past.",
        NO_DRIFT,
    )


@lru_cache(maxsize=256)
def coordinates(problem: Problem) -> tuple[Array, Array]:
    """Source and targets in the span of the source, up to the unit: the longest arm has norm 1.

    Angles and ratios of lengths are kept. Targets are relative to the first: only their
    differences matter.
    """
    source, target = problem.source, problem.target - problem.target[0]
    span = linear_span(source)
    if span.rank < problem.dimension:
        axes, _ = np.linalg.qr(span.basis)
        source, target = source @ axes, target @ axes
    longest = np.linalg.norm(source, axis=1).max()
    return np.array(source / longest, order="C"), np.array(target / longest, order="C")


def _rule(threshold: LinearThreshold, source: Array) -> tuple[int, float, float, float, Array]:
    """The threshold as the kernels take it, with Λ as a matrix."""
    even = source.T @ source / len(source)
    shape = even if threshold.growth == "certified" else np.eye(source.shape[1])
    return (
        _GROWTHS.index(threshold.growth),
        threshold.factor,
        threshold.level,
        threshold.shift,
        threshold.prior * shape,
    )
