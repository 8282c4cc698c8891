"""Small policies that keep the contract, to be broken in one place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies import Policy, check_adoptable
from bestarm.problem import Problem
from bestarm.recommendation import Phase, Recommendation
from bestarm.records import Plan, Summary

__all__ = ["PROBLEM", "FixedHalving", "Halving"]

PROBLEM = Problem([[1, 0], [0, 1], [0.6, 0.8], [0, 0]], [[1, 0], [0.5, 0.5], [0, 1]])


class Halving(Policy):
    """A correct policy: each phase regresses on the arm means and drops the worse half."""

    planned = "randomised"

    def __init__(self, problem: Problem, *, seed: int, pulls: int = 50, phases: int = 9) -> None:
        self.problem = problem
        self.phases = phases
        self.size = pulls
        self.rotation = seed % problem.arms  # the seed must matter to be worth replaying
        self.active = list(range(problem.targets))
        self.pulls = 0
        self.trace: list[Phase] = []
        self.adopted: Plan | None = None

    def weights(self) -> Array:
        weights = np.ones(self.problem.arms)
        weights[(self.rotation + len(self.trace)) % self.problem.arms] += 1.0
        if len(self.trace) % 2 == 1 and self.problem.arms > self.problem.rank + 1:
            weights[-1] = 0.0
        return np.asarray(weights / weights.sum())

    def stopped(self) -> str | None:
        if len(self.active) == 1:
            return "identified"
        return "max_phases" if len(self.trace) == self.phases else None

    def plan(self) -> Plan | None:
        if self.stopped() or self.adopted is not None:
            return self.adopted
        phase = len(self.trace) + 1
        if self.planned == "fixed":
            return Plan.fixed(np.full(self.problem.arms, self.size), phase=phase)
        return Plan.randomised(self.weights(), self.size, phase=phase)

    def adopt(self, plan: Plan) -> None:
        phase = None if self.stopped() else len(self.trace) + 1
        self.adopted = check_adoptable(plan, self.problem, phase=phase)

    def check(self, summary: Summary) -> None:
        plan = self.plan()
        if plan is None:
            raise ProtocolError("The policy has stopped.", field="summary")
        plan.check(summary)

    def values(self, summary: Summary) -> Array:
        seen = summary.counts > 0
        means = summary.sums[seen] / summary.counts[seen]
        features = np.column_stack([np.ones(seen.sum()), self.problem.source[seen]])
        theta = np.linalg.lstsq(features, means, rcond=None)[0][1:]
        return np.asarray(self.problem.target @ theta)

    def update(self, summary: Summary) -> None:
        self.check(summary)
        values = self.values(summary)
        ranked = sorted(self.active, key=lambda z: -values[z])
        keep = ranked[: (len(ranked) + 1) // 2]
        self.trace.append(
            Phase(
                phase=len(self.trace) + 1,
                active=tuple(self.active),
                eliminated=tuple(ranked[len(keep) :]),
                leader=ranked[0],
                contrasts=tuple(float(values[ranked[0]] - values[z]) for z in self.active),
                radii=(float("nan"),) * len(self.active),
                delta=self.problem.delta,
                pulls=summary.pulls,
                weights=self.weights(),
                value=1.0,
                gap=0.0,
                stability=1.0,
            )
        )
        self.active = keep
        self.adopted = None
        self.pulls += summary.pulls

    def recommend(self) -> Recommendation:
        target = self.active[0]
        reason = self.stopped()
        return Recommendation(
            target=target,
            label=self.problem.target_labels[target],
            final=reason == "identified",
            reason=reason or "running",
            pulls=self.pulls,
            error_bound=None,
            active=tuple(self.active),
            # A copy, down to the arrays: nobody may reach into the policy.
            trace=tuple(replace(phase, weights=phase.weights.copy()) for phase in self.trace),
        )


class FixedHalving(Halving):
    planned = "fixed"
