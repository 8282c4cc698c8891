"""One experiment's books in a database."""

from __future__ import annotations

import json
import math
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    Boolean,
    Connection,
    CursorResult,
    Float,
    Integer,
    String,
    Table,
    case,
    func,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.errors import (
    BestArmError,
    DamagedStoreError,
    ExperimentExistsError,
    StoreError,
    UnknownExperimentError,
)
from bestarm.geometry import Array
from bestarm.live.events import canonical, plan_data, summary_data
from bestarm.live.store.contract import (
    ROW,
    TIMES,
    Entry,
    Event,
    Head,
    Ids,
    Loss,
    Opened,
    Request,
    Rows,
    Sizes,
)
from bestarm.live.store.damage import UNREADABLE, damaged
from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql import statements as sql
from bestarm.live.store.sql.database import Store
from bestarm.live.texts import spellings
from bestarm.records import Plan, Summary

__all__ = ["SqlLedger"]

T = TypeVar("T")

_PIECE = 50_000  # rows read at a time
_PAGE = 5_000  # plans, summaries or events read at a time
_FEW = 256  # ids: so many are read, more are counted where one is looked for
_FAR = 1000  # ids farther apart than this are looked up apart
_Line = tuple[str, str, float, Head]  # an experiment in a list
_LINES = select(
    s.experiments.c.name,
    s.experiments.c.description,
    s.experiments.c.created,
    *(s.experiments.c[name] for name in sql.COUNTERS),
)
_UNSET = {"lowest": math.inf, "highest": -math.inf, "oldest": math.inf, "at": -math.inf}


