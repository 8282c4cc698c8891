"""Bringing a policy to where the books are: nothing of it is stored, all of it is replayed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bestarm.errors import ReplayError
from bestarm.live.ledger import Entry, Reading
from bestarm.policies.policy import Policy
from bestarm.records import Plan, Summary

__all__ = ["Player", "after", "check_plan", "tell"]

# Plans are computed in floating point: another processor may differ in the last digits.
_SAME = 1e-6


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
        self._asked: tuple[int, Plan | None] | None = None

    def policy(self, books: Reading) -> Policy:
        """The policy as it stands by the books.

        Raises:
            ReplayError: it plans, or ends, otherwise than the books say it did.
        """
        if self._policy is None:
            assert self._make is not None
            self._policy, self._told, self._phase = self._make(), 0, 1
        policy = self._policy
        if self._told < books.head.summaries:
            try:
                for entry in books.entries(self._told):
                    # Asked for its plan as then, for it may fix the plan when it is first asked.
                    check_plan(policy.plan(), books.opened(self._phase).plan)
                    tell(policy, entry.summary, phase=entry.phase, late=entry.late)
                    self.told(entry)
                if books.head.planned:
                    check_plan(policy.plan(), books.opened(books.head.phase).plan)
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


def check_plan(planned: Plan | None, recorded: Plan) -> None:
    """Raise unless a plan is the one on record."""
    if planned is not None and _agree(planned, recorded):
        return
    said = "stops" if planned is None else f"plans {planned.pulls} pulls"
    raise ReplayError(
        f"Replayed, the policy {said} where phase {recorded.phase} of {recorded.pulls} pulls "
        "is on record, or draws arms with other probabilities.",
        field="phase",
        value=recorded.phase,
        remedy="Go on with the version of bestarm, or of your own policy, that began the trial; "
        "`bestarm experiment verify` says whether the record was changed.",
    )


def after(phase: int, entry: Entry) -> int:
    """The phase that is open after a summary, if this one was before it."""
    return phase if entry.late else entry.phase + 1


def tell(policy: Policy, summary: Summary, *, phase: int, late: bool) -> None:
    """Tell a policy a summary of a phase; late if the phase had closed before."""
    if late:
        policy.amend(summary, phase=phase)  # type: ignore[attr-defined]
    else:
        policy.update(summary)


def _agree(one: Plan, other: Plan) -> bool:
    shape = (one.phase, one.pulls, one.open, one.most)
    if shape != (other.phase, other.pulls, other.open, other.most):
        return False
    if one.counts is not None and other.counts is not None:
        return np.array_equal(one.counts, other.counts)
    if one.weights is None or other.weights is None:
        return False
    return bool(np.allclose(one.weights, other.weights, rtol=0, atol=_SAME))
