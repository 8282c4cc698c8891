"""Units: whom or what a round is about. The same unit gets the same assignment again.

A unit has one round, or one per decision point. What is known of a round is written before its
draw, and can be erased: the log covers a digest of it, with a salt that is erased too.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bestarm.errors import ConflictingRequestError, UnknownAssignmentError
from bestarm.live import events
from bestarm.live.store.contract import (
    UNREADABLE,
    Snapshot,
    Transaction,
    UnitKey,
    UnitRecord,
    damaged,
)
from bestarm.live.values import Known

_PAGE = 5000  # decision points read at a time


@dataclass(frozen=True)
class AskedRounds:
    """What an `ask` says of the rounds it wants, as far as it does; one entry per round."""

    keys: Sequence[UnitKey] | None = None
    covariates: Sequence[str] | None = None  # as JSON
    available: bool = True  # whether anything may be drawn

    def __bool__(self) -> bool:
        """Whether it says anything."""
        return self.keys is not None or self.covariates is not None

    def find(self, snapshot: Snapshot) -> Sequence[UnitRecord | None]:
        """The round that each of its units has, or None; empty where it names no units.

        After the end no unit is given its round again: all are treated alike then.

        Raises:
            ConflictingRequestError: a unit was available, and now it is not, or the reverse.
        """
        if self.keys is None or snapshot.head.over:
            return []
        found = snapshot.units_named(self.keys)
        for key, record in found.items():
            if (record.size > 0) != self.available:
                raise _conflict(key, record)
        return [found.get(key) for key in self.keys]

    def record(self, tx: Transaction, places: Sequence[int]) -> Sequence[UnitRecord]:
        """Add what is known of new rounds: those asked for at these places."""
        head, records, size = tx.head, list[UnitRecord](), tx.head.size
        for number, place in enumerate(places):
            unit, point = (None, None) if self.keys is None else self.keys[place]
            known = unit, point, None if self.covariates is None else self.covariates[place]
            salt, turn = secrets.token_hex(16), head.rounds + number
            first = head.assigned + number * size
            if not self.available:
                head.unavailable += 1
                turn, first, size = -head.unavailable, head.assigned, 0
            record = UnitRecord(turn, first, size, digest_of(salt, *known), salt, *known)
            records.append(record)
            if unit is not None and self.available:
                self._count(tx, unit, turn, again=bool(point))
        events.add_chained(tx, *records)
        return records

    def _count(self, tx: Transaction, unit: str, turn: int, *, again: bool) -> None:
        """Count a round of a unit, which may have had others if it has decision points."""
        head = tx.head
        count = 1 + (int((tx.rounds_of(unit) >= 0).sum()) if again else 0)
        head.units += count == 1
        head.unit_rounds += 1
        if count > head.most_unit_rounds:
            head.most_unit_rounds, head.busiest_round = count, turn


def _conflict(key: UnitKey, record: UnitRecord) -> ConflictingRequestError:
    """The error for a unit that was available and now is not, or the reverse."""
    was = f"available, and has assignment {record.first}" if record.size else "not available"
    return ConflictingRequestError(
        f"Unit {key.unit!r} was {was} at decision point {key.decision_point!r}.",
        field="available",
        value=key.unit,
        remedy="Whether a unit is available is known before the draw, and stands. Name its next "
        "decision point.",
    )


def digest_of(
    salt: str | None, unit: str | None, decision_point: str | None, covariates: str | None
) -> str:
    """The digest of what is known of a round."""
    return events.digest([salt, unit, decision_point, covariates])


def members(record: UnitRecord) -> Sequence[int]:
    """The ids of a round's assignments; its own number if nothing was drawn."""
    return range(record.first, record.first + record.size) or [record.round]


def known_of(record: UnitRecord) -> Known:
    """What an assignment says of its round."""
    try:
        covariates = None if record.covariates is None else json.loads(record.covariates)
    except UNREADABLE as error:
        what = f"The covariates of round {record.round} cannot be read ({error})."
        raise damaged(what, record.round) from None
    return Known(record.unit, record.decision_point or None, covariates)


def unavailable(snapshot: Snapshot) -> Iterator[UnitRecord]:
    """The decision points at which a unit was not available, oldest first."""
    for number in range(0, snapshot.head.unavailable, _PAGE):
        yield from reversed([*snapshot.records(UnitRecord, -number - _PAGE, -number)])


def unknown_unit(key: UnitKey) -> UnknownAssignmentError:
    """The error for a unit that has no assignment."""
    at = f" at decision point {key.decision_point!r}" if key.decision_point else ""
    return UnknownAssignmentError(
        f"Unit {key.unit!r} has no assignment{at}.",
        field="unit",
        value=key.unit,
        remedy="Name it as `ask` did, with its decision point if it has any; what is erased is not "
        "known any more.",
        about=key,
    )


# --- erasure ------------------------------------------------------------------------------------


def erase(tx: Transaction, unit: str, at: float) -> int:
    """Erase a unit with its decision points and covariates; return how many of these it had.

    Raises:
        UnknownAssignmentError: it had none.
    """
    rounds = tx.rounds_of(unit)
    if not rounds.size:
        raise unknown_unit(UnitKey(unit))
    records = [
        record for each in rounds.tolist() for record in tx.records(UnitRecord, each, each + 1)
    ]
    ids = [number for record in records for number in members(record)]
    tx.erase_units(rounds)
    events.log(tx, "erased", at, ids=events.ranges(np.array(ids)))
    return len(rounds)
