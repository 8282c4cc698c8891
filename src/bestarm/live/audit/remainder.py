"""What hangs on no summary: late outcomes, failures after the end, and the names of requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bestarm.live import digests
from bestarm.live.audit.redraw import Notes
from bestarm.live.store.contract import ROW, Event, Head, Ids, Loss, Reading, Rows

__all__ = ["Losses", "Requests", "check_failed", "check_late", "check_times"]

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


def check_times(books: Reading, notes: Notes) -> None:
    """Hold times that are on record twice against each other."""
    for what in books.misdated():
        notes.add("time", f"{what} has another time on record than what it began with.")


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


class Losses:
    """What was given up, phase by phase: places without a gap, each in its phase, in order of time.

    Attributes:
        last: when the last outcome was given up.
    """

    def __init__(self, books: Reading, notes: Notes) -> None:
        self._books = books
        self._notes = notes
        self._phases = notes.readable(books.phases())
        self._phase = self._place = -1
        self._first, self._end = 0, 0
        self._next = next(self._phases, None)
        self._before = self.last = -math.inf

    def read(self, failed: Sequence[tuple[Ids, str]]) -> None:
        """Read every loss once.

        Args:
            failed: what the log says was given up after the end, and why.
        """
        ids = np.concatenate([np.empty(0, dtype=np.int64), *(each for each, _ in failed)])
        events = np.repeat(np.arange(len(failed)), [len(each) for each, _ in failed])
        order = np.argsort(ids, kind="stable")
        ids, events = ids[order], events[order]
        for loss in self._books.losses():
            self._check(loss)
            at = int(np.searchsorted(ids, loss.id)) if len(ids) else 0
            if at < len(ids) and ids[at] == loss.id and loss.reason != failed[events[at]][1]:
                self._notes.add(
                    "reason", f"Assignment {loss.id} was given up for another reason than logged."
                )

    def _check(self, loss: Loss) -> None:
        notes = self._notes
        if loss.phase != self._phase:
            self._phase, self._place, self._before = loss.phase, 0, -math.inf
            self._turn()
        notes.unless(
            self._first <= loss.id < self._end,
            "loss",
            f"The loss of assignment {loss.id} is on record under phase {loss.phase}, which is not "
            "its own.",
        )
        notes.unless(
            loss.place == self._place,
            "loss",
            f"The loss of assignment {loss.id} has place {loss.place} on record; as the losses of "
            f"phase {loss.phase} follow each other it is {self._place}.",
        )
        notes.unless(
            loss.at >= self._before or self._books.head.setback > 0,
            "loss",
            f"The loss of assignment {loss.id} has a place after one that was later.",
        )
        self._place = loss.place + 1
        self._before, self.last = loss.at, max(self.last, loss.at)

    def _turn(self) -> None:
        """Go on to the plan of a phase, and to where the next one begins."""
        self._first = self._end = 0
        while self._next is not None and self._next.plan.phase <= self._phase:
            mine, self._next = self._next, next(self._phases, None)
            if mine.plan.phase == self._phase:
                self._first = mine.first
                self._end = self._books.head.given if self._next is None else self._next.first


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
