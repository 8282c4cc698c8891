"""Units: whom or what a round is about. The same unit gets the same assignment again.

A unit has one round, or one per decision point. What is known of a round is written before its
draw, and can be erased: the log covers a digest of it, with a salt that is erased too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from bestarm.errors import UnknownAssignmentError
from bestarm.live import events
from bestarm.live.store.ledger import Snapshot, Transaction
from bestarm.live.store.rows import UNREADABLE, UnitKey, UnitRecord, damaged
from bestarm.live.values import Known

_PAGE = 5000  # decision points read at a time


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
