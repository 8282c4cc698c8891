"""Runs whose outcomes are known some rounds after their pulls, as a live experiment makes them.

The outcome of a pull in round t is known before round t + delay. A round makes one pull, unless the
plan allows no further one: then it only waits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bestarm.environments import kernels
from bestarm.environments.environment import ForeseeableStream, Pulls, Stream
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.records import Plan, Summary

if TYPE_CHECKING:
    from bestarm.policies.policy import Policy
    from bestarm.simulation.engine import GoOn, Observe

_NEARLY_ALL = 16  # outcomes that came for each that is outstanding: as in a live experiment


def carry_out_late(
    policy: Policy, stream: Stream, delay: int, *, observe: Observe | None, go_on: GoOn | None
) -> tuple[int, int, int, bool]:
    """Carry out open plans on a stream whose outcomes are late; see `carry_out`.

    While a plan waits, the baseline of the stream stands still.
    """
    if not isinstance(stream, ForeseeableStream):
        what = "This environment does not tell its single pulls, which late outcomes need."
        remedy = "Give its streams a method `pull_less(plan, foresee)`, or leave `delay` out."
        raise InvalidInputError(what, field="delay", value=delay, remedy=remedy)
    run, plans = _Run(policy, stream, delay), 0
    while (plan := policy.plan()) is not None:
        if go_on is not None and not go_on(run.pulls, plans, plan):
            return run.pulls, run.round, plans, False
        run.carry_out(plan)
        plans += 1
        if observe is not None:
            observe(policy)
    return run.pulls, run.round, plans, True


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
    arms: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    rewards: Array = field(default_factory=lambda: np.empty(0))

    def draw(self, stream: ForeseeableStream, end: int) -> None:
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

        stream.pull_less(replace(self.plan, pulls=count), keep)
        self.arms, self.rewards = np.concatenate(arms), np.concatenate(rewards)

    def summary(self, start: int, known: int, end: int) -> Summary:
        """Of the pulls from `start` on: outcomes below `known`, the others up to `end` pending."""
        plan, places = self.plan, [number - self.first for number in (start, known, end)]
        totals, done = kernels.Totals.empty(plan.arms), slice(*places[:2])
        kernels.add_up(self.arms[done], self.rewards[done], plan.center, tuple(totals))
        pending = np.bincount(self.arms[slice(*places[1:])], minlength=plan.arms)
        return Summary(**totals.known(), pending=pending, center=plan.center)


class _Run:
    """What was pulled, what of it is known, and what the policy was told.

    Pulls have the numbers 0, 1, …; outcomes become known in this order.
    """

    def __init__(self, policy: Policy, stream: ForeseeableStream, delay: int) -> None:
        self._policy, self._stream, self._delay = policy, stream, delay
        self.round = self.pulls = 0  # so far
        self._known = 0  # outcomes
        self._told = 0  # outcomes that were told, where plans are provisional
        self._summarised = 0  # pulls that summaries cover
        self._phases: deque[_Phase] = deque()  # with pulls that were not told; the last is open
        # Rounds from which on every round makes a pull, and the rounds without a pull before each.
        self._resumed, self._waited = [0], [0]

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
            closed = self._tell_provisional() if plan.provisional else self._tell()
            closed = closed or self._policy.has_stopped()

    @property
    def _capacity(self) -> int | None:
        """How many further pulls the plan allows; None for any number."""
        phase = self._phases[-1]
        limit, plan = phase.limit, phase.plan
        if limit is None:
            return None
        if not plan.provisional and self._summarised >= phase.first:
            limit = max(limit, plan.pulls)  # its own pulls are needed
        return max(0, limit - (self.pulls - phase.first))

    def _advance(self) -> None:
        """Go on to the first round before which the policy is to be told something."""
        plan, capacity = self._phases[-1].plan, self._capacity
        waited = self.round - self.pulls
        if waited != self._waited[-1] and capacity != 0:
            self._resumed.append(self.round)
            self._waited.append(waited)
        rounds = range(self.round, self.round + plan.pulls + self._delay + 1)
        found = bisect_left(rounds, True, key=lambda at: self._due(*self._counts(at, capacity)))
        if found == len(rounds):
            message = f"The plan of phase {plan.phase} can never be carried out."
            remedy = "Its `most` must be at least its `pulls`."
            raise ProtocolError(message, field="most", value=plan.most, remedy=remedy)
        self.pulls, self._known = self._counts(rounds[found], capacity)
        self.round = rounds[found]
        self._phases[-1].draw(self._stream, self.pulls)

    def _counts(self, at: int, capacity: int | None) -> tuple[int, int]:
        """How many pulls are made and how many outcomes known before a round."""
        made = at - self.round
        pulls = self.pulls + (made if capacity is None else min(made, capacity))
        last = at - self._delay  # the last round whose outcome is known
        place = bisect_right(self._resumed, last) - 1
        if place < 0:
            return pulls, 0
        known = last + 1 - self._waited[place]
        if place + 1 < len(self._resumed):
            pulls_then = self._resumed[place + 1] - self._waited[place + 1]
            return pulls, min(known, pulls_then)
        return pulls, min(known, pulls)

    def _due(self, pulls: int, known: int) -> bool:
        """Whether the policy is to be told something: as `Head.has_pending_step`."""
        phase = self._phases[-1]
        wanted, before = phase.plan.pulls, max(phase.first - known, 0)
        if phase.plan.provisional:
            arrived = min(known, phase.first) - self._told
            if arrived > 0 and arrived >= min(wanted, _NEARLY_ALL * before):
                return True
            return min(pulls - phase.first, known - phase.known) >= wanted
        if self._summarised < phase.first:
            return not before
        return known - phase.first >= wanted

    def _tell_provisional(self) -> bool:
        """Tell the policy outcomes of earlier phases, and close the phase if it is to be closed."""
        phase = self._phases[-1]
        end = min(self._known, phase.first)
        while self._told < end:
            oldest, after = self._phases[0], self._phases[1].first
            known = min(end, after)
            if self._told < known:
                summary = oldest.summary(self._told, known, known)
                self._policy.amend(summary, phase=oldest.plan.phase)
                self._told = known
                if self._policy.has_stopped():
                    return False
            if known == after:
                self._phases.popleft()
        if min(self.pulls - phase.first, self._known - phase.known) < phase.plan.pulls:
            return False
        known = max(self._known, phase.first)
        self._policy.update(phase.summary(phase.first, known, self.pulls))
        self._told, self._summarised = self._known, self.pulls
        return True

    def _tell(self) -> bool:
        """Tell the policy the pulls beyond the plan before, or close the phase."""
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
