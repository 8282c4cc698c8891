"""Assignments with their outcomes and losses, read as arrays.

A driver makes an object of every number and a tuple of every row, which takes longer than all that
is done with them. So the database joins many rows into one value: in SQLite the packed rows of a
table, on PostgreSQL an array per column.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bestarm.live.store.contract import ROW, Ids, Rows
from bestarm.live.store.damage import damaged
from bestarm.live.store.sql import schema as s

if TYPE_CHECKING:
    from bestarm.live.store.sql.sessions import Session

# What is read of each table; the names of ROW differ for two of the columns.
_ASSIGNED = ("number", "round", "phase", "arm", "probability", "asked", "forecast")
_COLUMNS = {
    str(s.assignments): _ASSIGNED,
    str(s.outcomes): ("number", "reward", "told", "late"),
    str(s.losses): ("number", "at"),
}
_WHOLE = {"number", "round", "phase", "arm", "late"}
_MISSING = "no forecast"  # a flag: SQLite knows no NaN
_HERE = "experiment = {0} AND number >= {0} AND number < {0}"
_NEXT = f"SELECT min(number) FROM {s.assignments} WHERE {_HERE}"

Part = dict[str, NDArray[Any]]  # the columns of a table by name


def _packed(columns: Sequence[str]) -> np.dtype[Any]:
    """A row as SQLite packs it."""
    kinds = [(name, "<i8" if name in _WHOLE else "<f8") for name in columns]
    return np.dtype(kinds + [(_MISSING, "?")] * ("forecast" in columns))


def _sent(name: str) -> np.dtype[Any]:
    """An element of an array as PostgreSQL sends it, after its length in bytes."""
    return np.dtype([("size", ">i4"), ("value", ">i8" if name in _WHOLE else ">f8")])


_ARRAY = 20  # bytes of an array before its elements


def _sqlite(table: str, columns: Sequence[str]) -> str:
    values = ", ".join(columns)
    if "forecast" in columns:
        values = values.replace("forecast", "coalesce(forecast, 0.0)") + ", forecast IS NULL"
    # Joined as text, which leaves the bytes as they are, and a blob again.
    joined = f"CAST(group_concat(pack_{table}({values}), '') AS BLOB)"
    return f"(SELECT count(*), {joined} FROM {table} WHERE {_HERE.format('?')})"


def _postgresql(table: str, columns: Sequence[str]) -> str:
    values = ", ".join(
        f"array_send(array_agg({value}))"
        for name in columns
        for cast in ("bigint" if name in _WHOLE else "double precision",)
        for value in (f"coalesce({name}, 'NaN')" if name == "forecast" else f"{name}::{cast}",)
    )
    return f"(SELECT {values} FROM {table} WHERE {_HERE.format('%s')}) AS of_{table}"


def _statement(parts: Iterator[str]) -> str:
    return f"SELECT * FROM {', '.join(parts)}"


_SQLITE = _statement(_sqlite(*each) for each in _COLUMNS.items())
_POSTGRESQL = _statement(_postgresql(*each) for each in _COLUMNS.items())


def add_functions(connection: sqlite3.Connection) -> None:
    """Teach a connection to SQLite how to pack rows."""
    for table, columns in _COLUMNS.items():
        codes = "".join("q" if name in _WHOLE else "d" for name in columns)
        codes += "?" * ("forecast" in columns)
        # A function of C: no signal is answered in the midst of it.
        connection.create_function(f"pack_{table}", len(codes), struct.Struct(f"<{codes}").pack)


def read_rows(
    session: Session, experiment: int, first: int, end: int, *, size: int
) -> Iterator[Rows]:
    """The assignments of an experiment with ids from `first` up to `end`, as ROW, in order of id,
    `size` of them at a time or fewer."""
    read = _from_sqlite if session.dialect == "sqlite" else _from_postgresql
    while first < end:
        until = min(first + size, end)
        rows = _joined(*read(session, (experiment, first, until) * len(_COLUMNS)))
        if len(rows):
            yield rows
        first = until
        if len(rows) < size and first < end:  # a damaged counter may say any number
            mark = "?" if session.dialect == "sqlite" else "%s"
            (there,) = session.fetch_one(_NEXT.format(mark), (experiment, first, end))
            first = there or end


def _joined(assigned: Part, told: Part, lost: Part) -> Rows:
    """Rows of assignments, with the outcomes and the losses that there are of them."""
    ids = assigned["number"]
    rows = np.empty(len(ids), dtype=ROW)
    rows["id"] = ids
    for name in _ASSIGNED[1:]:
        rows[name] = assigned[name]
    rows["reward"], rows["told"], rows["late"], rows["lost"] = np.nan, np.nan, False, np.nan
    if len(told["number"]):
        places, there = _find(told["number"], ids)
        for name in ("reward", "told"):
            rows[name][places] = told[name][there]
        rows["late"][places] = told["late"][there] != 0
    if len(lost["number"]):
        places, there = _find(lost["number"], ids)
        rows["lost"][places] = lost["at"][there]
    return rows


def _find(numbers: Ids, ids: Ids) -> tuple[Any, Any]:
    """Where numbers are among ids, both in order, and which of them are there."""
    if len(numbers) == len(ids) and np.array_equal(numbers, ids):
        return slice(None), slice(None)
    places = np.searchsorted(ids, numbers)
    there = places < len(ids)
    there[there] = ids[places[there]] == numbers[there]
    return places[there], there


def _from_sqlite(session: Session, values: tuple[int, ...]) -> Iterator[Part]:
    try:
        found = session.fetch_one(_SQLITE, values)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise _unreadable("there is something other than a number") from error
    for columns, count, joined in zip(_COLUMNS.values(), found[::2], found[1::2], strict=True):
        kind = _packed(columns)
        if len(joined or b"") != count * kind.itemsize:
            raise _unreadable("the rows could not be joined")
        packed = np.frombuffer(joined or b"", dtype=kind)
        part = {name: packed[name] for name in columns}
        if "forecast" in columns:
            part["forecast"] = np.where(packed[_MISSING], np.nan, part["forecast"])
        yield _in_order(part)


def _from_postgresql(session: Session, values: tuple[int, ...]) -> Iterator[Part]:
    found = iter(session.fetch_one(_POSTGRESQL, values))
    for columns in _COLUMNS.values():
        part = {}
        for name in columns:
            text = next(found)
            sent = np.frombuffer(text or b"", dtype=_sent(name), offset=_ARRAY if text else 0)
            if (sent["size"] != 8).any():
                raise _unreadable("a number is missing")
            part[name] = sent["value"].astype(sent["value"].dtype.newbyteorder("="))
        yield _in_order(part)


def _in_order(part: Part) -> Part:
    """The same rows in order of number: databases do not promise it."""
    numbers = part["number"]
    if (numbers[1:] > numbers[:-1]).all():
        return part
    order = np.argsort(numbers)
    return {name: column[order] for name, column in part.items()}


def _unreadable(why: str) -> Exception:
    return damaged(f"The record of assignments, outcomes or losses cannot be read ({why}).")
