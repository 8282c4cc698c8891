"""The protocol every method follows: a small state machine that plans, is told totals, recommends.

Same problem, same seed and same summaries give the same plans on any machine. Nothing of a policy
is pickled: recovery is replaying its summaries.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bestarm.errors import ProtocolError
from bestarm.problem import Problem
from bestarm.records import Plan, Recommendation, Summary

__all__ = ["Method", "Policy", "has_stopped"]


@runtime_checkable
class Policy(Protocol):
    """What an engine, a store or a route may ask of a method; none of them knows which it is.

    A policy whose plans are short may have one more method, which simulations then use where the
    rewards to come do not depend on what is pulled:

        follow(table, rows, common) -> tuple[int, int]
            Given that arm a pays `table[rows[i], a] + common[i]` at the i-th round to come, do what
            as many whole plans would, from the first of these rounds on. Returns the numbers of
            pulls made and of plans they stand for; (0, 0), with nothing changed, asks for the next
            plan to be carried out as usual. It looks only at rounds that it uses.

    One whose plans are open has one more method as well:

        amend(summary, phase) -> None
            Take further outcomes of pulls that were drawn under the plan of an earlier phase. If
            that plan was provisional, they are of pulls that its summary had as `pending`; if not,
            of pulls beyond those in its summary, and the phase is the one before. The current plan
            may be out, and stays as it is.

    One that refuses rewards
    outside some interval may say so in an attribute `bounds`, so that a live experiment can refuse
    a single reward before it is part of a summary. One that takes no account of the baseline says
    so in an attribute `blind`, so that nobody is told that it cannot be misled.

    One that is kept in stores names the `version` of its arithmetic, a whole number that is raised
    with every change after which it would plan or decide otherwise. A trial notes it when it is
    created, and goes on with that version alone.
    """

    @property
    def problem(self) -> Problem:
        """The problem the policy was made for."""
        ...

    def plan(self) -> Plan | None:
        """The next plan, or None once the policy has stopped. Asking twice gives the same plan."""
        ...

    def update(self, summary: Summary) -> None:
        """Take the outcome of exactly the current plan.

        Raises ProtocolError, and changes nothing, if no plan is open or the summary does not fit.
        """
        ...

    def recommend(self) -> Recommendation:
        """The target the policy would name now; `final` says whether it has identified it."""
        ...


class Method(Protocol):
    """Makes a policy from a problem: a policy class, or a `functools.partial` of one."""

    def __call__(self, problem: Problem, *, seed: int) -> Policy:
        """Make a policy."""
        ...


def has_stopped() -> ProtocolError:
    """What a policy raises when it is told an outcome after its last plan."""
    return ProtocolError(
        "The policy has stopped and takes no more outcomes.",
        field="summary",
        remedy="Read `recommend()`.",
    )
