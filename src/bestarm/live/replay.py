"""Bringing a policy to where the books are: nothing of it is stored, all of it is replayed.

Plans on record are facts. Whoever opens, follows or replays an experiment hands its policy every
recorded plan and then its summary, through the one loop `go_through`; no design is solved for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bestarm.errors import ProtocolError, ReplayError
from bestarm.live.store.contract import Entry, Reading
from bestarm.policies.policy import Policy
from bestarm.records import Plan, Summary

__all__ = ["Player", "adopt", "after", "go_through", "recorded_plans", "tell"]


class Player:
    """A policy, and how many of the recorded summaries it has been told.

    Args:
        make: makes the policy as it was at the start, or is the policy itself where no other can
            be made.
    """

    def __init__(self, make: Callable[[], Policy] | Policy) -> None:
        self._make = None if isinstance(make, Policy) else make
        self._policy = make if isinstance(make, Policy) else None
        self._told = 0
        self._phase = 1  # of the plan that was open then
        self._adopted = 0  # the phase whose plan on record it has adopted
        self._asked: tuple[int, Plan | None] | None = None

    def policy(self, books: Reading) -> Policy:
        """The policy as it stands by the books, with the plan that is open on record.

        Raises:
            ReplayError: it refuses a plan or a summary that is on record.
        """
        if self._policy is None:
            assert self._make is not None
            self._policy, self._told, self._phase, self._adopted = self._make(), 0, 1, 0
        policy, head = self._policy, books.head
        try:
            if self._told < head.summaries:
                entries, plan_of = books.entries(self._told), recorded_plans(books)
                for entry in go_through(policy, entries, plan_of, phase=self._phase):
                    self.told(entry)
            # A policy in memory made all plans on record itself.
            if self._make is not None and head.planned and self._adopted != head.phase:
                adopt(policy, books.opened(head.phase).plan)
                self._adopted, self._asked = head.phase, None
        except BaseException:
            self.forget()
            raise
        return policy

    def plan(self) -> Plan | None:
        """What the policy plans next, for which it is asked once."""
        assert self._policy is not None
        if self._asked is None or self._asked[0] != self._told:
            self._asked = self._told, self._policy.plan()
        return self._asked[1]

    def told(self, entry: Entry) -> None:
        """Note that the policy has been told a summary."""
        self._told = entry.number + 1
        self._phase = after(self._phase, entry)

    def forget(self) -> None:
        """Start over from the first summary the next time, if the policy can be made again."""
        self._asked = None
        if self._make is not None:
            self._policy = None


def go_through(
    policy: Policy, entries: Iterable[Entry], plan_of: Callable[[int], Plan], *, phase: int = 1
) -> Iterator[Entry]:
    """Bring a policy on: for every entry, adopt the plan on record and tell the summary.

    Gives each entry after it was told. The next plan is adopted no sooner than the next entry is
    asked for.

    Args:
        policy: the policy; it was told all entries before these.
        entries: summaries in the order told.
        plan_of: gives the plan on record of a phase.
        phase: of the plan that was open when the first of them was told.

    Raises:
        ReplayError: the policy refuses a plan or a summary.
    """
    adopted = 0
    for entry in entries:
        if phase != adopted:
            adopt(policy, plan_of(phase))
            adopted = phase
        try:
            tell(policy, entry.summary, phase=entry.phase, late=entry.late)
        except ProtocolError as error:
            raise _refused(f"summary {entry.number}", error) from error
        phase = after(phase, entry)
        yield entry


def recorded_plans(books: Reading) -> Callable[[int], Plan]:
    """Gives the plan on record of a phase; those after it are read along with it."""
    read: dict[int, Plan] = {}

    def plan_of(phase: int) -> Plan:
        if phase not in read:
            read.update((opened.plan.phase, opened.plan) for opened in books.phases(phase))
        # A plan that is missing: `opened` says what is wrong.
        return read[phase] if phase in read else books.opened(phase).plan

    return plan_of


def adopt(policy: Policy, plan: Plan) -> None:
    """Hand a policy a plan on record.

    Raises:
        ReplayError: it cannot be the policy's next plan.
    """
    try:
        policy.adopt(plan)
    except ProtocolError as error:
        raise _refused(f"the plan of phase {plan.phase}", error) from error


def after(phase: int, entry: Entry) -> int:
    """The phase that is open after a summary, if this one was before it."""
    return phase if entry.late else entry.phase + 1


def tell(policy: Policy, summary: Summary, *, phase: int, late: bool) -> None:
    """Tell a policy a summary of a phase; late if the phase had closed before."""
    if late:
        policy.amend(summary, phase=phase)
    else:
        policy.update(summary)


def _refused(what: str, error: ProtocolError) -> ReplayError:
    return ReplayError(
        f"Replayed, the policy refuses {what} on record: {error.message}",
        field="replay",
        value=error.value,
        remedy="Go on with the version of bestarm, or of your own policy, that began the trial; "
        "`bestarm experiment verify` says whether the record was changed.",
    )
