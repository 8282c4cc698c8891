"""Assignments with their outcomes and losses, read as arrays.

A driver makes a tuple of every row, and of these an array would have to be made: that takes longer
than all that is done with it. In SQLite functions of ours put the values of each row into an array;
PostgreSQL makes an array of each column and sends it.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bestarm.live.store.contract import ROW, Ids, Rows
from bestarm.live.store.damage import damaged
from bestarm.live.store.sql import schema as s

if TYPE_CHECKING:
    from bestarm.live.store.sql.sessions import Session


def read_rows(
    session: Session, experiment: int, first: int, end: int, *, size: int
) -> Iterator[Rows]:
    """The assignments of an experiment with ids from `first` up to `end`, as ROW, in order of id,
    `size` of them at a time or fewer."""
    while first < end:
        until = min(first + size, end)
        if session.slots is not None:
            until = min(until, first + SLOTS)
            rows = session.slots.read(experiment, first, until)
        else:
            rows = _from_postgresql(session, experiment, first, until)
        if len(rows):
            yield rows
        missing, first = until - first - len(rows), until
        if missing and first < end:  # a damaged counter may say any number
            mark = "?" if session.dialect == "sqlite" else "%s"
            (there,) = session.fetch_one(_NEXT.format(mark), (experiment, first, end))
            first = end if there is None else there


_NEXT = (
    f"SELECT min(number) FROM {s.assignments} "
    "WHERE experiment = {0} AND number >= {0} AND number < {0}"
)


def _unreadable(why: str) -> Exception:
    return damaged(f"The record of assignments, outcomes or losses cannot be read ({why}).")


# --- SQLite -------------------------------------------------------------------------------------

SLOTS = 2**14  # assignments that are read at a time
# As a number: anything might be true.
_RAW = np.dtype([(name, "i1" if name == "late" else ROW[name]) for name in ROW.names or ()])
_EMPTY = np.array([(-1, 0, 0, 0, *[np.nan] * 5, 0, np.nan)], dtype=_RAW)


def _put(name: str, start: str, *columns: str) -> str:
    """A call that puts columns into the slot of their row, from its column `start` on."""
    assert ROW.fields is not None
    place = f"(number - ?2) * {ROW.itemsize} + {ROW.fields[start][1]}"
    return f"put_{name}({place}, {', '.join(columns)})"


_ASSIGNED = ("number", "round", "phase", "arm", "probability", "asked")
_HERE = "WHERE experiment = ?1 AND number >= ?2 AND number < ?3"
_FILL = f"""
SELECT (
    SELECT count(CASE WHEN forecast IS NULL THEN {_put("assigned", "id", *_ASSIGNED)}
        ELSE {_put("foreseen", "id", *_ASSIGNED, "forecast")} END)
    FROM {s.assignments} {_HERE}
), (
    SELECT count({_put("told", "reward", "reward", "told", "late")}) FROM {s.outcomes} {_HERE}
), (
    SELECT count({_put("lost", "lost", "at")}) FROM {s.losses} {_HERE}
)
"""
_CODES = {"assigned": "qqqqdd", "foreseen": "qqqqddd", "told": "ddb", "lost": "d"}


class Slots:
    """A place in memory per assignment, which functions of a connection to SQLite fill."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        memory = bytearray(SLOTS * ROW.itemsize)
        self._rows = np.frombuffer(memory, dtype=_RAW)
        for name, codes in _CODES.items():
            # All of it is in C: no signal is answered in the midst of it.
            put = partial(struct.Struct(f"<{codes}").pack_into, memory)
            connection.create_function(f"put_{name}", len(codes) + 1, put)

    def read(self, experiment: int, first: int, until: int) -> Rows:
        """The assignments with ids from `first` up to `until`, `SLOTS` of them at most."""
        slots = self._rows[: until - first]
        slots[:] = _EMPTY
        try:
            self._connection.execute(_FILL, (experiment, first, until)).fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            raise _unreadable("there is something other than a number") from error
        found = slots[slots["id"] >= 0]
        found["late"] = found["late"] != 0
        return found.view(ROW)


# --- PostgreSQL ---------------------------------------------------------------------------------

# What is read of each table; the names of ROW differ for two of the columns.
_COLUMNS = {
    str(s.assignments): (*_ASSIGNED, "forecast"),
    str(s.outcomes): ("number", "reward", "told", "late"),
    str(s.losses): ("number", "at"),
}
_WHOLE = {"number", "round", "phase", "arm", "late"}
_HEADER = 20  # bytes of an array before its elements


def _arrays(table: str, columns: Sequence[str]) -> str:
    values = ", ".join(
        f"array_send(array_agg({value}))"
        for name in columns
        for cast in ("bigint" if name in _WHOLE else "double precision",)
        for value in (f"coalesce({name}, 'NaN')" if name == "forecast" else f"{name}::{cast}",)
    )
    here = "experiment = %s AND number >= %s AND number < %s"
    return f"(SELECT {values} FROM {table} WHERE {here}) AS of_{table}"


_SEND = f"SELECT * FROM {', '.join(_arrays(*each) for each in _COLUMNS.items())}"
_Part = dict[str, NDArray[Any]]  # the columns of a table by name


def _from_postgresql(session: Session, experiment: int, first: int, until: int) -> Rows:
    sent = iter(session.fetch_one(_SEND, (experiment, first, until) * len(_COLUMNS)))
    assigned, told, lost = (
        _in_order({name: _numbers(name, next(sent)) for name in columns})
        for columns in _COLUMNS.values()
    )
    ids = assigned["number"]
    rows = np.empty(len(ids), dtype=ROW)
    rows["id"], rows["forecast"] = ids, assigned["forecast"]
    for name in _ASSIGNED[1:]:
        rows[name] = assigned[name]
    rows["reward"], rows["told"], rows["late"], rows["lost"] = np.nan, np.nan, False, np.nan
    places, there = _find(told["number"], ids)
    rows["reward"][places], rows["told"][places] = told["reward"][there], told["told"][there]
    rows["late"][places] = told["late"][there] != 0
    places, there = _find(lost["number"], ids)
    rows["lost"][places] = lost["at"][there]
    return rows


def _numbers(name: str, sent: bytes | None) -> NDArray[Any]:
    """The elements of an array, each after its length in bytes."""
    kind = "i8" if name in _WHOLE else "f8"
    element = np.dtype([("size", ">i4"), ("value", f">{kind}")])
    elements = np.frombuffer(sent or b"", dtype=element, offset=_HEADER if sent else 0)
    if (elements["size"] != 8).any():
        raise _unreadable("a number is missing")
    return elements["value"].astype(kind)


def _in_order(part: _Part) -> _Part:
    """The same rows in order of number, which the database does not promise."""
    numbers = part["number"]
    if (numbers[1:] > numbers[:-1]).all():
        return part
    order = np.argsort(numbers)
    return {name: column[order] for name, column in part.items()}


def _find(numbers: Ids, ids: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """Where numbers are among ids, both in order, and which of them are there."""
    places = np.searchsorted(ids, numbers)
    there = places < len(ids)
    there[there] = ids[places[there]] == numbers[there]
    return places[there], there