class SqlLedger:
    """The books of one experiment of a store.

    Args:
        store: the database.
        number: the experiment's number there.
    """

    def __init__(self, store: Store, number: int) -> None:
        self._store = store
        self._number = number
        self._generation = store.generation

    @classmethod
    def create(
        cls,
        store: Store,
        name: str,
        *,
        document: str,
        description: str,
        head: Head,
        created: Event,
    ) -> SqlLedger:
        """Begin the books of a new experiment, with its first event.

        Raises:
            ExperimentExistsError: there is one of this name.
        """
        store.prepare()
        with store.writing() as connection:
            same = select(s.experiments.c.name).where(s.experiments.c.name.in_(spellings(name)))
            known = connection.execute(same).scalars().first()
            row = {"name": name, "created": head.at, "document": document}
            row |= {"description": description, **_columns(head)}
            statement = _insert(store, s.experiments).values(row).on_conflict_do_nothing()
            statement = statement.execution_options(preserve_rowcount=True)
            if known is not None or not connection.execute(statement).rowcount:
                raise ExperimentExistsError(
                    f"There is an experiment {name!r} in {store.place} already.",
                    field="name",
                    value=name,
                    remedy="Open it, or choose another name.",
                )
            found = select(s.experiments.c.id).where(s.experiments.c.name == name)
            number = connection.execute(found).scalar_one()
            _Writing(connection, number, lock=False).add_event(created)
            return cls(store, number)

    @classmethod
    def open(cls, store: Store, name: str) -> tuple[SqlLedger, str, str, str]:
        """The books of an experiment, its name as it is on record, document and description.

        Raises:
            UnknownExperimentError: there is none of this name.
        """
        names: list[str] = []
        if store.version() is not None:
            store.prepare()
            with store.reading() as connection:
                table = s.experiments.c
                wanted = select(table.id, table.name, table.document, table.description)
                wanted = wanted.where(table.name.in_(spellings(name)))
                rows = {row.name: row for row in connection.execute(wanted)}
                for spelling in spellings(name):
                    if spelling in rows:
                        number, *texts = _KEPT(rows[spelling], f"the experiment {spelling!r}")
                        return cls(store, number), texts[0], texts[1], texts[2]
                some = select(table.name).order_by(table.id.desc()).limit(10)
                names = [repr(each) for each in connection.execute(some).scalars()]
        raise UnknownExperimentError(
            f"There is no experiment {name!r} in {store.place}.",
            field="name",
            value=name,
            remedy=f"There is {', '.join(names)}." if names else "It holds none yet.",
        )

    @staticmethod
    def listed(store: Store, *, limit: int | None = None, after: str | None = None) -> list[_Line]:
        """Name, description, time of creation and counters of experiments, oldest first.

        Args:
            store: the database.
            limit: how many at most, or None for all.
            after: the name of the last one before these.

        Raises:
            UnknownExperimentError: there is no experiment `after`.
        """
        there = store.version() is not None
        if not there and after is None:
            return []
        table = s.experiments.c
        wanted = _LINES.order_by(table.id).limit(limit)
        if there:
            store.prepare()
            with store.reading() as connection:
                last: int | None = 0
                if after is not None:
                    number = select(table.id).where(table.name == after)
                    last = connection.execute(number).scalar_one_or_none()
                if last is not None:
                    found = connection.execute(wanted.where(table.id > last)).all()
                    return [(*_LISTED(row[:3], "an experiment"), _head(row[3:])) for row in found]
        raise UnknownExperimentError(
            f"There is no experiment {after!r} to go on after.",
            field="after",
            value=after,
            remedy="Give the name of the last experiment of the part before.",
        )

    @staticmethod
    def states(store: Store) -> list[tuple[str, str]]:
        """The name and the state of every experiment, oldest first: quick, however many."""
        if store.version() is None:
            return []
        store.prepare()
        table = s.experiments.c
        with store.reading() as connection:
            found = connection.execute(select(table.name, table.state).order_by(table.id)).all()
        return [(name, state) for name, state in found]

    @staticmethod
    def browsed(store: Store, *, search: str, first: int, limit: int) -> tuple[list[_Line], int]:
        """Some experiments as people look for them, and how many there are in all.

        Args:
            store: the database.
            search: what their name or description holds, in letters of either case.
            first: how many to pass over, of those that run first, then of the newest first.
            limit: how many at most.
        """
        if store.version() is None:
            return [], 0
        store.prepare()
        table = s.experiments.c
        place = case((table.state == "running", 0), (table.state == "paused", 1), else_=2)
        wanted = _LINES.order_by(place, table.created.desc(), table.id.desc())
        count = select(func.count()).select_from(s.experiments)
        if search:
            fits = or_(
                *(
                    func.lower(column).contains(search.lower(), autoescape=True)
                    for column in (table.name, table.description)
                )
            )
            wanted, count = wanted.where(fits), count.where(fits)
        with store.reading() as connection:
            total = int(connection.execute(count).scalar_one())
            found = connection.execute(wanted.offset(first).limit(limit)).all()
        return [(*_LISTED(row[:3], "an experiment"), _head(row[3:])) for row in found], total

    @contextmanager
    def reading(self) -> Iterator[_Reading]:
        """A transaction that sees one state of the books."""
        with self._store.reading() as connection:
            self._store.check_generation(self._generation)
            yield _Reading(connection, self._number)

    @contextmanager
    def writing(self) -> Iterator[_Writing]:
        """A transaction that others wait for; on an exception nothing of it remains."""
        with self._store.writing() as connection:
            self._store.check_generation(self._generation)
            tx = _Writing(connection, self._number, lock=not self._store.sqlite)
            yield tx
            tx.save()

    def close(self) -> None:
        """Let go of connections."""
        self._store.close()


