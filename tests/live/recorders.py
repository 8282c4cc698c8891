"""Policies of a few short plans that remember what they are told."""

from __future__ import annotations

import numpy as np

from bestarm import Problem
from bestarm.policies import Policy
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary

__all__ = ["PROBLEM", "SIZES", "ProvisionalRecorder", "Recorder"]

PROBLEM = Problem(np.eye(3), delta=0.1, source_labels=["tea", "coffee", "water"])
SIZES = (5, 4, 6, 3)


class Recorder(Policy):
    """Plans of a few pulls with weights of their own; remembers what it is told."""

    def __init__(self, *, most: int | None = None) -> None:
        self.problem = PROBLEM
        self.most = most
        self.told: list[tuple[int, bool, Summary]] = []  # phase, late, what
        self._closed = 0

    def weights(self, phase: int) -> list[float]:
        return [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6], [0.3, 0.3, 0.4]][phase - 1]

    def plan(self) -> Plan | None:
        phase = self._closed + 1
        if phase > len(SIZES):
            return None
        return Plan.randomised(
            self.weights(phase), SIZES[phase - 1], phase=phase, open=True, most=self.most
        )

    def adopt(self, plan: Plan) -> None:
        raise NotImplementedError  # in memory, all plans are its own

    def update(self, summary: Summary) -> None:
        plan = self.plan()
        assert plan is not None
        plan.check(summary)
        self._closed += 1
        self.told.append((self._closed, False, summary))

    def amend(self, summary: Summary, *, phase: int) -> None:
        assert phase == self._closed
        self.told.append((phase, True, summary))

    def recommend(self) -> Recommendation:
        return Recommendation(0, "tea", False, "running", 0, None, (0, 1, 2))


class ProvisionalRecorder(Recorder):
    """The same under provisional plans, with all that is known of each phase."""

    def __init__(self) -> None:
        super().__init__()
        self.totals: dict[int, Summary] = {}

    def plan(self) -> Plan | None:
        phase = self._closed + 1
        if phase <= len(SIZES):
            weights, size, most = self.weights(phase), SIZES[phase - 1], None
        elif any(each.pending.any() for each in self.totals.values()):
            weights, size, most = self.weights(1), 1, 0
        else:
            return None
        return Plan.randomised(weights, size, phase=phase, open=True, most=most, provisional=True)

    def update(self, summary: Summary) -> None:
        super().update(summary)
        self.totals[self._closed] = summary

    def amend(self, summary: Summary, *, phase: int) -> None:
        self.totals[phase] = self.totals[phase].amended(summary)
        self.told.append((phase, True, summary))
