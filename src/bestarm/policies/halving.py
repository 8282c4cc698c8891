"""Sequential halving: a fixed budget, spent in stages that each drop half of the targets."""

from __future__ import annotations

import math
import sys
from typing import ClassVar

import numpy as np

from bestarm.checks import whole
from bestarm.design import centered_xy, check_tolerance
from bestarm.design.memo import recall
from bestarm.estimation import predict_level
from bestarm.numerics.geometry import Array, centered_diameter, covariance
from bestarm.policies.shrinking import Shrinking, parts
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_PILOT = 20  # one pull in this many goes to the pilot
EVERY_TARGET = sys.maxsize  # kept after a plan that decides nothing
_LEAST_BATCH = 50  # pulls; a level predicted from fewer adds about as much noise as it takes away


class SequentialHalving(Shrinking):
    """The best target that a given number of pulls can find, whatever the baseline does.

    There are ⌈log₂ H⌉ stages of equal length. In each, arms are drawn from the centered XY-design
    of the targets still active; afterwards the better half of them is kept, by orthogonalized
    regression on all pulls so far. Contrasts of targets that are gone no longer cost anything.

    A stage is pulled in several plans. Before each, the level of its rewards is predicted from the
    plan before and taken off, which spares the variance that a common level would add and biases
    nothing, being fixed beforehand. The first plan, a pilot of one pull in twenty, only serves to
    predict.

    A budget is not an error probability: the answer is never final. Simulations say how often it
    would be wrong in a world one believes in.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls, at least one per stage and one for the pilot. All are used.
        stages: another number of stages, each of which keeps the H^(1/stages)-th part. One stage is
            a single regression under the design for all targets.
        batches: plans per stage; the more, the better a moving baseline is followed. Each must be
            answered before the next begins; none is made shorter than 50 pulls for it.
        tol: the relative gap to which designs are certified.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import SequentialHalving
        >>> policy = SequentialHalving(Problem(["a", "b", "c", "d"]), budget=1000)
        >>> policy.plan().weights.tolist()
        [0.25, 0.25, 0.25, 0.25]

    Reference: Karnin, Koren and Somekh (2013); Katz-Samuels, Jain, Karnin and Jamieson (2020).
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        budget: int,
        stages: int | None = None,
        batches: int = 32,
        tol: float = 1e-3,
    ) -> None:
        super().__init__(problem)
        check_tolerance(tol)
        self._tol = tol
        sizes = _sizes(problem.targets, stages)
        self._lengths, self._keep = _schedule(
            whole(budget, "budget", least=1 + len(sizes)),
            sizes,
            whole(batches, "batches", least=1),
        )
        self._fit = _Fit(problem)

    @property
    def theta(self) -> Array:
        """θ̂ so far, in feature units; only its products with differences of arms mean anything."""
        return self._fit.theta

    def _make_plan(self) -> Plan:
        pulls = self._lengths[self._plans]
        targets = self.problem.target[self._active]
        design = recall(centered_xy, self.problem.source, targets, tol=self._tol)
        self._gap = design.gap
        return Plan.randomised(design.weights, pulls, phase=self._plans + 1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:
        self._fit.add(summary, plan)
        options = self.problem.target[self._active]
        return np.asarray((options - options[0]) @ self._fit.theta)  # offsets would cost digits

    def _value(self, plan: Plan) -> float:
        """The largest variance factor of an active contrast, per pull."""
        assert plan.weights is not None
        targets = self.problem.target[self._active]
        return recall(centered_diameter, self.problem.source, plan.weights, targets)


def _sizes(targets: int, stages: int | None) -> list[int]:
    """How many targets are left after each stage."""
    if stages is None:
        return [math.ceil(targets / 2**k) for k in range(1, math.ceil(math.log2(targets)) + 1)]
    whole(stages, "stages", least=1, below=targets)
    return [math.ceil(round(targets ** (1 - k / stages), 9)) for k in range(1, stages + 1)]


def _schedule(budget: int, sizes: list[int], batches: int) -> tuple[list[int], list[int]]:
    """The pulls of each plan, and how many targets are kept after it.

    The pilot, then stages of equal length, each in plans of equal length.
    """
    pilot = max(1, budget // _PILOT)
    lengths, keep = [pilot], [EVERY_TARGET]
    for pulls, size in zip(parts(budget - pilot, len(sizes)), sizes, strict=True):
        plans = parts(pulls, min(batches, max(1, pulls // _LEAST_BATCH)))
        lengths += plans
        keep += [*[EVERY_TARGET] * (len(plans) - 1), size]
    return lengths, keep


class _Fit:
    """Orthogonalized regression on all plans but the first, each at the level predicted for it.

    Every plan adds Σ x̃ (r − level − x̃·θ) to the estimating equation, a martingale difference for
    any baseline and any level fixed before it. All pulls count alike.
    """

    def __init__(self, problem: Problem) -> None:
        self._dual = problem.span.dual
        self._arms = problem.span.coordinates(problem.source)
        self._last: Summary | None = None
        self._ridge = np.zeros((problem.rank, problem.rank))
        self._gram = np.zeros((problem.rank, problem.rank))
        self._moment = np.zeros(problem.rank)
        self._slope = np.zeros(problem.rank)

    @property
    def theta(self) -> Array:
        return np.asarray(self._dual @ self._slope)

    def add(self, summary: Summary, plan: Plan) -> None:
        """Take in a plan's totals."""
        weights = plan.weights
        assert weights is not None
        mean = weights @ self._arms
        centered = self._arms - mean
        gram = centered.T @ (summary.counts[:, None] * centered)
        if self._last is None:
            # The level of the pilot is its own mean, no prediction: it serves later plans only.
            level = summary.sums.sum() / summary.pulls
            moment = centered.T @ (summary.sums - level * summary.counts)
            self._ridge = covariance(self._arms, weights)  # one pull, so that few can be solved for
            self._slope = _solve(gram + self._ridge, moment)
        else:
            level = predict_level(self._last, self._arms, mean, self._slope)
            moment = centered.T @ (summary.sums - level * summary.counts)
            self._gram, self._moment = self._gram + gram, self._moment + moment
            self._slope = _solve(self._gram + self._ridge, self._moment)
        self._last = summary


def _solve(gram: Array, moment: Array) -> Array:
    """The least solution of gram · x = moment."""
    return np.asarray(np.linalg.lstsq(gram, moment, rcond=None)[0])
