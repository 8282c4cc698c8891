"""The base of one-shot policies: a single plan, then the target with the best score."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.geometry import Array, first_largest
from bestarm.policies.policy import Policy, Traits, check_adoptable, has_stopped
from bestarm.problem import Problem, as_problem
from bestarm.records import Plan, Recommendation, Summary

__all__ = ["OneShot", "require_pullable_targets"]


class OneShot(Policy):
    """A policy of one plan. Subclasses make it (`_make_plan`) and score targets (`_scores`).

    Args:
        problem: the problem.
        wanted: how many pulls identify the best target; None for a ranking at whatever budget
            there is, which never calls its answer final.
    """

    version: ClassVar[int]
    _kind: ClassVar[Literal["randomised", "fixed"]] = "randomised"  # of its plan

    def __init__(self, problem: Problem, *, wanted: int | None) -> None:
        self.problem = problem
        self._wanted = wanted
        self._plan: Plan | None = None
        self._ranking: Array | None = None
        self._size = 0.0  # of the rewards that it was made from

    @property
    def traits(self) -> Traits:
        """One plan; unless told how many pulls suffice, it stops when they are spent."""
        return Traits(version=self.version, budgeted=self._wanted is None)

    def plan(self) -> Plan | None:
        """The one plan, or None once its outcome is in."""
        if self._ranking is not None:
            return None
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the one plan: its pulls, drawn with its probabilities."""
        phase = None if self._ranking is not None else 1
        self._plan = check_adoptable(plan, self.problem, phase=phase, kind=self._kind)

    def update(self, summary: Summary) -> None:
        """Take the outcome of the plan and score the targets."""
        plan = self.plan()
        if plan is None:
            raise has_stopped()
        plan.check(summary)
        self._ranking, self._size = self._scores(plan, summary), summary.largest_mean

    def recommend(self) -> Recommendation:
        """The target with the best score."""
        pulls = 0 if self._ranking is None or self._plan is None else self._plan.pulls
        done = pulls > 0
        final = done and self._wanted is not None and pulls >= self._wanted
        best = 0 if self._ranking is None else first_largest(self._ranking, size=self._size)
        return Recommendation(
            target=best,
            label=self.problem.target_labels[best],
            final=final,
            reason="identified" if final else "budget" if done else "running",
            pulls=pulls,
            error_bound=None,
            active=(best,) if final else tuple(range(self.problem.targets)),
        )

    @abstractmethod
    def _make_plan(self) -> Plan:
        """The plan, where none was adopted."""

    @abstractmethod
    def _scores(self, plan: Plan, summary: Summary) -> Array:
        """An estimate for each target; only differences need mean anything."""


def require_pullable_targets(problem: Problem, method: str) -> None:
    """Raise unless the targets are the source arms themselves, in their order."""
    as_problem(problem)
    if not np.array_equal(problem.source, problem.target):
        raise InvalidInputError(
            f"{method} chooses among the arms it pulls, and these targets are not the source.",
            field="target",
            value=problem.target.shape,
            remedy="Leave `target` out, or use SPBAI without a preset, which takes any targets.",
        )
