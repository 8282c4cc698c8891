"""What one-shot policies share: a single plan, made beforehand, and the best score afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.geometry import Array
from bestarm.policies.policy import has_stopped
from bestarm.problem import Problem, as_problem
from bestarm.records import Plan, Recommendation, Summary

__all__ = ["OneShot", "require_pullable_targets"]


class OneShot(ABC):
    """A policy of one plan. Subclasses say how targets are scored (`_scores`).

    Args:
        problem: the problem.
        plan: the pulls.
        identifies: whether the plan is meant to identify the best target. A ranking at whatever
            budget there is never calls its answer final.
    """

    def __init__(self, problem: Problem, plan: Plan, *, identifies: bool) -> None:
        self._problem = problem
        self._plan = plan
        self._identifies = identifies
        self._ranking: Array | None = None

    @property
    def problem(self) -> Problem:
        """The problem the policy was made for."""
        return self._problem

    def plan(self) -> Plan | None:
        """The one plan, or None once its outcome is in."""
        return self._plan if self._ranking is None else None

    def update(self, summary: Summary) -> None:
        """Take the outcome of the plan and score the targets."""
        if self._ranking is not None:
            raise has_stopped()
        self._plan.check(summary)
        self._ranking = self._scores(self._plan, summary)

    def recommend(self) -> Recommendation:
        """The target with the best score."""
        done = self._ranking is not None
        final = done and self._identifies
        best = 0 if self._ranking is None else int(np.argmax(self._ranking))
        return Recommendation(
            target=best,
            label=self._problem.target_labels[best],
            final=final,
            reason="identified" if final else "budget" if done else "running",
            pulls=self._plan.pulls if done else 0,
            error_bound=None,
            active=(best,) if final else tuple(range(self._problem.targets)),
        )

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
