"""Keeping up with an experiment: what is worth watching, read off its summaries as they come.

Everything here is made from plans, summaries and events, never from single outcomes, and only from
those that are new since the last time: watching costs what the last phases do, however long the
experiment is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from bestarm.geometry import Array
from bestarm.live import rules
from bestarm.live.experiment import Experiment
from bestarm.live.replay import adopt, after, go_through
from bestarm.live.store.contract import Event, Head, PlanRecord, Reading, SummaryRecord
from bestarm.policies.policy import Policy
from bestarm.problem import Problem
from bestarm.records import Plan, Recommendation, Summary

__all__ = ["Follower", "Glance", "Moment", "Slice", "State"]

_APART = 1.15  # pulls from one look to the next, as a ratio
_MOST_LOOKS = 60
_SLICES = 48
_ROUTINE = {"planned", "closed", "answered", "late", "failed"}
_KEPT_ROUTINE = 12
_KEPT_NOTABLE = 60


@dataclass(frozen=True, eq=False)
class Moment:
    """What a policy knew of all targets at one moment.

    Attributes:
        pulls: pulls it had been told.
        phase: the phase they ended with.
        leader: the target it would have named.
        active: the targets that were left.
        behind: estimated leader − target, for each target.
        low: lower ends of intervals for it.
        high: upper ends.
        evidence: the log of each target's e-value.
    """

    pulls: int
    phase: int
    leader: int
    active: tuple[int, ...]
    behind: Array
    low: Array
    high: Array
    evidence: Array


@dataclass(eq=False)
class Slice:
    """A stretch of the experiment: the raw totals, and what differences within its parts add up to.

    Attributes:
        first: the id of the first assignment in it.
        end: the id after the last.
        counts: outcomes per arm.
        sums: their sum.
        gram: Σ n (x − x̄)(x − x̄)ᵀ over its parts, each about its own mean.
        moment: Σ s (x − x̄), likewise.
    """

    first: int
    end: int
    counts: Array
    sums: Array
    gram: Array
    moment: Array

    @classmethod
    def of(cls, entry: SummaryRecord, arms: Array) -> Slice:
        """One summary, with the arms in coordinates."""
        counts, sums = entry.summary.counts.astype(float), entry.summary.rewards
        total = counts.sum()
        centered = arms - (counts @ arms / total if total else 0.0)
        gram = centered.T @ (counts[:, None] * centered)
        # About the summary's center, which drops out: far from zero, rewards would lose digits.
        return cls(entry.first, entry.end, counts, sums, gram, centered.T @ entry.summary.sums)

    def join(self, other: Slice, *, end: int | None = None) -> Slice:
        """This one and another, which ends it unless it is said where."""
        return Slice(
            self.first,
            other.end if end is None else end,
            self.counts + other.counts,
            self.sums + other.sums,
            self.gram + other.gram,
            self.moment + other.moment,
        )

    def contrasts(self, rows: Array) -> Array:
        """Contrasts (rows, in coordinates) by least squares with a level for every part.

        A baseline that moves from part to part drops out. NaN where the arms pulled tell nothing.
        """
        values, basis = np.linalg.eigh(self.gram)
        seen = values > 1e-9 * max(values[-1], 1e-300)
        basis = basis[:, seen]
        inside = rows @ basis
        unknown = np.linalg.norm(rows - inside @ basis.T, axis=1)
        estimate = inside @ ((basis.T @ self.moment) / values[seen])
        lost = unknown > 1e-6 * np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
        return np.where(lost, np.nan, estimate)


@dataclass(frozen=True, eq=False)
class State:
    """Where an experiment stands, all of it at one moment.

    Attributes:
        head: the counters.
        said: what the policy recommends.
        looks: what the policy knew over time, the last one now; empty if it does not tell.
        counts: outcomes per arm that the policy was told.
        sums: their sum.
        planned: how many the plans would have drawn of each arm.
        drawn: how many were drawn, those without an outcome included.
        slices: the experiment in stretches.
        plan: the open plan, or None.
        eliminated: the phase in which a target was last dropped.
        events: the last events that tell something, and the last few that do not, oldest first.
        created: when it began.
        closings: when summaries were closed, and with how many pulls in all: the last ones.
        waits_for: the assignment whose outcome holds up the decision, and when it was given out.
    """

    head: Head
    said: Recommendation
    looks: tuple[Moment, ...]
    counts: Array
    sums: Array
    planned: Array
    drawn: Array
    slices: tuple[Slice, ...]
    plan: Plan | None
    eliminated: Mapping[int, int]
    events: tuple[Event, ...]
    created: float
    closings: tuple[tuple[float, int], ...]
    waits_for: tuple[int | None, float | None] = (None, None)


@dataclass(frozen=True)
class Glance:
    """What is known of an experiment without its policy.

    Attributes:
        head: the counters.
        eliminated: the phase in which a target was last dropped.
        ended: how the policy ended it, or None.
    """

    head: Head
    eliminated: Mapping[int, int]
    ended: Mapping[str, Any] | None


@dataclass
class _Log:
    """What the events said so far."""

    seen: int = 0
    created: float = 0.0
    notable: list[Event] = field(default_factory=list)
    routine: list[Event] = field(default_factory=list)
    eliminated: dict[int, int] = field(default_factory=dict)
    closings: list[tuple[float, int]] = field(default_factory=list)
    ended: dict[str, Any] | None = None

    def read(self, books: Reading) -> None:
        for event in books.events(self.seen):
            self.seen = event.number + 1
            if event.kind == "created":
                self.created = event.at
            if event.kind == "eliminated":
                for target in event.data["targets"]:
                    self.eliminated[target] = event.data["phase"]
            if event.kind == "finished":
                self.ended = event.data
            if event.kind in {"closed", "answered"}:
                before = self.closings[-1][1] if self.closings else 0
                self.closings.append((event.at, max(before, event.data["end"])))
            kept = self.routine if event.kind in _ROUTINE else self.notable
            kept.append(event)
        del self.routine[:-_KEPT_ROUTINE], self.closings[:-_KEPT_ROUTINE]
        if len(self.notable) > _KEPT_NOTABLE:
            del self.notable[1 : -_KEPT_NOTABLE + 1]  # the first says how it began

    def last(self) -> tuple[Event, ...]:
        return tuple(sorted([*self.notable, *self.routine], key=lambda event: event.number))


class Follower:
    """Keeps what is worth watching of one experiment, and brings it up to date when asked.

    A stored experiment's policy is made once more and told what is on record, so that looking
    never holds up those who ask and tell. One in memory has but one policy, which is looked at
    while nobody uses it; of the time before the first look only phases are known then.

    Args:
        problem: of the experiment. The experiment itself is not kept, so that it can be let go of.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._lock = Lock()
        self._glancing = Lock()  # of its own: a glance does not wait for a policy
        self._glanced = _Log()
        self._start()

    def _start(self) -> None:
        problem = self._problem
        self._policy: Policy | None = None
        self._told = 0
        self._phase = 1  # of the plan that was open then
        self._log = _Log()
        self._phases: dict[int, PlanRecord] = {}
        self._looks: list[Moment] = []
        self._now: Moment | None = None
        self._slices: list[Slice] = []
        self._coordinates = problem.span.coordinates(problem.source)
        self._counts, self._sums, self._planned, self._drawn = np.zeros((4, problem.arms))

    def glance(self, experiment: Experiment) -> Glance:
        """What counters and events say, without the policy."""
        with self._glancing, experiment.read() as books:
            log = self._glanced
            log.read(books)
            return Glance(replace(books.head), dict(log.eliminated), log.ended)

    def state(self, experiment: Experiment) -> State:
        """Where the experiment stands now."""
        with self._lock:
            try:
                document = experiment.spec
                if document is None:
                    return experiment.inspect(self._in_memory)
                with experiment.read() as books:
                    head, entries = self._read(books)
                if self._policy is None:
                    self._policy = document.make()
                self._follow(self._policy, entries)
                if head.planned:
                    adopt(self._policy, self._phases[head.phase].plan)
                return self._state(self._policy, head)
            except BaseException:
                self._start()
                raise

    def _in_memory(self, policy: Policy, books: Reading) -> State:
        head, entries = self._read(books)
        for entry in entries:
            self._add(entry)
            self._told = entry.number + 1
        if entries:
            self._now = self._look(policy, entries[-1].phase)
            if self._now is not None and self._due(self._now.pulls):
                self._looks.append(self._now)
        return self._state(policy, head)

    def _read(self, books: Reading) -> tuple[Head, list[SummaryRecord]]:
        self._log.read(books)
        self._waits_for = rules.waits_for(books)
        for opened in books.plans(max(self._phases, default=0) + 1):
            self._phases[opened.plan.phase] = opened
        return replace(books.head), list(books.summaries(self._told))

    def _follow(self, policy: Policy, entries: list[SummaryRecord]) -> None:
        plans = go_through(
            policy, entries, lambda phase: self._phases[phase].plan, phase=self._phase
        )
        for entry in plans:
            self._told = entry.number + 1
            self._phase = after(self._phase, entry)
            self._add(entry)
            self._now = None
            if self._due(policy.recommend().pulls):
                look = self._look(policy, entry.phase)
                if look is not None:
                    self._looks.append(look)

    def _due(self, pulls: int) -> bool:
        return not self._looks or pulls >= _APART * self._looks[-1].pulls

    def _look(self, policy: Policy, phase: int) -> Moment | None:
        found = policy.look()
        if found is None:
            return None
        recommendation = policy.recommend()
        return Moment(
            recommendation.pulls,
            phase,
            found.leader,
            recommendation.active,
            found.estimate,
            found.low,
            found.high,
            found.log_evidence,
        )

    def _add(self, entry: SummaryRecord) -> None:
        summary, plan = entry.summary, self._phases[entry.phase].plan
        self._counts += summary.counts
        self._sums += summary.rewards
        part = Slice.of(entry, self._coordinates)
        if plan.provisional and entry.late:
            # Drawn, and counted as drawn, when their phase closed.
            place = max(i for i, each in enumerate(self._slices) if each.first <= part.first)
            self._slices[place] = self._slices[place].join(part, end=self._slices[place].end)
            return
        self._drawn += summary.drawn
        self._planned += _expected(plan, summary)
        self._slices.append(part)
        if len(self._slices) > 2 * _SLICES:
            self._slices = _merged(self._slices)

    def _state(self, policy: Policy, head: Head) -> State:
        if self._now is None and self._told:
            last = max(phase for phase in self._phases if phase <= head.phase)
            self._now = self._look(policy, last)
        looks = self._looks
        if self._now is not None:
            looks = [look for look in looks if look.pulls < self._now.pulls] + [self._now]
        said = policy.recommend()
        if head.state == "stopped" and said.reason == "running":
            said = replace(said, reason="stopped")
        opened = self._phases.get(head.phase) if head.planned else None
        return State(
            head=head,
            said=said,
            looks=tuple(_thinned(looks)),
            counts=self._counts.copy(),
            sums=self._sums.copy(),
            planned=self._planned.copy(),
            drawn=self._drawn.copy(),
            slices=tuple(_merged(self._slices)),
            plan=None if opened is None else opened.plan,
            eliminated=dict(self._log.eliminated),
            events=self._log.last(),
            created=self._log.created,
            closings=tuple(self._log.closings),
            waits_for=self._waits_for,
        )


def _expected(plan: Plan, summary: Summary) -> Array:
    """How many pulls of each arm a plan would have on average, for as many as were drawn."""
    if plan.counts is not None:
        return plan.counts.astype(float)
    assert plan.weights is not None
    return np.asarray(plan.weights * float(summary.drawn.sum()))


def _merged(slices: list[Slice]) -> list[Slice]:
    """Neighbours joined while they stay short of a share of the whole."""
    if not slices:
        return []
    width = math.ceil(slices[-1].end / _SLICES)
    joined = [slices[0]]
    for each in slices[1:]:
        if each.end - joined[-1].first <= width:
            joined[-1] = joined[-1].join(each)
        else:
            joined.append(each)
    return joined


def _thinned(looks: list[Moment]) -> list[Moment]:
    if len(looks) <= _MOST_LOOKS:
        return looks
    places = np.linspace(0, len(looks) - 1, _MOST_LOOKS).round().astype(int)
    return [looks[place] for place in places]
