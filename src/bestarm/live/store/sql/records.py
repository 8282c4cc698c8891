"""Records as they are read from the database: what cannot be read is a `DamagedStoreError`."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Boolean, Float, Integer, String, Table

from bestarm.errors import BestArmError, DamagedStoreError
from bestarm.live.events import as_data
from bestarm.live.store.contract import Event, Head, Ids, PlanRecord, Request, SummaryRecord
from bestarm.live.store.damage import UNREADABLE, damaged
from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql import statements as sql
from bestarm.records import Plan, Summary

__all__ = [
    "LISTED",
    "OPENED",
    "column",
    "head_columns",
    "missing",
    "numbers",
    "read_event",
    "read_head",
    "read_plan",
    "read_request",
    "read_summary",
    "values_of",
]

T = TypeVar("T")

_UNSET = {"lowest": math.inf, "highest": -math.inf, "oldest": math.inf, "last_time": -math.inf}
_FLAGS = ("planned", "open", "provisional")
_KINDS = ((Boolean, (bool, int)), (Integer, (int,)), (Float, (float, int)), (String, (str,)))


class _Typed:
    """Checks that rows hold what their columns say: SQLite takes a text for a number.

    Args:
        table: of the columns.
        names: of the columns, in the order of the rows.
    """

    def __init__(self, table: Table, *names: str) -> None:
        columns = [table.c[name] for name in names]
        self._columns = [
            (
                column.name,
                next(known for kind, known in _KINDS if isinstance(column.type, kind)),
                bool(column.nullable),
            )
            for column in columns
        ]

    def __call__(self, row: Sequence[Any], what: str) -> tuple[Any, ...]:
        """The values of a row.

        Raises:
            DamagedStoreError: one is not of its kind.
        """
        for (name, kinds, empty), value in zip(self._columns, row, strict=True):
            if not isinstance(value, kinds) and not (empty and value is None):
                raise _damaged(what, f"`{name}` is {reprlib.repr(value)}")
        return tuple(row)


LISTED = _Typed(s.experiments, "name", "description", "created")
OPENED = _Typed(s.experiments, "id", "name", "document", "description")
_HEAD = _Typed(s.experiments, *s.COUNTERS)
_REQUEST = _Typed(s.requests, *sql.REQUEST_COLUMNS)
_PLAN = _Typed(s.plans, *sql.PLAN_COLUMNS)
_SUMMARY = _Typed(s.summaries, *sql.SUMMARY_COLUMNS)
_EVENT = _Typed(s.events, *sql.EVENT_COLUMNS)


def head_columns(head: Head) -> dict[str, Any]:
    """The counters as columns; infinite ones are empty."""
    return {n: None if v == _UNSET.get(n) else v for n, v in vars(head).items()}


def read_head(row: Sequence[Any]) -> Head:
    """The counters."""
    values = dict(zip(s.COUNTERS, _HEAD(row, "the counters"), strict=True))
    for name, unset in _UNSET.items():
        if values[name] is None:
            values[name] = unset
    for name in _FLAGS:
        values[name] = bool(values[name])
    return Head(**values)


def read_request(row: Sequence[Any]) -> Request:
    """A named request."""
    return Request(*_REQUEST(row, "a request"))


def read_plan(row: Sequence[Any]) -> PlanRecord:
    """A plan."""
    phase, text, first = _PLAN(row, "a plan")
    plan = _parsed(_plan, text, what := f"the plan of phase {phase}")
    if plan.phase != phase:
        raise _damaged(what, f"it is one of phase {plan.phase}")
    return PlanRecord(plan, first)


def read_summary(row: Sequence[Any]) -> SummaryRecord:
    """A summary."""
    number, phase, first, end, late, text, digest = _SUMMARY(row, "a summary")
    summary = _parsed(_summary, text, f"summary {number}")
    return SummaryRecord(number, phase, first, end, bool(late), summary, digest)


def read_event(row: Sequence[Any]) -> Event:
    """An event."""
    number, at, kind, data, hashed = _EVENT(row, "an event")
    return Event(number, at, kind, _parsed(_mapping, data, f"event {number}"), hashed)


def column(found: Sequence[Any], kind: type) -> NDArray[Any]:
    """The only column of rows."""
    with numbers():
        return np.fromiter(chain.from_iterable(found), dtype=kind, count=len(found))


def values_of(known: Mapping[int, Any], ids: Ids) -> list[Any]:
    """What is known of each of these assignments."""
    try:
        return [known[number] for number in ids.tolist()]
    except KeyError as error:
        raise missing(f"assignment {error}") from None


@contextmanager
def numbers() -> Iterator[None]:
    """Report it as damage where a column of numbers holds something else."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise _damaged("assignments, outcomes or losses", str(error)) from error


def missing(what: str) -> DamagedStoreError:
    """The error for a record that is missing."""
    return _damaged(what, "it is missing")


def _damaged(what: str, why: str) -> DamagedStoreError:
    return damaged(f"The record of {what} cannot be read ({why.rstrip('.')}).", what)


def _parsed(parse: Callable[[str], T], text: str, what: str) -> T:
    try:
        return parse(text)
    except (*UNREADABLE, BestArmError) as error:
        raise _damaged(what, str(error)) from error


def _mapping(text: str) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        raise TypeError("it is not an object")
    return data


def _summary(text: str) -> Summary:
    return Summary(**json.loads(text))


def _plan(text: str) -> Plan:
    data = _mapping(text)
    phase, center = data["phase"], data["center"]
    if data["counts"] is not None:
        plan = Plan.fixed(data["counts"], phase=phase, center=center)
    else:
        plan = Plan.randomised(
            data["weights"],
            data["pulls"],
            phase=phase,
            open=data["open"],
            most=data["most"],
            provisional=data["provisional"],
            center=center,
        )
    if as_data(plan) != data:
        raise ValueError("it contradicts itself")
    return plan
