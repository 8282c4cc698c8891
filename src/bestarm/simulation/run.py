"""One run: the plans of a policy carried out on a stream, with outcomes at once or delayed.

With a delay, the outcome of a pull in round t is known before round t + delay, as in a live
experiment with a window. A round makes one pull, unless the plan allows no further one: then it
only waits.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from bestarm.environments import Stream
from bestarm.environments.environment import AdjustableStream, Pulls
from bestarm.environments.streams import Arms, Totals
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Group, Policy
from bestarm.presampled import PresampledRewards
from bestarm.records import Plan, Summary

Observe = Callable[[Policy], object]
MayContinue = Callable[[int, int, Plan], bool]

_CHUNK, _LONGEST_CHUNK = 2**10, 2**16  # rounds presampled at a time: few for short runs, then more
_LONGEST_SIDE_BY_SIDE = 2**12  # the same where many runs keep theirs at the same time
_NEARLY_ALL = 16  # outcomes that came for each that is outstanding: as in a live experiment


class NoPresampledRewardsError(Exception):
    """The rewards of a run among others cannot be known ahead: it must be made alone."""


@runtime_checkable
class PresamplingStream(Stream, Protocol):
    """A stream with the further methods that `Stream` describes."""

    def presample(self, rounds: int) -> PresampledRewards | None:
        """The rewards of the next rounds, or of those that are left."""
        ...

    def skip(self, rounds: int) -> None:
        """Advance by this many of these rounds."""
        ...


class RunLength(NamedTuple):
    """How far a run went: its pulls, rounds and plans, and whether it ended by itself."""

    pulls: int
    rounds: int
    plans: int
    finished: bool


def run_policy(
    policy: Policy,
    stream: Stream,
    *,
    delay: int = 0,
    observe: Observe | None = None,
    may_continue: MayContinue | None = None,
) -> RunLength:
    """Carry out the plans of a policy on a stream.

    With a delay, an open plan is extended while outcomes are outstanding; every closed one waits
    for its last outcome.

    A policy that runs on presampled rewards makes many rounds at a time, each for a plan.
    `observe` is called with the policy after every plan; `may_continue` before every plan with the
    pulls and plans so far, and the plan: False ends the run there.
    """
    if delay > 1 and (first := policy.plan()) is not None and first.open:
        return _run_delayed(policy, stream, delay, observe, may_continue)
    waiting = max(delay - 1, 0)  # rounds after the last pull of a plan
    pulls, rounds, plans, chunk = 0, 0, 0, _CHUNK
    presamples = isinstance(stream, PresamplingStream) and observe is None
    presamples = presamples and policy.traits.runs_presampled
    skips = presamples and may_continue is None  # plans are made only where it asks for one
    while True:
        plan = None if skips else policy.plan()
        if policy.has_stopped() if skips else plan is None:
            break
        if plan is not None and may_continue is not None and not may_continue(pulls, plans, plan):
            return RunLength(pulls, rounds, plans, finished=False)
        if presamples and isinstance(stream, PresamplingStream):
            presampled = stream.presample(chunk)
            chunk = min(2 * chunk, _LONGEST_CHUNK)
            used, made = (0, 0) if presampled is None else policy.run_presampled(presampled)
            if used:
                stream.skip(used)
                pulls += used
                rounds += used + made * waiting
                plans += made
                continue
        plan = plan or policy.plan()
        assert plan is not None  # it is not finished
        policy.update(stream.pull(plan))
        pulls += plan.pulls
        rounds += plan.rounds + waiting
        plans += 1
        if observe is not None:
            observe(policy)
    return RunLength(pulls, rounds, plans, finished=True)


def run_side_by_side(group: Group, streams: Sequence[PresamplingStream]) -> Iterator[int]:
    """Carry out runs side by side, each on a stream of its own, and yield them as they end.

    Raises:
        NoPresampledRewardsError: the rewards of a stream cannot be known ahead.
        Exception: a run needs more rounds than its stream has left; raised by the stream.
    """
    chunks, running, arms = np.full(len(streams), _CHUNK // 2), group.running.copy(), 0
    lacking = dict.fromkeys(range(len(streams)), (0, 0))
    while lacking:
        rewards = []
        for run, (used, needed) in lacking.items():
            streams[run].skip(used)
            chunks[run] = max(min(2 * chunks[run], _LONGEST_SIDE_BY_SIDE), 2 * needed)
            given = streams[run].presample(int(chunks[run]))
            if given is None and not needed:
                raise NoPresampledRewardsError
            if given is None or len(given.rows) < needed:
                raise _end_of_rounds(streams[run], arms, needed)
            arms = given.table.shape[1]
            rewards.append(given)
        try:
            group.run_presampled(np.array(list(lacking)), rewards)
        finally:  # what has ended counts, if it is interrupted too
            ended = np.flatnonzero(running & ~group.running)
            running = group.running.copy()
            yield from ended.tolist()
        lacking = group.wanted()


def _end_of_rounds(stream: Stream, arms: int, rounds: int) -> ProtocolError:
    """Let a stream raise that it has not so many rounds left. If it has: the error to raise.

    (To begin the run again by plans, which draw other numbers, would favour short runs.)
    """
    stream.pull(Plan.randomised(np.full(arms, 1 / arms), rounds, phase=1))
    return ProtocolError(
        f"The stream presamples fewer than {rounds} rounds, although as many are left.",
        field="presample",
        value=rounds,
        remedy="Return as many as are asked for, or all that are left.",
    )


def _run_delayed(
    policy: Policy,
    stream: Stream,
    delay: int,
    observe: Observe | None,
    may_continue: MayContinue | None,
) -> RunLength:
    """Carry out open plans with delayed outcomes. The baseline stands still while a plan waits."""
    if not isinstance(stream, AdjustableStream):
        what = "This environment does not tell its single pulls, which delayed outcomes need."
        remedy = "Give its streams a method `pull_adjusted(plan, forecast)`, or leave `delay` out."
        raise InvalidInputError(what, field="delay", value=delay, remedy=remedy)
    run, plans = _DelayedRun(policy, stream, delay), 0
    while (plan := policy.plan()) is not None:
        if may_continue is not None and not may_continue(run.pulls, plans, plan):
            return RunLength(run.pulls, run.round, plans, finished=False)
        run.carry_out(plan)
        plans += 1
        if observe is not None:
            observe(policy)
    return RunLength(run.pulls, run.round, plans, finished=True)


@dataclass(slots=True)
class _Phase:
    """A plan and its pulls.

    Attributes:
        plan: the plan.
        first: the number of its first pull.
        known: how many outcomes were known when it was opened.
        limit: the number of pulls it may be extended to, less the pulls before it that no summary
            covered when it was opened; None for any number.
        arms: the arms of its pulls.
        rewards: their rewards.
    """

    plan: Plan
    first: int
    known: int
    limit: int | None
    arms: Arms = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    rewards: Array = field(default_factory=lambda: np.empty(0))

    def draw(self, stream: AdjustableStream, end: int) -> None:
        """Make all pulls with numbers below `end`. Those of a closed plan are made together."""
        missing = end - self.first - len(self.arms)
        if missing <= 0:
            return
        count = missing if self.plan.open else self.plan.pulls
        arms, rewards = [self.arms], [self.rewards]

        def keep(pulls: Pulls, _plan: Plan) -> Array:
            arms.append(pulls.arms.copy())  # a stream may use the array again
            rewards.append(pulls.rewards.copy())
            return np.zeros(len(pulls.arms))

        stream.pull_adjusted(replace(self.plan, pulls=count), keep)
        self.arms, self.rewards = np.concatenate(arms), np.concatenate(rewards)

    def summary(self, start: int, known: int, end: int) -> Summary:
        """Of the pulls from `start` on: outcomes below `known`, the others up to `end` pending."""
        plan, places = self.plan, [number - self.first for number in (start, known, end)]
        totals, known_pulls = Totals.empty(plan.arms), slice(*places[:2])
        totals.add(self.arms[known_pulls], self.rewards[known_pulls], plan.center)
        pending = np.bincount(self.arms[slice(*places[1:])], minlength=plan.arms)
        return Summary(**totals.by_name(), pending=pending, center=plan.center)


class _DelayedRun:
    """What was pulled, what of it is known, and what was reported to the policy.

    Pulls have the numbers 0, 1, …; outcomes become known in this order.
    """

    def __init__(self, policy: Policy, stream: AdjustableStream, delay: int) -> None:
        self._policy, self._stream, self._delay = policy, stream, delay
        self.round = self.pulls = 0  # so far
        self._known = 0  # outcomes
        self._reported = 0  # outcomes that the policy knows, where plans are provisional
        self._summarised = 0  # pulls that summaries cover
        self._phases: deque[_Phase] = deque()  # with unreported pulls; the last one is open
        self._rounds = array("q")  # of all pulls

    def carry_out(self, plan: Plan) -> None:
        """Carry out a plan until it closes, or the policy stops."""
        if plan.size > 1:
            what = "Rounds of several pulls cannot be simulated with a delay."
            raise InvalidInputError(what, field="delay", value=self._delay, remedy="Leave it out.")
        limit = plan.most if plan.open else plan.pulls
        if limit is not None and plan.open:
            limit = max(0, limit - (self.pulls - self._summarised))
        self._phases.append(_Phase(plan, self.pulls, self._known, limit))
        closed = False
        while not closed:
            self._advance()
            closed = self._report_provisional() if plan.provisional else self._report()
            closed = closed or self._policy.has_stopped()

    @property
    def _capacity(self) -> int:
        """How many further pulls the plan allows."""
        phase = self._phases[-1]
        limit, plan = phase.limit, phase.plan
        if limit is None:
            return sys.maxsize
        if not plan.provisional and self._summarised >= phase.first:
            limit = max(limit, plan.pulls)  # its own pulls are needed
        return max(0, limit - (self.pulls - phase.first))

    def _advance(self) -> None:
        """Go on to the first round before which a report is due."""
        plan, capacity = self._phases[-1].plan, self._capacity
        rounds = range(self.round, self.round + plan.pulls + self._delay + 1)
        found = bisect_left(
            rounds, True, key=lambda at: self._has_pending_report(*self._counts(at, capacity))
        )
        if found == len(rounds):
            message = f"The plan of phase {plan.phase} can never be carried out."
            remedy = "Its `most` must be at least its `pulls`."
            raise ProtocolError(message, field="most", value=plan.most, remedy=remedy)
        before, (self.pulls, self._known) = self.pulls, self._counts(rounds[found], capacity)
        self._rounds.extend(range(self.round, self.round + self.pulls - before))
        self.round = rounds[found]
        self._phases[-1].draw(self._stream, self.pulls)

    def _counts(self, at: int, capacity: int) -> tuple[int, int]:
        """How many pulls are made and how many outcomes known before a round."""
        new = min(at - self.round, capacity)  # one per round from `self.round` on
        last = at - self._delay  # the last round whose outcome is known
        new_known = min(max(last + 1 - self.round, 0), new)
        return self.pulls + new, bisect_right(self._rounds, last) + new_known

    def _has_pending_report(self, pulls: int, known: int) -> bool:
        """Whether the policy is to be told something: as `Head.stage`."""
        phase = self._phases[-1]
        wanted, before = phase.plan.pulls, max(phase.first - known, 0)
        if phase.plan.provisional:
            arrived = min(known, phase.first) - self._reported
            if arrived > 0 and arrived >= min(wanted, _NEARLY_ALL * before):
                return True
            return min(pulls - phase.first, known - phase.known) >= wanted
        if self._summarised < phase.first:
            return not before
        return known - phase.first >= wanted

    def _report_provisional(self) -> bool:
        """Report outcomes of earlier phases, and close the phase if it has enough; whether so."""
        phase = self._phases[-1]
        end = min(self._known, phase.first)
        while self._reported < end:
            oldest, after = self._phases[0], self._phases[1].first
            known = min(end, after)
            if self._reported < known:
                summary = oldest.summary(self._reported, known, known)
                self._policy.amend(summary, phase=oldest.plan.phase)
                self._reported = known
                if self._policy.has_stopped():
                    return False
            if known == after:
                self._phases.popleft()
        if min(self.pulls - phase.first, self._known - phase.known) < phase.plan.pulls:
            return False
        known = max(self._known, phase.first)
        self._policy.update(phase.summary(phase.first, known, self.pulls))
        self._reported, self._summarised = self._known, self.pulls
        return True

    def _report(self) -> bool:
        """Report the pulls beyond the previous plan, or close the phase; whether it is closed."""
        phase = self._phases[-1]
        if self._summarised < phase.first:
            before = self._phases.popleft()
            summary = before.summary(self._summarised, phase.first, phase.first)
            self._policy.amend(summary, phase=before.plan.phase)
            self._summarised = phase.first
            return False
        if len(self._phases) > 1:
            self._phases.popleft()
        self._policy.update(phase.summary(phase.first, self._known, self._known))
        self._summarised = self._known
        return True
