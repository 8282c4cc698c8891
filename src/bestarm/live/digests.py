"""Digests of rows: what the log says of outcomes, losses and times without repeating them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from bestarm.geometry import Array
from bestarm.live.events import digest
from bestarm.live.store.contract import ROW, TIMES, Ids, Reading, Request, Rows

__all__ = [
    "as_they_ended",
    "digest_of",
    "ids_in",
    "late",
    "requested",
    "rest",
    "rows_of",
    "runs",
    "times",
    "times_of",
    "waiting_ids",
]

_FAR = 1000  # ids farther apart than this are looked up apart

_OUTCOME = np.dtype([("id", "<i8"), ("reward", "<f8")])
_ENDED = np.dtype([("arm", "<i8"), ("reward", "<f8"), *TIMES.descr])


def digest_of(pieces: Iterable[Rows]) -> str:
    """The SHA-256 of rows, whatever the pieces that they are read in."""
    running = hashlib.sha256()
    for piece in pieces:
        running.update(piece.tobytes())
    return running.hexdigest()


def times(books: Reading, first: int, end: int) -> str:
    """Of when assignments that are settled were given out, told or lost."""
    return digest_of(books.times(first, end))


def times_of(rows: Rows) -> Rows:
    """The same of rows: an outcome that came after the loss has no part in it."""
    made = np.empty(len(rows), dtype=TIMES)
    made["asked"], made["lost"] = rows["asked"], rows["lost"]
    made["told"] = np.where(np.isnan(rows["lost"]), rows["told"], np.nan)
    return made


def rest(books: Reading) -> dict[str, Any]:
    """What the log says, at the end, of the assignments that no summary covers."""
    first, end = books.head.handed, books.head.given
    ended = (as_they_ended(rows) for rows in books.rows(first, end))
    said: dict[str, Any] = {"first": first, "end": end, "rest": digest_of(ended)}
    waiting = rows_of(books, waiting_ids(books))
    if len(waiting):
        said["waiting"] = digest_of([as_they_ended(waiting)])
    return said


def rows_of(books: Reading, ids: Ids) -> Rows:
    """The rows of these assignments, in order of id."""
    found = [np.empty(0, dtype=ROW)]
    for run in np.split(ids, np.flatnonzero(np.diff(ids) > _FAR) + 1):
        if run.size:
            rows = books.rows(int(run[0]), int(run[-1]) + 1)
            found += [piece[np.isin(piece["id"], run)] for piece in rows]
    return np.concatenate(found)


def waiting_ids(books: Reading) -> Ids:
    """The assignments that were outstanding when their phase closed, and that no summary has."""
    parts = [numbers for numbers, _ in books.deferred(waiting=True)]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def as_they_ended(rows: Rows, failed: Ids | None = None) -> Rows:
    """Rows as they were at the end.

    Args:
        rows: as they are.
        failed: which were given up after it.
    """
    lost = rows["lost"].copy()
    if failed is not None and failed.size:
        lost[np.isin(rows["id"], failed)] = np.nan
    used = np.isnan(lost) & ~rows["late"]
    made = np.empty(len(rows), dtype=_ENDED)
    made["arm"], made["asked"], made["lost"] = rows["arm"], rows["asked"], lost
    made["reward"] = np.where(used, rows["reward"], np.nan)
    made["told"] = np.where(used, rows["told"], np.nan)
    return made


def late(ids: Ids, rewards: Array) -> dict[str, Any]:
    """What the log says of outcomes that came too late."""
    order = np.argsort(ids)
    made = np.empty(len(ids), dtype=_OUTCOME)
    made["id"], made["reward"] = ids[order], rewards[order]
    return {"ids": runs(ids), "outcomes": digest_of([made])}


def runs(ids: Ids) -> list[list[int]]:
    """Ids as ranges, each with its first and the one after its last."""
    ordered = np.sort(ids)
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1)
    return [[int(part[0]), int(part[-1]) + 1] for part in parts if len(part)]


def ids_in(ranges: Iterable[Iterable[int]]) -> Ids:
    """The ids of ranges."""
    parts = [np.arange(first, end, dtype=np.int64) for first, end in ranges]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def requested(before: str, request: Request) -> str:
    """The hash of a request and of all before it."""
    return digest([before, *vars(request).values()])
