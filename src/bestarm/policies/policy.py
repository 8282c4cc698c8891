"""The protocol every method follows: a small state machine that plans, is told totals, recommends.

A plan that was carried out is a fact. Nothing of a policy is pickled: to recover one, a fresh one
adopts every plan on record and is told its summary. Designs are solved for new plans only.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.problem import Problem
from bestarm.records import Plan, Recommendation, Summary

__all__ = ["Method", "Policy", "check_adoptable", "has_stopped", "same_plan"]


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
    with every change after which it would decide otherwise, told the same summaries of the same
    plans. (A change of new plans alone needs no new version: plans on record are adopted.) A trial
    notes it when it is created, and goes on with that version alone.
    """

    @property
    def problem(self) -> Problem:
        """The problem the policy was made for."""
        ...

    def plan(self) -> Plan | None:
        """The next plan, or None once the policy has stopped. Asking twice gives the same plan."""
        ...

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one: it was made earlier, maybe on another machine.

        Its weights or counts and its pulls are taken as they are, and everything that depends on
        them uses exactly these. No design is solved. A plan that this policy made but was not told
        of yet is replaced; adopting the current plan again changes nothing.

        Raises ProtocolError, and changes nothing, if the policy has stopped or the plan cannot be
        its next one: see `check_adoptable`.
        """
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


def check_adoptable(
    plan: Plan,
    problem: Problem,
    *,
    phase: int | None,
    kind: Literal["randomised", "fixed"] | None = None,
) -> Plan:
    """Give a recorded plan back, or raise if it cannot be a policy's next one.

    Args:
        plan: the plan on record.
        problem: the policy's problem.
        phase: the number of the policy's next plan; None if the policy has stopped.
        kind: the kind of plan that the policy makes; None where it makes both.
    """
    if not isinstance(plan, Plan):
        raise InvalidInputError(
            f"`plan` must be a Plan; got {type(plan).__name__}.",
            field="plan",
            value=plan,
            remedy="Adopt a plan that this policy made earlier.",
        )
    if phase is None:
        raise ProtocolError(
            f"The policy has stopped and cannot adopt the plan of phase {plan.phase}.",
            field="plan",
            value=plan.phase,
            remedy="Read `recommend()`.",
        )
    if plan.phase != phase:
        raise ProtocolError(
            f"The next plan is that of phase {phase}; got one of phase {plan.phase}.",
            field="plan",
            value=plan.phase,
            remedy="Adopt recorded plans in their order, each followed by its summary.",
        )
    if plan.arms != problem.arms:
        raise ProtocolError(
            f"The plan is over {plan.arms} arms; the problem has {problem.arms}.",
            field="plan",
            value=plan.arms,
            remedy="Adopt a plan that was made for this problem.",
        )
    if kind is not None and (plan.weights is None) != (kind == "fixed"):
        raise ProtocolError(
            f"The policy makes {kind} plans; the plan of phase {phase} is of the other kind.",
            field="plan",
            value=plan.phase,
            remedy="Adopt a plan that the same policy made.",
        )
    return plan


def same_plan(one: Plan, other: Plan) -> bool:
    """Whether two plans agree in everything, to the last bit."""
    return all(
        np.array_equal(getattr(one, part.name), getattr(other, part.name)) for part in fields(Plan)
    )
