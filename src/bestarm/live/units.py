"""Units: whom or what a round is about. The same unit gets the same assignment again.

A unit has one round, or one per decision point. What is known of a round is written before its
draw, and can be erased: the log covers a digest of it, with a salt that is erased too.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from bestarm.errors import InvalidInputError, UnknownAssignmentError
from bestarm.live import events
from bestarm.live.inputs import read_label
from bestarm.live.store.contract import (
    UNREADABLE,
    Snapshot,
    Transaction,
    UnitKey,
    UnitRecord,
    damaged,
)
from bestarm.live.values import Known, MaybeId

#: A unit, or a decision point: a text, or a whole number, which is the same as its digits.
Label = str | int


@dataclass(frozen=True)
class AskedRounds:
    """What an `ask` says of the rounds it wants, as far as it does; one entry per round."""

    keys: Sequence[UnitKey] | None = None
    covariates: Sequence[str] | None = None  # as JSON

    def find(self, snapshot: Snapshot) -> Sequence[UnitRecord | None]:
        """The round that each of its units has, or None; empty where it names no units.

        After the end no unit is given its round again: all are treated alike then.
        """
        if self.keys is None or snapshot.head.over:
            return []
        found = snapshot.units_named(self.keys)
        return [found.get(key) for key in self.keys]

    def record(self, tx: Transaction, places: Sequence[int]) -> Sequence[UnitRecord]:
        """Add what is known of new rounds: those asked for at these places."""
        head, records, size = tx.head, list[UnitRecord](), tx.head.size
        for number, place in enumerate(places):
            unit, point = (None, None) if self.keys is None else self.keys[place]
            known = unit, point, None if self.covariates is None else self.covariates[place]
            salt, turn = secrets.token_hex(16), head.rounds + number
            first = head.assigned + number * size
            record = UnitRecord(turn, first, size, digest_of(salt, *known), salt, *known)
            records.append(record)
            head.units_hash = events.chain_hash(head.units_hash, *hashed(record))
            if unit is not None:
                self._count(tx, unit, turn, again=bool(point))
        tx.add_units(records)
        return records

    def _count(self, tx: Transaction, unit: str, turn: int, *, again: bool) -> None:
        """Count a round of a unit, which may have had others if it has decision points."""
        head = tx.head
        count = 1 + (len(tx.rounds_of(unit)) if again else 0)
        head.units += count == 1
        head.unit_rounds += 1
        if count > head.most_unit_rounds:
            head.most_unit_rounds, head.busiest_round = count, turn


def digest_of(
    salt: str | None, unit: str | None, decision_point: str | None, covariates: str | None
) -> str:
    """The digest of what is known of a round."""
    return events.digest([salt, unit, decision_point, covariates])


def hashed(record: UnitRecord) -> tuple[object, ...]:
    """What the log covers of a record: all that stays once it is erased."""
    return record.round, record.first, record.size, record.digest


def known_of(record: UnitRecord) -> Known:
    """What an assignment says of its round."""
    try:
        covariates = None if record.covariates is None else json.loads(record.covariates)
    except UNREADABLE as error:
        what = f"The covariates of round {record.round} cannot be read ({error})."
        raise damaged(what, record.round) from None
    return Known(record.unit, record.decision_point or None, covariates)


# --- what users give ----------------------------------------------------------------------------


def read_asked(
    unit: Any, decision_point: Any, count: int | None, request_id: str | None
) -> Sequence[UnitKey] | None:
    """The units of an `ask`, each once; None where it names none."""
    if unit is None:
        _check_no_decision_point(decision_point)
        return None
    if request_id is not None:
        message = "A request for a unit needs no name: the unit gets the same assignment again."
        remedy = "Leave the `request_id` out."
        raise InvalidInputError(message, field="request_id", value=request_id, remedy=remedy)
    several = _several(unit)
    points = _several(decision_point)
    keys = read_keys(several, points * len(several) if points == [decision_point] else points)
    if count is not None and count != len(keys):
        message = f"`count` is {count}, and there are {len(keys)} units: each has one assignment."
        remedy = "Leave `count` out; a unit with several decision points names one at a time."
        raise InvalidInputError(message, field="count", value=count, remedy=remedy)
    if len(set(keys)) < len(keys):
        (twice, _), *_ = Counter(keys).most_common(1)
        message = f"Unit {twice.unit!r} is there twice."
        remedy = "Name every unit once, or once per decision point."
        raise InvalidInputError(message, field="unit", value=twice.unit, remedy=remedy)
    return keys


def read_told(number: object, unit: Any, decision_point: Any) -> Sequence[UnitKey] | None:
    """The unit of a `tell`; None where it has the id of an assignment instead."""
    if number is not None and unit is not None:
        message = "An outcome needs the id of an assignment or its unit, and not both."
        remedy = 'For example tell(17, 1) or tell(unit="visitor-81", reward=1).'
        raise InvalidInputError(message, field="id", value=number, remedy=remedy)
    if unit is None:
        _check_no_decision_point(decision_point)
        return None
    return read_keys([unit], [decision_point])


def read_table(outcomes: Any) -> list[UnitKey] | None:
    """The units of a data frame of outcomes; None where it has ids, or is none."""
    names = getattr(outcomes, "columns", ())
    if "unit" not in names or "id" in names:
        return None
    points = outcomes["decision_point"] if "decision_point" in names else [None] * len(outcomes)
    return read_keys(*map(_cells, (outcomes["unit"], points))) if len(outcomes) else []


def _cells(column: Iterable[Any]) -> list[Any]:
    """The cells of a column; where some are empty, whole numbers are kept as others there."""
    known = (None if each != each else each for each in column)  # noqa: PLR0124  (NaN)
    return [int(x) if isinstance(x, float) and x.is_integer() else x for x in known]


def _check_no_decision_point(decision_point: object) -> None:
    if decision_point is not None:
        message = "`decision_point` is that of a unit, and there is none."
        remedy = 'Give the `unit` too, for example unit="person-7".'
        raise InvalidInputError(message, field="unit", value=None, remedy=remedy)


def _several(value: Any) -> list[Any]:
    """The items of a list; what has no order cannot be one, as covariates follow it."""
    unordered = isinstance(value, (str, bytes, Set, Mapping))
    return [value] if unordered or not isinstance(value, Iterable) else [*value]


def read_keys(units: Sequence[Any], points: Sequence[Any]) -> list[UnitKey]:
    """Units, and the decision point of each or None."""
    if not units or len(points) != len(units):
        message = f"There must be a decision point per unit; got {len(points)} for {len(units)}."
        remedy = "Give one for all units, or as many as there are units."
        if not units:
            message, remedy = "There are no units.", "Name at least one."
        raise InvalidInputError(message, field="unit", value=len(units), remedy=remedy)
    names = [_label(each, "unit") for each in units]
    at = ["" if each is None else _label(each, "decision_point") for each in points]
    return list(map(UnitKey, names, at))


def _label(value: object, field: str) -> str:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        value = str(value)
    return read_label(value, field)


def find_ids(snapshot: Snapshot, keys: Sequence[UnitKey]) -> list[MaybeId]:
    """The assignments of units that have one each.

    After the end units are served like all others, and it is None unless an outcome is outstanding.

    Raises:
        UnknownAssignmentError: a unit has none.
        InvalidInputError: the round of a unit has several.
    """
    found = snapshot.units_named(list(dict.fromkeys(keys)))
    if snapshot.head.over:
        single = {key: record.first for key, record in found.items() if record.size == 1}
        told, _ = snapshot.settlements(list(single.values()))
        return [None if (id_ := single.get(key)) in told else id_ for key in keys]
    for key in keys:
        record = found.get(key)
        if record is None:
            raise unknown_unit(key)
        if record.size > 1:
            last = record.first + record.size - 1
            message = f"Unit {key.unit!r} has {record.size} assignments, one per option."
            remedy = f"Tell their outcomes by id: {record.first} to {last}."
            raise InvalidInputError(message, field="unit", value=key.unit, remedy=remedy)
    return [found[key].first for key in keys]


def unknown_unit(key: UnitKey) -> UnknownAssignmentError:
    """The error for a unit that has no assignment."""
    at = f" at decision point {key.decision_point!r}" if key.decision_point else ""
    return UnknownAssignmentError(
        f"Unit {key.unit!r} has no assignment{at}.",
        field="unit",
        value=key.unit,
        remedy="Name it as `ask` did, with its decision point if it has any; what is erased is not "
        "known any more.",
    )


# --- erasure ------------------------------------------------------------------------------------


def erase(tx: Transaction, unit: str, at: float) -> int:
    """Erase a unit with its decision points and covariates; return how many rounds it had.

    Raises:
        UnknownAssignmentError: it had none.
    """
    rounds = tx.rounds_of(unit)
    if not rounds.size:
        raise unknown_unit(UnitKey(unit))
    records = [record for each in rounds.tolist() for record in tx.units(each, each + 1)]
    ids = events.joined_ids(np.arange(each.first, each.first + each.size) for each in records)
    tx.erase_units(rounds)
    events.log(tx, "erased", at, ids=events.ranges(ids))
    return len(rounds)