class _Reading:
    def __init__(self, connection: Connection, number: int, *, lock: bool = False) -> None:
        self._connection = connection
        self._number = number
        self._time: float | None = None
        if connection.dialect.name == "sqlite":
            self.head = _head(sql.READ_HEAD(connection, experiment=number).one())
        else:
            read = sql.LOCK_HEAD_AND_TIME if lock else sql.READ_HEAD_AND_TIME
            row = tuple(read(connection, experiment=number).one())
            self.head, self._time = _head(row[:-1]), row[-1]

    def now(self) -> float:
        """The time by the server's clock, as the head was read; in a file, by this process's."""
        return time.time() if self._time is None else self._time

    def _run(self, statement: sql.Prepared, **values: Any) -> CursorResult[Any]:
        return statement(self._connection, experiment=self._number, **values)

    def _fetch(self, statement: sql.Prepared, **values: Any) -> list[Any]:
        return statement.fetch(self._connection, experiment=self._number, **values)

    def opened(self, phase: int) -> Opened:
        """A phase's plan."""
        row = self._run(sql.PHASE, phase=phase).one_or_none()
        if row is None:
            raise _damaged(f"the plan of phase {phase}", "it is missing")
        return _opened((phase, *tuple(row)))

    def request(self, name: str) -> Request | None:
        """The named ask, if there was one."""
        row = self._run(sql.REQUEST, name=name).one_or_none()
        return None if row is None else Request(*_REQUESTS(row, f"request {name!r}"))

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """Assignments with what became of them, in order of id, in pieces."""
        start: int | None = first
        while start is not None and start < end:
            piece = {"start": start, "end": min(end, start + _PIECE)}
            found = self._fetch(sql.ASSIGNMENTS, **piece)
            rows = np.empty(len(found), dtype=ROW)
            _fill(rows, found, "id", "phase", "arm", "probability", "asked")
            rows["reward"] = rows["told"] = rows["lost"] = np.nan
            rows["late"] = False
            gaps = len(rows) < piece["end"] - start  # an audit reads what others refuse
            numbers = set(rows["id"].tolist()) if gaps else set()
            for statement, names in (
                (sql.OUTCOMES, ("reward", "told", "late")),
                (sql.LOSSES, ("lost",)),
            ):
                found = self._fetch(statement, **piece)
                found = [row for row in found if row[0] in numbers] if gaps else found
                if found:
                    with _numbers():
                        at = np.searchsorted(rows["id"], [row[0] for row in found])
                        columns = list(zip(*found, strict=True))[1:]
                        for name, values in zip(names, columns, strict=True):
                            rows[name][at] = values
            yield rows
            start = piece["end"] if len(rows) else self._next_after(piece["end"])

    def _next_after(self, start: int) -> int | None:
        """The first assignment from a number on: counters that are wrong may leave a wide gap."""
        found = self._fetch(sql.NEXT_ASSIGNMENT, start=start, size=1)
        return int(found[0][0]) if found else None

    def answers(self, first: int, end: int) -> Iterator[tuple[Ids, Array]]:
        """Arms and rewards of assignments that are settled, in order of id, in pieces."""
        for start in range(first, end, _PIECE):
            piece = {"start": start, "end": min(end, start + _PIECE)}
            arms = _column(self._fetch(sql.ARMS, **piece), np.int64)
            if len(arms) != piece["end"] - start:
                raise _damaged(f"assignments {start} to {piece['end'] - 1}", "some are missing")
            rewards = _column(self._fetch(sql.VALUES, **piece), float)
            if len(rewards) < len(arms):
                told = self._fetch(sql.REWARDS, **piece)
                rewards = np.full(len(arms), np.nan)
                rewards[[number - start for number, _ in told]] = [value for _, value in told]
            rewards[_column(self._fetch(sql.LOST_NUMBERS, **piece), np.int64) - start] = np.nan
            yield arms, rewards

    def times(self, first: int, end: int) -> Iterator[Rows]:
        """When assignments that are settled were given out, told or lost, in pieces."""
        for start in range(first, end, _PIECE):
            piece = {"start": start, "end": min(end, start + _PIECE)}
            size = piece["end"] - start
            rows = np.empty(size, dtype=TIMES)
            rows["asked"] = self._times(sql.ASKED_SPAN, sql.ASKED_TIMES, size, piece)
            told = self._times(sql.TOLD_SPAN, sql.TOLD_TIMES, size, piece)
            if len(told) == size:
                rows["told"] = told
            else:
                numbers = _column(self._fetch(sql.TOLD_NUMBERS, **piece), np.int64)
                rows["told"] = np.nan
                rows["told"][numbers - start] = told
            rows["lost"] = np.nan
            for number, lost in self._fetch(sql.LOSSES, **piece):
                rows["told"][number - start], rows["lost"][number - start] = np.nan, lost
            yield rows

    def _times(
        self, span: sql.Prepared, every: sql.Prepared, size: int, piece: dict[str, int]
    ) -> Array:
        """Times in order of id. That many are one and the same is seen without reading them."""
        if size > _FEW:
            count, first, last = self._fetch(span, **piece)[0]
            if count == size and first == last:
                return np.full(size, first)
        return _column(self._fetch(every, **piece), float)

    def rewards(self, ids: Ids) -> dict[int, float]:
        """The rewards on record of these assignments."""
        return {row[0]: row[1] for row in self._among(sql.REWARDS, ids)}

    def lost(self, ids: Ids) -> set[int]:
        """Which of these assignments were given up."""
        return {row[0] for row in self._among(sql.LOST_NUMBERS, ids)}

    def _among(self, statement: sql.Prepared, ids: Ids) -> Iterator[Any]:
        """Rows whose number is among ids, one range after the other."""
        if not len(ids):
            return
        ordered, wanted = np.sort(ids), set(ids.tolist())
        for run in np.split(ordered, np.flatnonzero(np.diff(ordered) > _FAR) + 1):
            for row in self._fetch(statement, start=int(run[0]), end=int(run[-1]) + 1):
                if row[0] in wanted:
                    yield row

    def lost_arms(self, phase: int, start: int, count: int) -> NDArray[np.int64]:
        """The arms of a phase's lost assignments in the order of their loss, from one on."""
        found = self._run(sql.LOST_IN_ORDER, phase=phase, start=start, end=start + count)
        ids = np.array(found.scalars().all(), dtype=np.int64)
        arms = {row[0]: row[3] for row in self._among(sql.ASKED_NUMBERS, ids)}
        return np.array(_of_each(arms, ids), dtype=np.int64)

    def unsettled(self, start: int, end: int, *, asked_by: float | None = None) -> Ids:
        """The ids in a range that are neither told nor lost, or the first of them alone."""
        if asked_by is None:
            return self._first_unsettled(start, end)
        found: list[Ids] = []
        for begin in range(start, end, _PIECE):
            ids = self._free(begin, min(end, begin + _PIECE))
            if ids.size:
                times = {row[0]: row[1] for row in self._among(sql.ASKED_NUMBERS, ids)}
                asked = np.array(_of_each(times, ids))
                found.append(ids[asked <= asked_by])
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def _first_unsettled(self, start: int, end: int) -> Ids:
        """Long ranges are only counted, ever longer ones, and halved where one is not settled."""
        size = _FEW
        while start < end:
            stop = min(end, start + size)
            if stop - start <= _FEW:
                free = self._free(start, stop)
                if free.size:
                    return free[:1]
                start, size = stop, 4 * size
            elif self._settled(start, stop) == stop - start:
                start, size = stop, 4 * size
            else:
                end, size = stop, max(_FEW, (stop - start) // 2)
        return np.empty(0, dtype=np.int64)

    def _free(self, start: int, end: int) -> Ids:
        free = np.ones(end - start, dtype=bool)
        for statement in (sql.TOLD_NUMBERS, sql.LOST_NUMBERS):
            known = self._fetch(statement, start=start, end=end)
            free[_column(known, np.int64) - start] = False
        return start + np.flatnonzero(free)

    def _settled(self, start: int, end: int) -> int:
        counted = (sql.TOLD_COUNT, sql.LOST_UNTOLD_COUNT)
        return sum(self._fetch(each, start=start, end=end)[0][0] for each in counted)

    def asked(self, number: int) -> float:
        """When an assignment was given out."""
        found = self._fetch(sql.ASKED_NUMBERS, start=number, end=number + 1)
        if not found:
            raise _damaged(f"assignment {number}", "it is missing")
        return float(found[0][1])

    def deferred(self, *, waiting: bool = False) -> Iterator[tuple[Ids, Ids]]:
        """Assignments that were outstanding when their phase closed, in order of id, in pieces."""
        start, statement = 0, sql.WAITING if waiting else sql.DEFERRED
        while found := self._fetch(statement, start=start, size=_PAGE):
            numbers, entries = np.array(found, dtype=np.int64).T
            yield numbers, entries
            start = int(numbers[-1]) + 1

    def arrived(self) -> Ids:
        """Those of them that are told or lost by now, and that no summary has yet."""
        return _column(self._fetch(sql.ARRIVED), np.int64)

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The summaries told to the policy, from a number on."""
        for row in self._from(sql.ENTRIES, start):
            number, phase, first, end, late, text, digest = _ENTRIES(row, "a summary")
            summary = _read(_summary, text, f"summary {number}")
            yield Entry(number, phase, first, end, bool(late), summary, digest)

    def phases(self, start: int = 1) -> Iterator[Opened]:
        """The plans that were opened, from a phase on."""
        for row in self._from(sql.PHASES, start):
            yield _opened(row)

    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        """The log, from a number on, up to a limit."""
        for row in self._from(sql.EVENTS, start, limit):
            number, at, kind, data, tip = _EVENTS(row, "an event")
            yield Event(number, at, kind, _read(_mapping, data, f"event {number}"), tip)

    def requests(self) -> Iterator[Request]:
        """The named asks, in the order made."""
        for row in sql.REQUESTS.stream(self._connection, _PAGE, experiment=self._number):
            yield Request(*_REQUESTS(row, "a request"))

    def losses(self) -> Iterator[Loss]:
        """What was given up, phase by phase, in the order of loss."""
        for row in sql.LOST.stream(self._connection, _PAGE, experiment=self._number):
            yield Loss(*_LOSSES(row, "a loss"))

    def misdated(self) -> Iterator[str]:
        """What has a time on record beside that of the event or assignment it belongs to."""
        if self._fetch(sql.MISDATED):
            yield "The trial"
        for row in sql.MISDATED_REQUESTS.stream(self._connection, _PAGE, experiment=self._number):
            yield f"Request {row[0]!r}"

    def sizes(self) -> Sizes:
        """How many rows there are."""
        return Sizes(*(int(self._fetch(each)[0][0]) for each in sql.SIZES))

    def _from(self, statement: sql.Prepared, start: int, limit: int | None = None) -> Iterator[Any]:
        """Rows from a number on, which is their first column, up to a limit."""
        left = 2**62 if limit is None else limit
        while left and (found := self._fetch(statement, start=start, size=min(left, _PAGE))):
            yield from found
            start, left = found[-1][0] + 1, left - len(found)


class _Writing(_Reading):
    def __init__(self, connection: Connection, number: int, *, lock: bool) -> None:
        super().__init__(connection, number, lock=lock)

    def save(self) -> None:
        """Write the counters."""
        self._run(sql.SAVE_HEAD, **_columns(self.head))

    def give(
        self, arms: NDArray[np.int64], probabilities: Array, *, at: float, request: Request | None
    ) -> None:
        """Add assignments of the open phase, from the head's `given` on."""
        first = self.head.given
        added = sql.GIVE(
            self._connection,
            experiment=self._number,
            phase=self.head.phase,
            asked=at,
            number=np.arange(first, first + len(arms)),
            arm=arms,
            probability=probabilities,
        )
        self._all_new(added, len(arms), "assignments")
        if request is not None:
            self._run(sql.ADD_REQUEST, at=at, **vars(request))

    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        """Add outcomes, except where there is one already; gives how many were added."""
        return sql.TELL(
            self._connection,
            experiment=self._number,
            told=at,
            number=ids,
            reward=rewards,
            late=late.astype(np.int64),
        )

    def lose(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Record that outcomes will not come, in the order given."""
        numbers = np.asarray(ids, dtype=np.int64)
        phases = {row[0]: row[2] for row in self._among(sql.ASKED_NUMBERS, numbers)}
        of = np.array(_of_each(phases, numbers), dtype=np.int64)
        for phase in np.unique(of).tolist():
            lost = numbers[of == phase]
            before = int(self._run(sql.LOST_OF_PHASE, phase=phase).scalar_one())
            added = sql.LOSE(
                self._connection,
                experiment=self._number,
                phase=phase,
                reason=reason,
                at=at,
                number=lost,
                place=np.arange(before, before + len(lost)),
            )
            self._all_new(added, len(lost), "losses")

    def refuse(self, ids: Ids, rewards: Array, *, at: float) -> int:
        """Record that rewards were refused, except where one was before; gives how many are new."""
        return sql.REFUSE(
            self._connection, experiment=self._number, at=at, number=ids, reward=rewards
        )

    def defer(self, ids: Ids) -> None:
        """Record that assignments were outstanding when their phase closed."""
        added = sql.DEFER(self._connection, experiment=self._number, entry=-1, number=ids)
        self._all_new(added, len(ids), "deferrals")

    def amend(self, ids: Ids, *, entry: int) -> None:
        """Record which summary has the outcomes of assignments that were outstanding."""
        same = {"experiment": self._number, "entry": entry}
        sql.AMEND.for_each(self._connection, [{**same, "id": number} for number in ids.tolist()])

    @staticmethod
    def _all_new(added: int, size: int, rows: str) -> None:
        if added != size:
            raise StoreError(
                f"There are {rows} on record that the experiment's counters do not know of.",
                field="store",
                remedy="Was the database edited, or restored in part? Restore the whole of it.",
            )

    def add_entry(self, entry: Entry) -> None:
        """Add a summary."""
        text = canonical(summary_data(entry.summary))
        self._run(sql.ADD_ENTRY, **{**vars(entry), "summary": text})

    def open_phase(self, opened: Opened) -> None:
        """Add a plan."""
        plan = opened.plan
        text = canonical(plan_data(plan))
        self._run(sql.ADD_PHASE, phase=plan.phase, first=opened.first, plan=text)

    def add_event(self, event: Event) -> None:
        """Add to the log."""
        self._run(sql.ADD_EVENT, **{**vars(event), "data": canonical(event.data)})


def _column(found: Sequence[Any], kind: type) -> NDArray[Any]:
    """The only column of rows."""
    with _numbers():
        return np.fromiter(chain.from_iterable(found), dtype=kind, count=len(found))


def _of_each(known: Mapping[int, Any], ids: Ids) -> list[Any]:
    """What is known of each of these assignments."""
    try:
        return [known[number] for number in ids.tolist()]
    except KeyError as error:
        raise _damaged(f"assignment {error}", "it is missing") from None


def _fill(rows: Rows, found: Sequence[Any], *names: str) -> None:
    if len(found):
        with _numbers():
            for name, values in zip(names, zip(*found, strict=True), strict=True):
                rows[name] = values


def _insert(store: Store, table: Any) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if store.sqlite else postgresql.insert(table)


def _columns(head: Head) -> dict[str, Any]:
    """The counters as columns; infinities are left empty, for SQLite to be able to sort them."""
    values = {name: getattr(head, name) for name in sql.COUNTERS}
    return {name: None if value == _UNSET.get(name) else value for name, value in values.items()}


def _head(row: Sequence[Any]) -> Head:
    values = dict(zip(sql.COUNTERS, _COUNTERS(row, "the counters"), strict=True))
    for name, unset in _UNSET.items():
        if values[name] is None:
            values[name] = unset
    for name in ("planned", "open", "provisional"):
        values[name] = bool(values[name])
    return Head(**values)


def _read(parse: Callable[[str], T], text: str, what: str) -> T:
    try:
        return parse(text)
    except (*UNREADABLE, BestArmError) as error:
        raise _damaged(what, str(error)) from error


def _damaged(what: str, why: str) -> DamagedStoreError:
    return damaged(f"The record of {what} cannot be read ({why.rstrip('.')}).", what)


def _opened(row: Sequence[Any]) -> Opened:
    phase, text, first = _PHASES(row, "a plan")
    plan = _read(_plan, text, what := f"the plan of phase {phase}")
    if plan.phase != phase:
        raise _damaged(what, f"it is one of phase {plan.phase}")
    return Opened(plan, first)


class _Typed:
    """Checks that rows hold what their columns say: SQLite takes a text for a number.

    Args:
        table: of the columns.
        names: of the columns, in the order of the rows.
    """

    def __init__(self, table: Table, *names: str) -> None:
        kinds = ((Boolean, (bool, int)), (Integer, (int,)), (Float, (float, int)), (String, (str,)))
        self._columns = [
            (
                name,
                next(known for kind, known in kinds if isinstance(table.c[name].type, kind)),
                bool(table.c[name].nullable),
            )
            for name in names
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


_COUNTERS = _Typed(s.experiments, *sql.COUNTERS)
_LISTED = _Typed(s.experiments, "name", "description", "created")
_KEPT = _Typed(s.experiments, "id", "name", "document", "description")
_REQUESTS = _Typed(s.requests, "name", "count", "first", "size", "phase", "waiting")
_LOSSES = _Typed(s.losses, "number", "phase", "place", "reason", "at")
_PHASES = _Typed(s.phases, "phase", "plan", "first")
_ENTRIES = _Typed(s.entries, "number", "phase", "first", "end", "late", "summary", "digest")
_EVENTS = _Typed(s.events, "number", "at", "kind", "data", "hash")


@contextmanager
def _numbers() -> Iterator[None]:
    """Say what it means when a column of numbers holds something else."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise _damaged("assignments, outcomes or losses", str(error)) from error


def _mapping(text: str) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        raise TypeError("it is not an object")
    return data


def _summary(text: str) -> Summary:
    return Summary(**json.loads(text))


def _plan(text: str) -> Plan:
    data = _mapping(text)
    phase = data["phase"]
    if data["counts"] is not None:
        plan = Plan.fixed(data["counts"], phase=phase, center=data.get("center", 0.0))
    else:
        plan = Plan.randomised(
            data["weights"],
            data["pulls"],
            phase=phase,
            open=data["open"],
            most=data["most"],
            provisional=data.get("provisional", False),
            center=data.get("center", 0.0),
        )
    if plan_data(plan) != data:
        raise ValueError("it contradicts itself")
    return plan
