"""Policies for tests of live experiments: plans that hang on every bit of what was told."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from clocks import Clock

from bestarm import Experiment
from bestarm.errors import ProtocolError
from bestarm.policies import Policy, Traits, check_adoptable
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.records import BlockPlan, Plan, Rounds, Summary

__all__ = ["PROBLEM", "SIZES", "Chained", "Scripted", "create_chained"]

PROBLEM = Problem(np.eye(4), source_labels=["north", "east", "south", "west"])
SIZES = (6, 5, 9, 4)


class Chained(Policy):
    """A policy whose every plan, and whose answer, hang on every bit of all summaries before.

    Args:
        problem: the problem.
        sizes: how many pulls each plan asks for.
        kind: `"randomised"` or `"fixed"` for plans of one kind, `"mixed"` for both in turn;
            `"open"`, or `"turning"` for open and closed ones in turn; `"provisional"`; `"blocks"`
            and `"provisional blocks"` for rounds of two and of three arms in turn.
        forecasts: whether forecasts are subtracted, under plans that are not fixed.
        changes: whether options come and go.
    """

    def __init__(
        self,
        problem: Problem = PROBLEM,
        *,
        sizes: tuple[int, ...] = SIZES,
        kind: str = "mixed",
        forecasts: bool = False,
        changes: bool = False,
    ) -> None:
        self.problem = problem
        self.changes = changes
        self.retired: set[int] = set()
        self.sizes = sizes
        self.kind = kind
        self.forecasts = (-1.0, 1.5) if forecasts else None
        self.summaries: list[Summary] = []
        self._late: set[int] = set()  # which of them were
        self._planned: dict[int, Plan] = {}
        self._digest = hashlib.sha256()  # of the summaries
        self._digested = 0  # how many of them

    @property
    def traits(self) -> Traits:
        return Traits(changes=self.changes)

    @property
    def phase(self) -> int:
        return 1 + len(self.summaries) - len(self._late)

    def _rng(self) -> np.random.Generator:
        digest = self._digest
        for number in range(self._digested, len(self.summaries)):
            summary = self.summaries[number]
            for part in (summary.counts, summary.sums, summary.squares, summary.missing):
                digest.update(part.tobytes())
            digest.update(summary.pending.tobytes())
            digest.update(np.float64(summary.forecast_sum).tobytes())
            for extremes in (summary.least, summary.largest):
                digest.update(b"" if extremes is None else extremes.tobytes())
            digest.update(bytes([number in self._late]))
            if isinstance(summary, Rounds):
                digest.update(repr(summary.data).encode())
        self._digested = len(self.summaries)
        return np.random.default_rng(int.from_bytes(digest.digest()[:8], "little"))

    def _stopped(self) -> bool:
        # What comes late can end it too, now and then.
        if len(self.summaries) - 1 in self._late and self._rng().random() < 0.2:
            return True
        return self.phase > len(self.sizes)

    def plan(self) -> Plan | None:
        if self._stopped():
            return None
        if self.phase not in self._planned:
            # Fixed when first asked for: what comes late must not change it.
            self._planned[self.phase] = replace(self._make(), forecasts=self.forecasts)
        return self._planned[self.phase]

    def adopt(self, plan: Plan) -> None:
        phase = None if self._stopped() else self.phase
        self._planned[self.phase] = check_adoptable(plan, self.problem, phase=phase)

    def _make(self) -> Plan:
        phase, rng, arms = self.phase, self._rng(), self.problem.arms
        size = self.sizes[phase - 1]
        if self.kind == "fixed" or (self.kind == "mixed" and phase % 2 == 0):
            left = np.array([arm not in self.retired for arm in range(arms)])
            counts = rng.multinomial(size, left / left.sum())
            return Plan.fixed(counts, phase=phase)
        if "blocks" in self.kind:
            return self._over_blocks(phase, size, rng)
        weights = rng.dirichlet(np.ones(arms))
        weights[list(self.retired)] = 0.0
        if arms - len(self.retired) > 1:
            weights[phase % arms] = 0.0
        weights /= weights.sum()
        if self.kind == "provisional":
            most = None if rng.random() < 0.5 else size + 4
            return Plan.randomised(
                weights, size, phase=phase, open=True, most=most, provisional=True, center=0.25
            )
        if self.kind == "open" or (self.kind == "turning" and phase % 2 == 1):
            most = None if rng.random() < 0.5 else size + 4
            return Plan.randomised(weights, size, phase=phase, open=True, most=most)
        return Plan.randomised(weights, size, phase=phase)

    def _over_blocks(self, phase: int, rounds: int, rng: np.random.Generator) -> Plan:
        arms, each = self.problem.arms, 2 + phase % 2
        blocks = list(combinations(range(arms), each))[phase % 3 :]
        provisional = self.kind == "provisional blocks"
        return BlockPlan.drawn(
            blocks,
            rng.dirichlet(np.ones(len(blocks))),
            rounds,
            arms=arms,
            phase=phase,
            open=True,
            most=None if rng.random() < 0.5 else each * rounds + 4,
            provisional=provisional,
            center=0.25 if provisional else 0.0,
        )

    def update(self, summary: Summary) -> None:
        plan = self.plan()
        if plan is None:
            raise ProtocolError("No plan is open.", field="summary")
        plan.check(summary, beyond=self.changes)
        self.summaries.append(summary)

    def amend(self, summary: Summary, *, phase: int) -> None:
        if self._stopped():
            raise ProtocolError("No plan is open.", field="summary")
        self._plan_of(phase).check(summary, beyond=True)
        self._late.add(len(self.summaries))
        self.summaries.append(summary)

    def retire(self, target: int) -> None:
        self._change(f"retired {target}")
        self.retired.add(target)

    def add(self, problem: Problem) -> None:
        self._change(f"added {problem.source.tolist()}")
        self.problem = problem

    def _change(self, what: str) -> None:
        self._rng()  # what it was told so far comes first
        self._digest.update(what.encode())
        self._planned.pop(self.phase, None)  # one that was never on record

    def _plan_of(self, phase: int) -> Plan:
        return self._planned[phase]

    def recommend(self) -> Recommendation:
        left = [each for each in range(self.problem.targets) if each not in self.retired]
        target = left[int(self._rng().integers(len(left)))]
        pulls = sum(summary.pulls for summary in self.summaries)
        done = self._stopped()
        return Recommendation(
            target=target,
            label=self.problem.target_labels[target],
            final=done,
            reason="identified" if done else "running",
            pulls=pulls,
            error_bound=None,
            active=(target,) if done else tuple(left),
        )


class Scripted(Chained):
    """Goes through plans given beforehand, and fails when told to."""

    def __init__(self, *plans: Plan) -> None:
        super().__init__()
        self.plans = plans
        self.fail_update = self.fail_plan = False

    def plan(self) -> Plan | None:
        if self.fail_plan:
            raise RuntimeError("no design today")
        done = len(self.summaries) - len(self._late)
        return self.plans[done] if done < len(self.plans) else None

    def _plan_of(self, phase: int) -> Plan:
        return self.plans[phase - 1]

    def update(self, summary: Summary) -> None:
        if self.fail_update:
            raise RuntimeError("out of memory")
        super().update(summary)


def create_chained(
    url: str,
    name: str = "offer",
    *,
    kind: str = "mixed",
    sizes: Sequence[int] = SIZES,
    changes: bool = False,
    **given: Any,
) -> Experiment:
    """A stored experiment with a chained policy."""
    settings: dict[str, Any] = {"seed": 4, "clock": Clock(step=0.5)} | given
    options = {"kind": kind, "sizes": sizes, "changes": changes}
    settings |= {"policy": "chained_policies:Chained", "policy_options": options}
    return Experiment.create(url, name, PROBLEM, **settings)
