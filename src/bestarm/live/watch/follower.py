"""Keeping up with an experiment: what is worth watching, read off its summaries as they come.

Everything here is made from plans, summaries and events, never from single outcomes, and only from
those that are new since the last time: watching costs what the last phases do, however long the
experiment is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from bestarm.live.experiment import Experiment
from bestarm.live.guardrails import GuardrailReplayer, GuardrailRow
from bestarm.live.options import Options
from bestarm.live.replay import PolicyReplayer, recommend
from bestarm.live.spec import Spec
from bestarm.live.standings import rates_of
from bestarm.live.state import waits_for
from bestarm.live.store.head import Head
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import Event, SummaryRecord
from bestarm.live.watch.story import count_routine, is_routine
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Look, Policy, Rates
from bestarm.recommendation import Phase, Recommendation
from bestarm.records import Plan

T = TypeVar("T", Look, Rates)

_APART = 1.15  # pulls from one look to the next, as a ratio
_SLICES = 24
_CLOSINGS = 12  # kept, of the last summaries


@dataclass(frozen=True, eq=False)
class PolicySnapshot:
    """What a policy knew after so many pulls."""

    pulls: int
    active: tuple[int, ...]  # the targets that were left; of a phase, those that it compared
    look: Look  # what it knew of all targets
    phase: int | None = None  # that ended then, if each phase estimates afresh

    def widened(self, targets: int) -> PolicySnapshot:
        """The same with targets that were added since, of which nothing was known."""
        look = _known(self.look, targets, "estimate", "low", "high")
        return replace(self, look=_known(look, targets, "log_evidence", value=0.0))


def _known(values: T, targets: int, *names: str, value: float = math.nan) -> T:
    """What a policy knows, with a value for targets that it does not know of yet."""
    parts: dict[str, Any] = {
        name: _widened(getattr(values, name), targets, value) for name in names
    }
    return replace(values, **parts)


def _widened(part: Array, size: int, value: float = 0.0) -> Array:
    return np.pad(part, (0, size - len(part)), constant_values=value)


@dataclass(eq=False)
class Slice:
    """A stretch of the experiment: totals of the outcomes told."""

    first: int  # the id of the first assignment in it
    end: int  # the id after the last
    counts: Array
    sums: Array
    pending: int  # assignments in it whose outcome is outstanding

    @classmethod
    def of(cls, entry: SummaryRecord, arms: int) -> Slice:
        """One summary, of so many arms or fewer."""
        counts = entry.summary.widened(arms).counts.astype(float)
        sums = entry.observed.widened(arms).rewards
        return cls(entry.first, entry.end, counts, sums, entry.summary.pending_pulls)

    def widen(self, arms: int) -> None:
        """Make room for arms that were added since."""
        self.counts, self.sums = (_widened(part, arms) for part in (self.counts, self.sums))

    def join(self, other: Slice, sign: int = 1) -> Slice:
        """This one and another that follows it or lies within it; with sign −1, less that one."""
        names = ("counts", "sums", "pending")
        totals = (getattr(self, name) + sign * getattr(other, name) for name in names)
        return Slice(self.first, max(self.end, other.end), *totals)


@dataclass
class Log:
    """What counters and events say, without the policy."""

    head: Head = field(default_factory=Head)
    created: float = 0.0  # when the experiment began
    story: list[Event] = field(default_factory=list)  # the events that tell something
    routine: Counter[str] = field(default_factory=Counter)  # what happened besides, by kind
    # The phase whose outcomes dropped each target; if they came late, a later one was open.
    eliminated: dict[int, int] = field(default_factory=dict)
    retired: int = 0  # options
    # When the last summaries were closed, and with how many pulls in all.
    closings: list[tuple[float, int]] = field(default_factory=list)
    end: dict[str, Any] | None = None  # how the policy ended it
    alarms: set[str] = field(default_factory=set)  # health checks that are alarms
    stalled: float = -math.inf  # when it stalled last
    resumed: float = -math.inf  # when it was resumed last

    def read(self, snapshot: Snapshot) -> None:
        """Read the counters, and the events that are new."""
        for event in snapshot.events(self.head.events):
            if event.kind == "created":
                self.created = event.at
            if event.kind == "eliminated":
                self.eliminated |= dict.fromkeys(event.data["targets"], event.data["phase"])
            self.retired += event.kind == "retired"
            if event.kind == "finished":
                self.end = event.data
            if event.kind == "alarm":
                self.alarms.add(event.data["check"])
            if event.kind == "cleared":
                self.alarms.discard(event.data["check"])
            if event.kind == "stalled":
                self.stalled = event.at
            if event.kind == "resumed":
                self.resumed = event.at
            if event.kind in {"closed", "answered"}:
                before = self.closings[-1][1] if self.closings else 0
                self.closings.append((event.at, max(before, event.data["end"])))
            if is_routine(event):
                self.routine[event.kind] += count_routine(event)
            else:
                self.story.append(event)
        del self.closings[:-_CLOSINGS]
        self.head = snapshot.head.copy()


class Follower:
    """What is worth watching of one experiment, all of it at the moment of the last update.

    The policy is made once more and told what is on record, so that looking never holds up those
    who ask and tell. The experiment itself is not kept, so that it can be let go of.
    """

    recommendation: Recommendation
    known: int  # the number of targets that the policy knows of: not one that was just added
    plan: Plan | None
    # The assignment whose outcome holds up the decision, and when it was given out.
    waits_for: tuple[int | None, float | None]

    def __init__(self, spec: Spec) -> None:
        problem = spec.problem
        self.log = Log()
        self.options = Options(problem, spec.traits)
        # What the policy knew over time, the last one now, or else what each phase estimated.
        self.looks: list[PolicySnapshot] = []
        self.slices: list[Slice] = []  # the experiment in stretches
        self.counts, self.sums = np.zeros((2, problem.arms))  # of outcomes that the policy was told
        self.planned, self.drawn = np.zeros((2, problem.arms))  # pulls, with those without outcome
        self.binary = spec.traits.bounds == (0, 1)  # whether every outcome so far is 0 or 1
        self.rates: Rates | None = None
        self.block = 1  # the most assignments that a round had
        self.guardrails: tuple[GuardrailRow, ...] = ()  # one per guardrail and option
        self._guards = (
            GuardrailReplayer(spec.guardrails, problem.arms, spec.traits)
            if spec.guardrails
            else None
        )
        self._replayer = PolicyReplayer(spec)
        self._plans: dict[int, Plan] = {}
        self._kept: list[PolicySnapshot] = []
        # The policy's present look and rates, kept because many options take seconds to compute.
        self._now: tuple[tuple[PolicySnapshot, ...], Rates | None] | None = None
        self._parts: list[Slice] = []
        self._waiting: dict[int, Slice] = {}  # rounds with outcomes that were outstanding, by phase

    def update(self, experiment: Experiment) -> None:
        """Read what is new. After an error, start again with another follower."""
        with experiment.read() as snapshot:
            self.log.read(snapshot)
            self.waits_for = waits_for(snapshot)
            self._widen(experiment.options_at(snapshot))
            for policy, step in self._replayer.follow(snapshot):
                self._now = None
                if isinstance(step, Plan):
                    self._plans[step.phase] = step
                    self.block = max(self.block, step.size)
                    continue
                if isinstance(step, SummaryRecord):
                    self._add(step)
                if not self._kept or policy.recommend().pulls >= _APART * self._kept[-1].pulls:
                    self._kept += _look(policy)
            policy, head = self._replayer.policy(snapshot), self.log.head
            if self._guards is not None:
                known = self.options.problem.target_labels, self.options.retired
                self.guardrails = tuple(self._guards.table(snapshot, *known))
        self.recommendation, self.known = recommend(policy, head.state), policy.problem.targets
        self.plan = self._plans[head.phase] if head.planned else None
        self.slices = _merged(self._parts)
        before = [each for each in self._kept if each.pulls < self.recommendation.pulls]
        targets = self.options.problem.targets
        if self._now is None:
            looks = tuple(_look(policy)) if head.summaries else ()
            self._now = looks, rates_of(policy, targets)
        now, rates = self._now
        self.rates = None if rates is None else _known(rates, targets, "estimate", "low", "high")
        self.looks = [each.widened(targets) for each in (*before, *now)]
        self.looks = self.looks or _phases(self.recommendation.trace, targets)

    def _widen(self, options: Options) -> None:
        """Make room for options that were added since."""
        self.options, arms = options, options.problem.arms
        if len(self.counts) < arms:
            for part in (*self._parts, *self._waiting.values()):
                part.widen(arms)
            for name in ("counts", "sums", "planned", "drawn"):
                setattr(self, name, _widened(getattr(self, name), arms))

    def _add(self, record: SummaryRecord) -> None:
        arms = len(self.counts)
        summary, plan = record.summary.widened(arms), self._plans[record.phase].widened(arms)
        part = whole = Slice.of(record, arms)
        self.binary = self.binary and record.observed.is_binary
        if plan.size > 1 and plan.provisional:
            # A later summary has all rounds of the phase once more.
            if record.late:
                part = whole.join(self._waiting.pop(record.phase), -1)
            if summary.pending.any():
                self._waiting[record.phase] = whole
        elif plan.provisional and record.late:
            part.pending = -int(summary.drawn.sum())
        self.counts += part.counts
        self.sums += part.sums
        if plan.provisional and record.late:
            # Drawn, and counted as drawn, when their phase closed.
            place = max(i for i, each in enumerate(self._parts) if each.first <= part.first)
            self._parts[place] = self._parts[place].join(part)
            return
        self.drawn += summary.drawn
        self.planned += plan.shares * summary.drawn.sum()
        self._parts.append(part)
        if len(self._parts) > 2 * _SLICES:
            self._parts = _merged(self._parts)


def _look(policy: Policy) -> Iterator[PolicySnapshot]:
    """What the policy knows now, if it tells; nothing before the first pulls."""
    recommendation = policy.recommend()
    if recommendation.pulls and (look := policy.look()) is not None:
        yield PolicySnapshot(recommendation.pulls, recommendation.active, look)


def _phases(trace: Sequence[Phase], targets: int) -> list[PolicySnapshot]:
    """What each phase estimated of the targets that it compared; NaN for the others."""
    snapshots, pulls = [], 0
    for phase in trace:
        pulls += phase.pulls
        estimate, radius, evidence = np.full((3, targets), np.nan)
        estimate[list(phase.active)], radius[list(phase.active)] = phase.contrasts, phase.radii
        look = Look(phase.leader, estimate, estimate - radius, estimate + radius, evidence)
        snapshots.append(PolicySnapshot(pulls, phase.active, look, phase.phase))
    return snapshots


def _merged(slices: list[Slice]) -> list[Slice]:
    """Neighbours joined while they stay short of a share of the whole."""
    width = math.ceil(slices[-1].end / _SLICES) if slices else 0
    return joined(slices, lambda last, each: each.end - last.first <= width)


def joined(slices: Iterable[Slice], short: Callable[[Slice, Slice], bool]) -> list[Slice]:
    """Slices, each joined with those after it as long as both are short."""
    found: list[Slice] = []
    for each in slices:
        if found and short(found[-1], each):
            found[-1] = found[-1].join(each)
        else:
            found.append(each)
    return found
