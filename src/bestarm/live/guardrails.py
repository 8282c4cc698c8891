"""Guardrails of a live experiment: the values told, and what they show before each step.

Nothing of the evidence is stored. Plans and values are, and every plan has on record how many
values were told when it was made. So whoever opens the experiment computes the same bets again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.live.state import disagreement
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import GuardrailValue, PlanRecord, damaged
from bestarm.policies.guardrail import Guardrail, read_guardrails
from bestarm.policies.policy import Traits
from bestarm.problem import Problem
from bestarm.records import Plan
from bestarm.units import Unit

if TYPE_CHECKING:
    from bestarm.policies.anytime.guardrails import GuardrailEvidence

# Columns of exports and of tables of outcomes, and what `tell` takes besides.
_COLUMNS = (
    "id round phase arm label probability asked state outcome told late lost forecast covariates"
)
_KNOWN = "reward unit item person decision_point available precondition self"
_RESERVED = frozenset(f"{_COLUMNS} {_KNOWN}".split())
_SAME = 1e-6  # nats: evidence computed on another processor


@dataclass(frozen=True)
class Finding:
    """An option that a guardrail shows to be worse than the control by more than its margin.

    Attributes:
        guardrail: the guardrail.
        target: the option.
        values: how many values of all guardrails were told by then.
    """

    guardrail: Guardrail
    target: int
    values: int

    @property
    def reason(self) -> str:
        """Why the option is retired, in words."""
        name, margin = self.guardrail.name, self.guardrail.worse_by
        return f"worse than the control in {name} by more than {margin:g}"

    def data(self, labels: Sequence[str], phase: int) -> dict[str, Any]:
        """What the log says of it; `phase` is the last one that it rests on."""
        guardrail = self.guardrail
        return {
            "guardrail": guardrail.name,
            "target": self.target,
            "label": labels[self.target],
            "action": guardrail.action,
            "worse": guardrail.worse,
            "worse_by": guardrail.worse_by,
            "phase": phase,
            "values": self.values,
        }


@dataclass(frozen=True)
class GuardrailRow:
    """How one option stands with one guardrail.

    Attributes:
        guardrail: the guardrail.
        target: the option.
        label: its name.
        state: `"worse"` if it is shown to be worse than the control by more than the margin,
            `"fine"` if it is shown not to be, `"unclear"` as long as neither is shown, `"retired"`.
        estimate: how much worse it was, in values that are in; None before there are some.
        low: how much worse it is, at least. Negative: better.
        high: how much worse it is, at most.
        values: how many values the guardrail has, of all options.
        outstanding: of how many assignments it has none.
        binary: whether all values are 0 or 1, so that they are written in percent.
    """

    guardrail: Guardrail
    target: int
    label: str
    state: str
    estimate: float | None
    low: float
    high: float
    values: int
    outstanding: int
    binary: bool

    @property
    def unit(self) -> Unit:
        """How its values are written."""
        return Unit(percent=self.binary)


def check_guardrails(
    given: object, problem: Problem, traits: Traits, plan: Plan | None
) -> tuple[Guardrail, ...]:
    """Guardrails that fit a policy, whose first plan this is.

    Raises:
        InvalidInputError: they do not.
    """
    found = read_guardrails(given, reserved=_RESERVED)
    if not found:
        return found
    if traits.control is None:
        message = "Guardrails compare options with the control, and none is named."
        remedy = 'Name it, for example control="old".'
        raise InvalidInputError(message, field="guardrails", value=found[0].name, remedy=remedy)
    drawn = plan is None or (plan.weights is not None and plan.open and plan.size == 1)
    if not (problem.compares_arms and drawn):
        message = "Guardrails need options that are drawn one at a time, at random, and compared."
        remedy = "Use 'anytime' without blocks, and without targets of their own."
        raise InvalidInputError(message, field="guardrails", value=found[0].name, remedy=remedy)
    for each in found:
        if each.action == "retire" and not traits.changes:
            message = f"The policy cannot retire options, as the guardrail {each.name!r} would."
            remedy = "Give it the action 'alert', or use a policy that options may leave."
            raise InvalidInputError(message, field="guardrails", value=each.name, remedy=remedy)
    return found


class GuardrailReplayer:
    """The evidence of all guardrails, brought forward over the plans and values on record.

    Args:
        guardrails: the guardrails.
        options: how many options the experiment began with.
        traits: what the policy declares about itself.
    """

    def __init__(self, guardrails: Sequence[Guardrail], options: int, traits: Traits) -> None:
        self.guardrails = tuple(guardrails)
        from bestarm.policies.anytime.guardrails import (  # noqa: PLC0415  (slow to import)
            GuardrailEvidence,
        )

        self._control = traits.control or 0
        self._evidence = [
            GuardrailEvidence(each, options=options, control=self._control, changes=traits.changes)
            for each in guardrails
        ]
        self._open: PlanRecord | None = None  # the last plan
        self._events = 0
        self._known: set[tuple[str, int]] = set()  # findings on record

    def _advance(self, snapshot: Snapshot, record: PlanRecord) -> None:
        """Close the phase before a plan, and take the values told by then."""
        if self._open is not None:
            self._close(self._evidence, snapshot, self._open, record.first)
            self._tell(self._evidence, snapshot, self._open.values, record.values)

    def _adopt(self, record: PlanRecord) -> None:
        """Fix the bets on a plan."""
        for evidence in self._evidence:
            evidence.open(record.plan)
        self._open = record

    def _now(self, snapshot: Snapshot) -> list[GuardrailEvidence]:
        """The evidence of all phases but the open one, in which more may be drawn."""
        for record in snapshot.plans(1 if self._open is None else self._open.plan.phase + 1):
            self._advance(snapshot, record)
            self._adopt(record)
        head, end = snapshot.head, None
        if head.over or not head.planned:
            end = head.assigned
        return self._with(snapshot, end, head.values)

    def _with(self, snapshot: Snapshot, end: int | None, values: int) -> list[GuardrailEvidence]:
        """The evidence with more values; with an end, the open phase is closed there."""
        evidence = [each.copy() for each in self._evidence]
        if self._open is not None:
            if end is not None:
                self._close(evidence, snapshot, self._open, end)
            self._tell(evidence, snapshot, self._open.values, values, closed=end is not None)
        return evidence

    @staticmethod
    def _close(
        evidence: Sequence[GuardrailEvidence], snapshot: Snapshot, opened: PlanRecord, end: int
    ) -> None:
        """Count what was drawn under a plan."""
        drawn = np.zeros(opened.plan.arms, dtype=np.int64)
        for rows in snapshot.rows(opened.first, end):
            drawn += np.bincount(rows["arm"], minlength=len(drawn))
        for each in evidence:
            each.close(drawn)

    def _tell(
        self,
        evidence: Sequence[GuardrailEvidence],
        snapshot: Snapshot,
        start: int,
        end: int,
        *,
        closed: bool = True,
    ) -> None:
        """Take values by number; those of the last plan's phase only if it is closed."""
        assert self._open is not None
        last = self._open.plan.phase - (not closed)
        told: defaultdict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        for each in snapshot.records(GuardrailValue, start, end):
            if not 0 <= each.guardrail < len(evidence):
                raise damaged("A value is of a guardrail that there is not.")
            if each.phase <= last:
                told[each.guardrail, each.phase].append((each.arm, each.value))
        for (place, phase), pairs in told.items():
            arms, values = zip(*pairs, strict=True)
            evidence[place].amend(phase, np.array(arms), np.array(values))

    def find(self, snapshot: Snapshot, gone: Collection[int]) -> list[Finding]:
        """What the values show that is not on record, of options that are not gone."""
        for event in snapshot.events(self._events):
            self._events = event.number + 1
            if event.kind == "guardrail":
                self._known.add((event.data["guardrail"], event.data["target"]))
        return [
            Finding(each.guardrail, target, snapshot.head.values)
            for each in self._now(snapshot)
            for target in np.flatnonzero(each.log_evidence() >= each.levels).tolist()
            if target not in gone and (each.guardrail.name, target) not in self._known
        ]

    def table(
        self, snapshot: Snapshot, labels: Sequence[str], gone: Collection[int]
    ) -> list[GuardrailRow]:
        """What the values so far show, guardrail by guardrail, of all options but the control."""
        rows = []
        for evidence in self._now(snapshot):
            look = evidence.look()
            others = [target for target in range(len(look.low)) if target != self._control]
            for target in others:
                states = {
                    "retired": target in gone,
                    "worse": look.worse[target],
                    "fine": look.fine[target],
                    "unclear": True,
                }
                state = next(state for state, holds in states.items() if holds)
                low, high = float(look.low[target]), float(look.high[target])
                estimate = float(look.estimate[target])
                ends = None if math.isnan(estimate) else estimate, low, high
                counts = look.values, look.outstanding, look.binary
                rows.append(
                    GuardrailRow(evidence.guardrail, target, labels[target], state, *ends, *counts)
                )
        return rows

    def check(self, snapshot: Snapshot, gone: Mapping[int, int]) -> None:
        """Compare the findings on record with what the values show.

        Args:
            snapshot: the record.
            gone: options that were retired, and the phase after which they were.

        Raises:
            ReplayError: a finding lacks its evidence, or evidence its finding.
        """
        events = [event.data for event in snapshot.events() if event.kind == "guardrail"]
        found = {(data["guardrail"], data["target"]): data["phase"] for data in events}
        records = list(snapshot.plans())
        ends = [*(record.first for record in records[1:]), snapshot.head.assigned]
        for record, end in zip(records, ends, strict=True):
            self._advance(snapshot, record)
            before = record.plan.phase - 1
            for key, excess in _excess(self._evidence).items():
                known = min(found.get(key, before + 1), gone.get(key[1], before + 1))
                if excess > _SAME and known > before:
                    what = f"Option {key[1]} was to be found worse in {key[0]!r}"
                    raise disagreement(f"{what}, and is not in the log")
            self._adopt(record)
            for data in events:
                if data["phase"] == record.plan.phase:
                    key = data["guardrail"], data["target"]
                    excess_then = _excess(self._with(snapshot, end, data["values"]))
                    if excess_then.get(key, -math.inf) < -_SAME:
                        what = f"Option {key[1]} was found worse in {key[0]!r}, without evidence"
                        raise disagreement(what)


def _excess(evidence: Sequence[GuardrailEvidence]) -> dict[tuple[str, int], float]:
    """By how much the evidence exceeds what finds an option worse, by guardrail and option."""
    return {
        (each.guardrail.name, target): excess
        for each in evidence
        for target, excess in enumerate((each.log_evidence() - each.levels).tolist())
    }
