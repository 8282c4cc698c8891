"""Ask: assignments, from what the caller wants to the rows that are written.

`read` makes an `Ask` of what the caller gives, and `assign` carries it out in a transaction. Who
asks again, under the same name or for the same units, gets the assignments that are on record.
For the others what is known of each round, and its forecast, is fixed before its arms are drawn.
After the end `serve` gives the option to use, and nothing is recorded.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bestarm.checks import whole
from bestarm.errors import ConflictingRequestError, InvalidInputError
from bestarm.live import events, tell
from bestarm.live.draws import MOST, Draws
from bestarm.live.forecasts import Forecasts, Row, read_covariates, read_forecasts
from bestarm.live.inputs import lone_decision_point, read_keys, read_label
from bestarm.live.options import Options
from bestarm.live.state import Precondition
from bestarm.live.store.head import Head, Stage
from bestarm.live.store.ledger import Snapshot, Transaction
from bestarm.live.store.rows import Ids, Request, UnitKey, UnitRecord, canonical, damaged
from bestarm.live.units import digest_of, known_of
from bestarm.live.values import Batch, Known
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem
from bestarm.units import plural

Found = Sequence[UnitRecord | None]  # the round that each unit has; empty where none is named


class Ask(NamedTuple):
    """What the caller wants; lists have one entry per round."""

    rounds: int
    keys: Sequence[UnitKey] | None = None
    covariates: Sequence[Row] | None = None
    forecasts: Array | None = None  # the caller's own
    available: bool = True  # whether anything may be drawn
    name: str | None = None
    precondition: Precondition | None = None
    after_steps: bool = True  # whether all pending steps come first, or those that must


class StepPendingError(Exception):
    """A step is pending that comes before an `ask`."""


# --- what the caller gives ----------------------------------------------------------------------


def read(
    count: int | None,
    *,
    unit: Any,
    decision_point: Any,
    available: bool,
    request_id: str | None,
    covariates: object,
    forecasts: object,
    precondition: Precondition | None,
) -> Ask:
    """What a call of `Experiment.ask` wants."""
    if isinstance(count, str):
        raise InvalidInputError(
            f"`count` must be a whole number; got {count!r}.",
            field="count",
            value=count,
            remedy=f"For a visitor, or another unit: ask(unit={count!r}).",
        )
    if not available and (unit is None or decision_point is None):
        message = "`available` is about a unit at a decision point, and these are not named."
        remedy = 'Name both, for example unit="person-7", decision_point="2026-11-18 09:00".'
        raise InvalidInputError(message, field="available", value=available, remedy=remedy)
    keys = None
    if unit is None:
        if decision_point is not None:
            raise lone_decision_point()
    elif request_id is not None:
        message = "A request for a unit needs no name: the unit gets the same assignment again."
        remedy = "Leave the `request_id` out."
        raise InvalidInputError(message, field="request_id", value=request_id, remedy=remedy)
    else:
        keys = _read_units(unit, decision_point, count)
    rounds = (1 if keys is None else len(keys)) if count is None else count
    rounds = whole(rounds, "count", least=1, below=MOST + 1)
    return Ask(
        rounds,
        keys,
        read_covariates(covariates, rounds),
        read_forecasts(forecasts, rounds) if available else None,
        available,
        None if request_id is None else read_label(request_id, "request_id"),
        precondition,
    )


def _read_units(unit: Any, decision_point: Any, count: int | None) -> Sequence[UnitKey]:
    """The units of an `ask`, each once."""
    several = _several(unit)
    points = _several(decision_point)
    keys = read_keys(several, points * len(several) if points == [decision_point] else points)
    if count is not None and count != len(keys):
        named = f"{'is' if len(keys) == 1 else 'are'} {plural(len(keys), 'unit')}"
        message = f"`count` is {count}, and there {named}: each has one assignment."
        remedy = "Leave `count` out; a unit with several decision points names one at a time."
        raise InvalidInputError(message, field="count", value=count, remedy=remedy)
    if len(set(keys)) < len(keys):
        (twice, _), *_ = Counter(keys).most_common(1)
        message = f"Unit {twice.unit!r} is there twice."
        remedy = "Name every unit once, or once per decision point."
        raise InvalidInputError(message, field="unit", value=twice.unit, remedy=remedy)
    return keys


def _several(value: Any) -> list[Any]:
    """The items of a list; what has no order cannot be one, as covariates follow it."""
    unordered = isinstance(value, (str, bytes, Set, Mapping))
    return [value] if unordered or not isinstance(value, Iterable) else [*value]


# --- in a transaction ---------------------------------------------------------------------------


def assign(
    tx: Transaction,
    call: Ask,
    *,
    options: Options,
    draws: Draws,
    forecasts: Forecasts | None,
    now: float,
) -> Batch:
    """Make up to one round of the open phase per round asked for: see `Experiment.ask`.

    Raises:
        StepPendingError: a step comes first.
    """
    labels, found = options.problem.source_labels, find_rounds(tx, call)
    if (before := repeat(tx, call, found, labels)) is not None:
        return before
    new = [place for place in range(call.rounds) if not found or found[place] is None]
    if not call.available:
        _record_unavailable(tx, call, new, now)
        return _batch_of_units(tx, [], labels)
    head = tx.head
    if head.is_overdue(now):
        tell.expire(tx, now)
    stage = head.stage
    if stage.is_pending and (
        call.after_steps or stage is not Stage.REPORTING or not head.available(head.size)
    ):
        raise StepPendingError
    whole(call.rounds, "count", least=1, below=MOST // head.size + 1)
    start, size = head.assigned, head.available(len(new) * head.size)
    rounds = head.rounds + np.arange(size) // head.size
    arms, probabilities, records = np.empty(0, dtype=np.int64), np.empty(0), list[UnitRecord]()
    if size:
        drawn, predicted = draws.of_open_plan(tx), None
        places = new[: size // head.size]
        if forecasts is not None:
            features, rows, own = options.problem.source, call.covariates, call.forecasts
            predicted = forecasts.make(tx, drawn.plan, features, rows, own, places, now)
        arms, probabilities = drawn.arms(tx, start, size)
        if len(arms) < size:
            raise damaged(f"Phase {head.phase} has fewer losses on record than were counted.")
        tx.add_assignments(arms, probabilities, at=now, forecasts=predicted)
        if call.name is not None:
            tx.add(Request(call.name, call.rounds, start, size, head.phase))
            head.requests += 1
        if call.keys is not None or call.covariates is not None:
            records = _record_rounds(tx, call, places)
        head.assigned += size
        head.rounds += size // head.size
        head.oldest = min(head.oldest, now)
        if forecasts is not None:
            forecasts.drawn(range(start, start + size), arms)
    fewer = size < len(new) * head.size and head.state == "running"
    waiting = head.outstanding if fewer else 0
    if len(new) < call.rounds:
        return _batch_of_units(tx, find_rounds(tx, call), labels, waiting=waiting)
    columns, ids = (arms, probabilities, rounds), range(start, start + size)
    return _batch(head, head.phase, ids, columns, labels, waiting, records)


def find_rounds(snapshot: Snapshot, call: Ask) -> Found:
    """The round that each unit of a call has, or None; empty where it names no units.

    After the end no unit is given its round again: all are treated alike then.

    Raises:
        ConflictingRequestError: a unit was available, and now it is not, or the reverse.
    """
    if call.keys is None or snapshot.head.over:
        return []
    found = snapshot.units_named(call.keys)
    for key, record in found.items():
        if (record.size > 0) != call.available:
            was = (
                f"available, and has assignment {record.first}" if record.size else "not available"
            )
            raise ConflictingRequestError(
                f"Unit {key.unit!r} was {was} at decision point {key.decision_point!r}.",
                field="available",
                value=key.unit,
                remedy="Whether a unit is available is known before the draw, and stands. Name its "
                "next decision point.",
            )
    return [found.get(key) for key in call.keys]


def repeat(snapshot: Snapshot, call: Ask, found: Found, labels: tuple[str, ...]) -> Batch | None:
    """What a call was given before, by its name or to all of its units; else None.

    Raises:
        ConflictingRequestError: a request of this name asked for another number then.
    """
    request = None if call.name is None else snapshot.request(call.name)
    if request is None:
        return _batch_of_units(snapshot, found, labels) if found and None not in found else None
    if request.count != call.rounds:
        message = f"The same request asked for {request.count} before, now for {call.rounds}."
        remedy, name = "Use a new request id for every new request.", request.name
        raise ConflictingRequestError(message, field="request_id", value=name, remedy=remedy)
    rows = np.concatenate(list(snapshot.rows(request.first, request.first + request.size)))
    head, waiting = snapshot.head, 0
    short = request.size < request.count * head.size and request.phase == head.phase
    if short and head.planned and head.state == "running" and not head.available(head.size):
        waiting = head.outstanding  # as it is now, whatever it was then
    columns = rows["arm"].copy(), rows["probability"].copy(), rows["round"].copy()
    first, end = (int(rows["round"][place]) for place in (0, -1))
    records = list(snapshot.records(UnitRecord, first, end + 1)) if head.units else []
    ids = range(request.first, request.first + request.size)
    return _batch(head, request.phase, ids, columns, labels, waiting, records)


def _record_unavailable(tx: Transaction, call: Ask, places: Sequence[int], now: float) -> None:
    """Record that units are not available at decision points, unless the experiment is over."""
    if not tx.head.over:
        digest = events.digest_records(_record_rounds(tx, call, places))
        data = {"count": len(places), "assigned": tx.head.assigned, "units": digest}
        events.log(tx, "unavailable", now, **data)


def _record_rounds(tx: Transaction, call: Ask, places: Sequence[int]) -> list[UnitRecord]:
    """Add what is known of new rounds: those asked for at these places."""
    head, records, size = tx.head, list[UnitRecord](), tx.head.size
    for number, place in enumerate(places):
        unit, point = (None, None) if call.keys is None else call.keys[place]
        known = unit, point, None if call.covariates is None else canonical(call.covariates[place])
        salt, turn = secrets.token_hex(16), head.rounds + number
        first = head.assigned + number * size
        if not call.available:
            head.unavailable += 1
            turn, first, size = -head.unavailable, head.assigned, 0
        else:
            head.units += 1
        records.append(UnitRecord(turn, first, size, digest_of(salt, *known), salt, *known))
    tx.add(*records)
    return records


def _batch_of_units(
    snapshot: Snapshot, found: Found, labels: tuple[str, ...], *, waiting: int = 0
) -> Batch:
    """The assignments of rounds that units have, in this order; some may have none."""
    records = [each for each in found if each is not None]
    ids = [number for each in records for number in range(each.first, each.first + each.size)]
    rows = snapshot.rows_of(np.array(ids))
    rows = rows[np.searchsorted(rows["id"], ids)]
    columns = rows["arm"].copy(), rows["probability"].copy(), rows["round"].copy()
    head = snapshot.head
    batch = _batch(head, head.phase, ids, columns, labels, waiting, records)
    return replace(batch, phases=rows["phase"].tolist())


def _batch(
    head: Head,
    phase: int,
    ids: Sequence[int],
    columns: tuple[Ids, Array, Ids],
    labels: tuple[str, ...],
    waiting: int,
    records: Sequence[UnitRecord],
) -> Batch:
    """A batch, with what is known of its rounds if anything is."""
    for column in columns:
        column.flags.writeable = False
    known = [each for record in records for each in [known_of(record)] * record.size]
    return Batch(ids, *columns, labels, phase, waiting, head.state, known=known or None)


# --- after the end ------------------------------------------------------------------------------


def is_shown(end: Mapping[str, Any]) -> bool:
    """Whether the option that was recommended at the end was shown to be the best."""
    return bool(end["final"]) and end["error_bound"] is not None


def served_target(end: Mapping[str, Any], control: int | None) -> int:
    """The target that is served: the best if one was shown, or else the control if there is one."""
    return int(end["target"] if is_shown(end) or control is None else control)


def serve(snapshot: Snapshot, call: Ask, problem: Problem, target: int) -> Batch:
    """Assignments of a target after the end, which are not of the experiment and not recorded; or
    those that a named request was given before."""
    if (before := repeat(snapshot, call, (), problem.source_labels)) is not None:
        return before
    head, count = snapshot.head, call.rounds if call.available else 0
    known = [Known(key.unit, key.decision_point or None) for key in call.keys or ()]
    label, features = problem.target_labels[target], problem.target[target]
    same = np.flatnonzero((problem.source == features).all(axis=1)).tolist()
    named = [arm for arm in same if problem.source_labels[arm] == label] or same
    labels = problem.source_labels
    arm, labels = (named[0], labels) if named else (-1, (*labels, label))
    parts = np.full(count, arm), np.ones(count), head.rounds + np.arange(count)
    for part in parts:
        part.flags.writeable = False
    columns = (None,) * count, *parts, labels, head.phase, 0, head.state
    return Batch(*columns, known=known or None, experiment=False)
