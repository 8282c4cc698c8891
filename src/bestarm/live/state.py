"""What every transaction does to an experiment's counters, whichever verb it carries out."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from bestarm import __version__
from bestarm.errors import ClockError, ReplayError, UnknownAssignmentError
from bestarm.live import events
from bestarm.live.draws import seed_data
from bestarm.live.store.head import Head, Stage, TimeLimits
from bestarm.live.store.ledger import Snapshot, Transaction
from bestarm.live.store.rows import Event, is_outstanding

Precondition = Callable[[Snapshot], object]  # raises where a call is not allowed

_DAY = 86_400.0
_YEAR = 365 * _DAY
_PAGE = 1000  # events read at a time, from the last on


def begin(
    at: float, limits: TimeLimits, *, seed: int, document: str | None = None, **data: object
) -> tuple[Head, Event]:
    """The counters of a new experiment, and the first event of its log.

    The event holds the seed, and so does the document, of which it holds a digest. The hash of the
    event may be read by those who must not know the seed: with a salt that they cannot read either,
    trying seeds does not reveal it.
    """
    known, salt = limits._asdict(), secrets.token_hex(16)
    head = Head(**known, last_time=at)
    data |= {"version": __version__, "salt": salt, "seed": seed_data(seed)}
    if document is not None:
        data["document"] = events.salted(salt, document)
    return head, events.next_event(head, "created", at, **known, **data)


def stamp(head: Head, now: float, *, leaps: bool) -> float:
    """Note the time of a transaction, and by how much the clock was set back since the last.

    Reject clock jumps of more than a year, by which all outstanding outcomes would be settled,
    unless the clock may leap.

    Raises:
        ClockError: the last transaction was more than a year and a lease or a window ago.
    """
    ahead, limit = now - head.last_time, head.time_limit
    if not (leaps or limit is None or head.over or ahead <= _YEAR + limit):
        lost = "be lost" if head.window is None else "have come to the end of their window"
        raise ClockError(
            f"The clock is {ahead / _DAY:.0f} days ahead of the last recorded time: by it, all "
            f"outstanding outcomes would {lost}.",
            field="clock",
            value=now,
            remedy="Set the clock. If it is right, pause and resume the experiment, and continue.",
        )
    if ahead < 0:
        head.clock_setback = max(head.clock_setback, -ahead)
    head.last_time = max(head.last_time, now)
    return now


def find_settled(tx: Transaction) -> None:
    """Move `settled_end` to the first outstanding assignment."""
    head = tx.head
    found = tx.first_outstanding(head.settled_end, head.assigned)
    head.settled_end = head.assigned if found is None else found


def find_oldest(tx: Transaction) -> float:
    """A time before which no outstanding assignment was asked for."""
    head = tx.head
    if head.settled_end == head.assigned:
        return math.inf
    if not head.clock_setback:
        return tx.asked_at(head.settled_end)
    # The clock was set back, so that the times are not in order of id.
    oldest = math.inf
    for rows in tx.rows(head.settled_end, head.assigned):
        oldest = min(oldest, rows["asked"][is_outstanding(rows)].min(initial=math.inf))
    return oldest


def waits_for(snapshot: Snapshot) -> tuple[int | None, float | None]:
    """The assignment whose outcome holds up the decision, and when it was asked for.

    It does once as many outcomes have come as the plan asks for, and one before them has not.
    """
    head = snapshot.head
    enough = head.outstanding_before or head.phase_settled >= head.pulls
    if not head.waits or head.stage not in {Stage.OPEN, Stage.WAITING} or not enough:
        return None, None
    found = snapshot.first_outstanding(head.settled_end, head.assigned)
    return (None, None) if found is None else (found, snapshot.asked_at(found))


def check_assigned(ids: Sequence[int], head: Head) -> None:
    """Raise UnknownAssignmentError unless all these ids were assigned."""
    unknown = next((number for number in ids if not 0 <= number < head.assigned), None)
    if unknown is None:
        return
    last = f"the last id is {head.assigned - 1}" if head.assigned else "there are none yet"
    raise UnknownAssignmentError(
        f"Assignment {unknown} was never given out; {last}.",
        field="id",
        value=unknown,
        remedy="Tell outcomes under the ids that `ask` returned.",
        about=unknown,
    )


def last_recommendation(snapshot: Snapshot) -> dict[str, Any] | None:
    """What the event that ended an experiment says that its policy recommended.

    By it every process serves the same, whatever the policy would say now. None before the end, and
    where the policy could not say it, as one of another version cannot.
    """
    head = snapshot.head
    if not head.over:
        return None
    pages = reversed(range(0, head.events, _PAGE))
    events = (event for start in pages for event in snapshot.events(start, start + _PAGE))
    data = next(event.data for event in events if event.kind == head.state)
    return data if head.state == "finished" else data.get("recommendation")


def disagreement(what: str) -> ReplayError:
    """The error for a replay that differs from the record, as a sentence says."""
    return ReplayError(
        f"The replay differs from the record. {what}.",
        field="replay",
        remedy="Call `Experiment.verify`: if the record is sound, use the version of bestarm that "
        "began the experiment.",
    )
