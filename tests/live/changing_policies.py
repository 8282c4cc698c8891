"""Policies for tests of options that come and go, in arithmetic that every processor does alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bestarm.errors import ProtocolError
from bestarm.policies import Policy, Traits, check_adoptable
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary

__all__ = ["OPTIONS", "Even"]

OPTIONS = ("old", "new", "video", "quiz")


class Even(Policy):
    """Plans of equal shares for all options left; the best mean is named after the last.

    Args:
        problem: the problem.
        sizes: how many pulls each plan asks for.
        kind: of plans: `"provisional"`, `"open"` or `"closed"`.
        changes: whether options come and go.
        ends: whether it stops once one option is left.
        control: the option that others are measured against.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sizes: tuple[int, ...] = (8, 8, 8),
        kind: str = "provisional",
        changes: bool = True,
        ends: bool = True,
        control: str | None = None,
    ) -> None:
        self.problem, self.kind = problem, kind
        self._sizes, self._changes, self._fewest = tuple(sizes), changes, 1 + ends
        self._control = None if control is None else problem.target_labels.index(control)
        self.heard: list[tuple[str, int]] = []  # what it was told, in order
        self._left = list(range(problem.targets))
        self._plans: list[Plan] = []
        self._open: Plan | None = None
        self._counts, self._sums = np.zeros((2, problem.arms))

    @property
    def traits(self) -> Traits:
        return Traits(bounds=(0.0, 8.0), changes=self._changes, control=self._control)

    def has_stopped(self) -> bool:
        return len(self._plans) == len(self._sizes) or len(self._left) < self._fewest

    def plan(self) -> Plan | None:
        if self.has_stopped():
            return None
        if self._open is None:
            weights = np.zeros(self.problem.arms)
            weights[self._left] = 1.0
            plan = Plan.randomised(
                weights / len(self._left), self._sizes[len(self._plans)], phase=len(self._plans) + 1
            )
            self._open = replace(
                plan, open=self.kind != "closed", provisional=self.kind == "provisional"
            )
        return self._open

    def adopt(self, plan: Plan) -> None:
        phase = None if self.has_stopped() else len(self._plans) + 1
        self._open = check_adoptable(plan, self.problem, phase=phase, kind="randomised")

    def update(self, summary: Summary) -> None:
        plan = self.plan()
        if plan is None:
            raise ProtocolError("No plan is open.", field="summary")
        plan.check(summary, beyond=True)
        self._plans.append(plan)
        self._open = None
        self._add(summary)
        self.heard.append(("summary", plan.phase))

    def amend(self, summary: Summary, *, phase: int) -> None:
        self._plans[phase - 1].check(summary, beyond=True)
        self._add(summary)
        self.heard.append(("late summary", phase))

    def retire(self, target: int) -> None:
        assert self._open is None, "a plan is out"
        self._left.remove(target)
        self.heard.append(("retired", target))

    def add(self, problem: Problem) -> None:
        assert self._open is None, "a plan is out"
        assert problem.targets == self.problem.targets + 1
        self.problem = problem
        self._left.append(problem.targets - 1)
        self._counts, self._sums = (np.append(part, 0.0) for part in (self._counts, self._sums))
        self.heard.append(("added", problem.targets - 1))

    def _add(self, summary: Summary) -> None:
        arms = len(summary.counts)
        self._counts[:arms] += summary.counts
        self._sums[:arms] += summary.rewards

    def recommend(self) -> Recommendation:
        means = self._sums / np.maximum(self._counts, 1)
        target = max(self._left, key=lambda each: means[each])
        done = self.has_stopped()
        return Recommendation(
            target=target,
            label=self.problem.target_labels[target],
            final=done,
            reason="identified" if done else "running",
            pulls=int(self._counts.sum()),
            error_bound=None,
            active=(target,) if done else tuple(self._left),
        )
