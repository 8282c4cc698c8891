"""What hangs on no summary: late outcomes, failures after the end, and the names of requests."""

from __future__ import annotations

from typing import Any

import numpy as np

from bestarm.live import digests
from bestarm.live.ledger import ROW, Event, Head, Ids, Reading, Rows
from bestarm.live.recount import Notes

__all__ = ["Requests", "check_failed", "check_late"]

_FAR = 1000  # ids farther apart than this are read apart


def check_late(books: Reading, notes: Notes, event: Event, data: dict[str, Any], there: int) -> int:
    """Hold outcomes that came too late against the event that tells of them; gives how many."""
    ids = _ids(data, books.head.given, there)
    rows = _rows(books, ids)
    known = len(rows) == len(ids) and bool((rows["late"] & (rows["told"] == event.at)).all())
    notes.unless(
        known and digests.late(ids, rows["reward"])["outcomes"] == data.get("outcomes"),
        "late",
        f"The outcomes that came too late are not those of event {event.number}: one was changed "
        "since, or is gone.",
    )
    return len(ids)


def check_failed(
    books: Reading, notes: Notes, event: Event, data: dict[str, Any], there: int
) -> Ids:
    """Hold what was given up after the end against the event that tells of it; gives the ids."""
    ids = _ids(data, books.head.given, there)
    rows = _rows(books, ids)
    notes.unless(
        0 < len(rows) == len(ids) and bool((rows["lost"] == event.at).all()),
        "failed",
        f"What was given up after the end is not what event {event.number} says.",
    )
    return ids


def _ids(data: dict[str, Any], given: int, there: int) -> Ids:
    """The ids of an event; none where what it says cannot be: more, say, than there are."""
    try:
        ranges = [(int(first), int(end)) for first, end in data["ids"]]
    except (KeyError, TypeError, ValueError):
        ranges = []
    ranges = [each for each in ranges if 0 <= each[0] <= each[1] <= given]
    return digests.ids_in(ranges if sum(end - first for first, end in ranges) <= there else [])


def _rows(books: Reading, ids: Ids) -> Rows:
    """The rows of ids, which are in order, as far as there are any."""
    found: list[Rows] = [np.empty(0, dtype=ROW)]
    for part in np.split(ids, np.flatnonzero(np.diff(ids) > _FAR) + 1):
        if len(part):
            pieces = books.rows(int(part[0]), int(part[-1]) + 1)
            found += [rows[np.isin(rows["id"], part)] for rows in pieces]
    return np.concatenate(found)


class Requests:
    """The named requests, one hash after the other, as far as events tell of them."""

    def __init__(self, books: Reading, notes: Notes) -> None:
        self._books = books
        self._notes = notes
        self._requests = books.requests()
        self._tip = ""
        self._end = 0
        self._lost = False  # once a hash is not found, nor are those after it

    def check(self, number: int, tip: str) -> None:
        """Go on to the hash that an event has."""
        if not self._lost and not self._reach(tip):
            self._notes.add(
                "request",
                f"The requests up to event {number} are not those it tells of: one was changed "
                "since, or is gone.",
            )

    def end(self, head: Head) -> None:
        """Go on to the last."""
        if self._lost:
            return
        if not self._reach(head.requests):
            self._notes.add(
                "request", "The last requests are not those counted: one was changed, or is gone."
            )
        elif next(self._requests, None) is not None:
            self._notes.add("request", "There are requests on record that were never made.")

    def _reach(self, tip: str) -> bool:
        while self._tip != tip:
            request = next(self._requests, None)
            if request is None:
                self._lost = True
                return False
            self._notes.unless(
                self._end <= request.first
                and request.first + request.size <= self._books.head.given,
                "request",
                f"Request {request.name!r} has assignments that are another's, or nobody's.",
            )
            self._tip, self._end = (
                digests.requested(self._tip, request),
                request.first + request.size,
            )
        return True
