"""Transactions on one experiment in a database; `Reading` and `Writing` document the methods."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, Table

from bestarm.errors import BestArmError
from bestarm.geometry import Array
from bestarm.live.events import as_data, canonical
from bestarm.live.store.contract import (
    Event,
    Head,
    Ids,
    PlanRecord,
    Reading,
    Request,
    Rows,
    SummaryRecord,
    Writing,
)
from bestarm.live.store.damage import UNREADABLE, damaged
from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql import statements as sql
from bestarm.live.store.sql.columns import read_rows
from bestarm.live.store.sql.sessions import Row, Session
from bestarm.records import BlockPlan, Plan, Rounds, Summary, as_blocks

T = TypeVar("T")
Values = Sequence[Any] | NDArray[Any]

_ALL = 2**62
_PIECE = 50_000  # assignments read at a time
_FEW = 4  # assignments looked up one by one
_PAGE = 5_000  # plans, summaries, events, requests or deferrals read at a time


class SqlReading(Reading):
    """A transaction that reads; the session has begun it."""

    def __init__(self, session: Session, number: int) -> None:
        self._session = session
        self._number = number
        self.head = Head.__new__(Head)
        self.head.__dict__ = session.counters.copy()

    def now(self) -> float:
        """The time by the server's clock as the head was read; for a file, by this process's."""
        now = self._session.time
        return time.time() if now is None else now

    def _select(self, statement: Select[Any], **values: Any) -> list[Row]:
        return self._session.select(statement, experiment=self._number, **values)

    def _array(self, kind: Any, statement: Select[Any], **values: Any) -> NDArray[Any]:
        """Rows of numbers."""
        found = self._session.fetch(statement, experiment=self._number, **values)
        try:
            return np.array(found, dtype=kind)
        except (ValueError, TypeError, OverflowError) as error:
            what = "The record of assignments, outcomes or losses cannot be read"
            raise damaged(f"{what} ({str(error).rstrip('.')}).") from error

    def _records(
        self,
        statement: Select[Any],
        read: Callable[..., T],
        start: int,
        limit: int | None = None,
        key: int = 0,
    ) -> Iterator[T]:
        """Records from a number on, which is in their column `key`, up to a limit."""
        left = _ALL if limit is None else limit
        while left and (found := self._select(statement, start=start, size=min(left, _PAGE))):
            yield from (read(*row) for row in found)
            start, left = found[-1][key] + 1, left - len(found)

    def plans(self, start: int = 1, *, limit: int | None = None) -> Iterator[PlanRecord]:
        return self._records(sql.PLANS, _read_plan, start, limit)

    def summaries(self, start: int = 0) -> Iterator[SummaryRecord]:
        return self._records(sql.SUMMARIES, _read_summary, start)

    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        return self._records(sql.EVENTS, _read_event, start, limit)

    def request(self, name: str) -> Request | None:
        found = self._select(sql.REQUEST, name=name, start=0, size=1)
        return next((Request(*row) for row in found), None)

    def requests(self) -> Iterator[Request]:
        return self._records(sql.REQUESTS, Request, 0, key=2)

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        return read_rows(self._session, self._number, first, end, size=_PIECE)

    def covariates(self, first: int, end: int) -> dict[int, str]:
        return dict(self._select(sql.COVARIATES, start=first, end=end, size=_ALL))

    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        return self._array(np.int64, sql.LOST_ARMS, phase=phase, start=start, size=count).ravel()

    def first_outstanding(self, start: int, end: int) -> int | None:
        found = self.outstanding(start, end, size=1)
        return int(found[0]) if found.size else None

    def outstanding(
        self, start: int, end: int, *, asked_by: float = math.inf, size: int = _ALL
    ) -> Ids:
        values = {"start": start, "end": end, "asked_by": asked_by, "size": size}
        return self._array(np.int64, sql.OUTSTANDING, **values).ravel()

    def deferrals(
        self, first: int = 0, end: int = _ALL, *, waiting: bool = False
    ) -> tuple[Ids, Ids]:
        read = sql.WAITING if waiting else sql.DEFERRALS
        found = self._array(np.int64, read, start=first, end=end, size=_ALL).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def lost(self, ids: Ids) -> set[int]:
        if len(ids) > _FEW:
            return super().lost(ids)
        found = (self._array(np.int64, sql.LOSS, loss=int(number)) for number in ids)
        return {int(each[0, 0]) for each in found if each.size}

    def arrivals(self) -> Ids:
        found = self._array(np.int64, sql.ARRIVALS, start=0, end=_ALL, size=_ALL)
        return found.reshape(-1, 2)[:, 0]


class SqlWriting(SqlReading, Writing):
    """A transaction that writes."""

    def save(self) -> None:
        """Write the counters that have changed."""
        saved, now = self._session.counters, vars(self.head)
        changed = {
            name: value
            for name, value in now.items()
            if value is not (before := saved[name]) and value != before
        }
        if changed:
            self._session.save(self._number, changed)

    def _columns(self, number: Values, **values: Any) -> dict[str, Sequence[Any]]:
        """A list per column; `values` has lists or arrays, or one value for all rows."""
        columns = {"experiment": self._number, "number": number, **values}
        return {
            name: each.tolist()
            if isinstance(each, np.ndarray)
            else each
            if isinstance(each, list)
            else [each] * len(number)
            for name, each in columns.items()
        }

    def add_assignments(
        self,
        arms: Ids,
        probabilities: Array,
        *,
        at: float,
        request: Request | None,
        forecasts: Array | None = None,
        covariates: Sequence[str] | None = None,
    ) -> None:
        head, places = self.head, np.arange(len(arms))
        ids = head.assigned + places
        drawn: dict[str, Any] = {"round": head.rounds + places // head.size, "phase": head.phase}
        drawn |= {"arm": arms, "probability": probabilities, "asked": at}
        if forecasts is not None:
            drawn["forecast"] = forecasts
        if covariates is not None:
            drawn["covariates"] = list(covariates)
        self._session.add(s.assignments, self._columns(ids, **drawn))
        if request is not None:
            self._insert(s.requests, **vars(request))

    def add_outcomes(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        return self._session.add_unknown(s.outcomes, self._outcomes(ids, rewards, at, late))

    def add_new_outcomes(self, ids: Values, rewards: Values, *, at: float, late: Values) -> None:
        self._session.add(s.outcomes, self._outcomes(ids, rewards, at, late))

    def _outcomes(
        self, ids: Values, rewards: Values, at: float, late: Values
    ) -> dict[str, Sequence[Any]]:
        if not (isinstance(ids, list) and isinstance(rewards, list)):
            return self._columns(ids, reward=rewards, told=at, late=list(map(int, late)))
        count = len(ids)
        return {
            "experiment": [self._number] * count,
            "number": ids,
            "reward": rewards,
            "told": [at] * count,
            "late": list(map(int, late)),
        }

    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        every = np.asarray(ids, dtype=np.int64)
        rows = self.rows_of(every)
        if len(rows) < len(every):
            raise damaged("Some of the assignments that are lost are missing.")
        phases = rows["phase"][np.searchsorted(rows["id"], every)]
        places = self.head.losses + np.arange(len(every))
        columns = self._columns(every, phase=phases, place=places, reason=reason, at=at)
        self._session.add(s.losses, columns)

    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        return self._session.add_unknown(s.refusals, self._columns(ids, reward=rewards, at=at))

    def add_deferrals(self, ids: Ids) -> None:
        self._session.add(s.deferrals, self._columns(ids, summary=-1))

    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        self._session.settle(self._number, ids.tolist(), summary=summary)

    def add_summary(self, record: SummaryRecord) -> None:
        texts = {
            name: None if part is None else canonical(as_data(part))
            for name, part in (("summary", record.summary), ("plain", record.plain))
        }
        self._insert(s.summaries, **{**vars(record), **texts})

    def add_plan(self, record: PlanRecord) -> None:
        text = canonical(as_data(record.plan))
        place = {"first": record.first, "round": record.round}
        self._insert(s.plans, phase=record.plan.phase, plan=text, **place)

    def add_event(self, event: Event) -> None:
        self._insert(s.events, **event_row(event))

    def _insert(self, table: Table, **values: Any) -> None:
        row = {"experiment": self._number, **values}
        self._session.add(table, {name: [value] for name, value in row.items()})


def event_row(event: Event) -> dict[str, Any]:
    """An event as a row of its table."""
    return {**vars(event), "data": canonical(event.data)}


def _read_plan(phase: int, text: str, first: int, number: int) -> PlanRecord:
    plan = _parsed(_plan, text, what := f"the plan of phase {phase}")
    if plan.phase != phase:
        raise damaged(f"The record of {what} cannot be read (it is one of phase {plan.phase}).")
    return PlanRecord(plan, first, number)


def _plan(data: dict[str, Any]) -> Plan:
    if "blocks" in data:
        plan: Plan = BlockPlan(**data)
    elif data["counts"] is not None:
        plan = Plan.fixed(data["counts"], phase=data["phase"], center=data["center"])
    else:
        plan = Plan.randomised(**{name: data[name] for name in data if name != "counts"})
    if as_data(plan) != data:
        raise ValueError("it contradicts itself")
    return plan


def _read_summary(number: int, *parts: Any) -> SummaryRecord:
    phase, first, end, late, text, digest, plain = parts
    what = f"summary {number}"
    summary = _parsed(_summary, text, what)
    told = None if plain is None else _parsed(_summary, plain, what)
    return SummaryRecord(number, phase, first, end, late, summary, digest, told)


def _summary(data: dict[str, Any]) -> Summary:
    if "kinds" in data:
        return Rounds.read(as_blocks(data.pop("blocks"), data["arms"]), **data)
    return Summary(**data)


def _read_event(number: int, at: float, kind: str, text: str, hashed: str) -> Event:
    return Event(number, at, kind, _parsed(dict, text, f"event {number}"), hashed)


def _parsed(read: Callable[[dict[str, Any]], T], text: str, what: str) -> T:
    try:
        data = json.loads(text)
        if not isinstance(data, dict):
            raise TypeError("it is not an object")
        return read(data)
    except (*UNREADABLE, BestArmError) as error:
        why = str(error).rstrip(".")
        raise damaged(f"The record of {what} cannot be read ({why}).", what) from error
