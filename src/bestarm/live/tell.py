"""Tell: an outcome, from what the caller gives to the rows that are written.

What is told comes with ids, or with units that have one assignment each. `read` makes a `Tell` of
it, and `record` carries that out in a transaction, all or nothing: an outcome is added, or is kept
as late; where outcomes have a window, it is a report, and the last one enters when the window ends.
`fail` gives outcomes up, and `expire` settles those whose time is up.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bestarm.checks import suggestion, whole
from bestarm.errors import ConflictingOutcomeError, InvalidInputError
from bestarm.live import events
from bestarm.live.events import log
from bestarm.live.inputs import lone_decision_point, read_keys, read_reward
from bestarm.live.state import Precondition, check_assigned, find_oldest, find_settled
from bestarm.live.store.head import Head
from bestarm.live.store.ledger import Snapshot, Transaction
from bestarm.live.store.rows import GuardrailValue, Ids, Report, Rows, UnitKey
from bestarm.live.units import unknown_unit
from bestarm.live.values import Assignment, Receipt
from bestarm.policies.guardrail import Guardrail

T = TypeVar("T")
Value = tuple[int, str, float]  # an assignment's id, the name of a guardrail, what was told of it
_Named = Mapping[str, float | None]  # a reward and values of guardrails
_Pairs = Iterable[tuple[int, float]] | Iterable[tuple[int | Assignment | None, float | _Named]]
_Mappings = Mapping[int, float | _Named] | Mapping[Assignment, float | _Named]
Outcomes = _Mappings | Mapping[int | None, float] | _Pairs

_PIECE = 1000  # assignments looked through at a time


class Tell(NamedTuple):
    """Outcomes and values of guardrails, as they are recorded."""

    ids: Sequence[int]  # each once
    rewards: Sequence[float]  # of each
    values: Sequence[Value] = ()  # of guardrails
    served: int = 0  # outcomes of assignments made after the end, which are not recorded
    precondition: Precondition | None = None

    @property
    def is_of_served(self) -> bool:
        """Whether all are of assignments made after the end, so that nothing is recorded."""
        return bool(self.served) and not self.ids and not self.values


# --- what the caller gives ----------------------------------------------------------------------


def name_told(number: object, unit: Any, decision_point: Any) -> Any:
    """What an outcome is told of: the id of an assignment, or a unit instead."""
    if number is not None and unit is not None:
        message = "An outcome needs the id of an assignment or its unit, and not both."
        remedy = 'For example tell(17, 1) or tell(unit="visitor-81", reward=1).'
        raise InvalidInputError(message, field="id", value=number, remedy=remedy)
    if unit is None:
        if decision_point is not None:
            raise lone_decision_point()
        return number
    return read_keys([unit], [decision_point])[0]


def read_pairs(outcomes: Any, guardrails: Collection[str] = ()) -> list[tuple[Any, Any]]:
    """Ids, assignments or units, each with its reward or with names and values.

    They come from a mapping, from pairs or from a data frame, in which there may be a column per
    guardrail.
    """
    if hasattr(outcomes, "columns"):
        return _read_table(outcomes, guardrails)
    listed = outcomes.items() if isinstance(outcomes, Mapping) else outcomes
    pairs = list(listed) if isinstance(listed, Iterable) else [listed]
    try:
        if pairs and isinstance(pairs[0], (Mapping, str)):
            raise TypeError  # noqa: TRY301 - their names or letters are not ids and rewards
        return [(named, told) for named, told in pairs]
    except (TypeError, ValueError):
        wanted = "`outcomes` must be a mapping from id to reward, or pairs of them"
        message = f"{wanted}; got {reprlib.repr(pairs)}."
        remedy = "For example {0: 1.5, 1: 0.2} or zip(ids, rewards)."
        raise InvalidInputError(message, field="outcomes", value=pairs, remedy=remedy) from None


def _read_table(table: Any, guardrails: Collection[str]) -> list[tuple[Any, Any]]:
    columns = set(table.columns)
    names = [name for name in guardrails if name in columns]
    if not {"id", "unit"} & columns or not ({"reward"} & columns or names):
        message = "A table of outcomes needs the columns 'id' and 'reward'."
        found, remedy = list(table.columns), "Rename its columns."
        raise InvalidInputError(message, field="outcomes", value=found, remedy=remedy)
    if "id" in columns:
        named = table["id"].tolist()
    else:
        points = table["decision_point"] if "decision_point" in columns else [None] * len(table)
        named = read_keys(*map(_cells, (table["unit"], points))) if len(table) else []
    if not names:
        return list(zip(named, table["reward"].tolist(), strict=True))
    names += {"reward"} & columns
    rows = zip(*(table[name].tolist() for name in names), strict=True)
    told = (dict(zip(names, row, strict=True)) for row in rows)
    return [
        (each, {name: value for name, value in known.items() if not _is_missing(value)})
        for each, known in zip(named, told, strict=True)
    ]


def _cells(column: Iterable[Any]) -> list[Any]:
    """The cells of a column; where some are empty, whole numbers are kept as others there."""
    known = (None if _is_missing(each) else each for each in column)
    return [int(x) if isinstance(x, float) and x.is_integer() else x for x in known]


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def with_ids(snapshot: Snapshot, pairs: Sequence[tuple[Any, T]]) -> Sequence[tuple[Any, T]]:
    """Pairs with the ids of assignments in place of units that have one each.

    After the end units are served like all others: it is None unless an outcome is outstanding.

    Raises:
        UnknownAssignmentError: a unit has none.
        InvalidInputError: the round of a unit has several.
    """
    keys = list(dict.fromkeys(named for named, _ in pairs if isinstance(named, UnitKey)))
    found, ids = snapshot.units_named(keys), dict[UnitKey, int | None]()
    if snapshot.head.over:
        ids = {key: found[key].first for key in found if found[key].size == 1}
        told, _ = snapshot.settlements([number for number in ids.values() if number is not None])
        ids = {key: None if ids.get(key) in told else ids.get(key) for key in keys}
    else:
        for key in keys:
            record = found.get(key)
            if record is None or not record.size:
                raise unknown_unit(key)
            if record.size > 1:
                last = record.first + record.size - 1
                message = f"Unit {key.unit!r} has {record.size} assignments, one per option."
                remedy = f"Tell their outcomes by id: {record.first} to {last}."
                value = key.unit
                raise InvalidInputError(
                    message, field="unit", value=value, remedy=remedy, about=key
                )
            ids[key] = record.first
    return [(ids[each] if isinstance(each, UnitKey) else each, told) for each, told in pairs]


def read_told(pairs: Iterable[tuple[Any, Any]], precondition: Precondition | None = None) -> Tell:
    """What pairs of ids, or assignments, and rewards tell, or names with values."""
    first: dict[int, float] = {}
    values, served = list[Value](), 0
    for named, told in pairs:
        number = _outcome_id(named)
        served += number is None  # nothing is recorded of it
        if isinstance(told, float) or not isinstance(told, Mapping):
            told = {"reward": told}  # noqa: PLW2901
        for name, value in told.items():
            read = read_reward(value, str(name), about=number)
            if number is None:
                continue
            if name != "reward":
                values.append((number, str(name), read))
            elif first.setdefault(number, read) != read:
                raise _conflict(number, first[number], read)
    return Tell(list(first), list(first.values()), values, served, precondition)


def _outcome_id(number: object) -> int | None:
    if type(number) is int and 0 <= number < 2**63:
        return number
    if number is None or isinstance(number, Assignment):
        return None if number is None else number.id
    if isinstance(number, np.floating) and number.is_integer():
        number = int(number)  # a row of a table of ids and rewards
    # Numbers that no id can be are unknown ids, whatever their size.
    return max(-1, min(whole(number, "id"), 2**63 - 1))


def read_ids(ids: object) -> tuple[Ids, int]:
    """Ids, each once, in the same order; and how many assignments made after the end have none."""
    every = ids if isinstance(ids, Iterable) else [ids]
    given = [each.id if isinstance(each, Assignment) else each for each in every]
    numbers = (whole(each, "id", least=0, below=2**63) for each in given if each is not None)
    return np.array(list(dict.fromkeys(numbers)), dtype=np.int64), given.count(None)


# --- in a transaction ----------------------------------------------------------------------------


def record(
    tx: Transaction,
    call: Tell,
    *,
    bounds: tuple[float, float] | None,
    guardrails: Sequence[Guardrail],
    now: float,
) -> Receipt:
    """Record outcomes and values of guardrails, all or none: see `Experiment.tell_many`.

    Rewards and values outside their bounds are refused, and counted once per assignment.
    """
    head, ids = tx.head, call.ids
    if call.served:
        check_served(head)
    values, late = _new_values(tx, call.values, guardrails, now) if call.values else ([], 0)
    if head.is_overdue(now):
        expire(tx, now)
    low, high = bounds or (-math.inf, math.inf)
    pairs = zip(ids, call.rewards, strict=True)
    outside = {number: reward for number, reward in pairs if not low <= reward <= high}
    check_assigned(list(outside) or ids, head)
    if outside:
        refused = np.array(list(outside)), np.array(list(outside.values()))
        head.refusals += tx.add_refusals(*refused, at=now)
        number, reward = next(iter(outside.items()))
        raise InvalidInputError(
            f"`reward` must lie between {low:g} and {high:g}; got {reward:g}.",
            field="reward",
            value=reward,
            remedy="The policy's guarantee rests on the bounds that it was made with.",
            about=number,
        )
    told = _record_outcomes if head.window is None else _record_reports
    receipt = told(tx, ids, call.rewards, now)
    if values:
        tx.add(*values)
        head.values += len(values)
    return replace(receipt, values=len(values), late=receipt.late + late, served=call.served)


def check_served(head: Head) -> None:
    """Raise InvalidInputError, as outcomes have no id, unless the experiment is over."""
    if not head.over:
        needs = "An outcome needs the id of an assignment or its unit"
        message = f"{needs}: the experiment is {head.state}."
        remedy = "Use the ids that `ask` returned: only assignments made after the end have none."
        raise InvalidInputError(message, field="id", value=None, remedy=remedy)


def _record_outcomes(
    tx: Transaction, ids: Sequence[int], rewards: Sequence[float], now: float
) -> Receipt:
    """Add outcomes that enter at once, if they come in time."""
    head, (known, lost) = tx.head, tx.settlements(ids)
    new: dict[int, float] = {}
    for number, reward in zip(ids, rewards, strict=True):
        before = known.get(number)
        if before is None:
            new[number] = reward
        elif before != reward:
            raise _conflict(number, before, reward)
    lost &= new.keys()
    late = set(new) if head.over else lost
    if new:
        head.last_told = max(head.last_told, now)
        _add_outcomes(tx, new, now, late=late, lost=lost)
    if late:
        data = events.late_data(np.array([*late]), np.array([new[each] for each in late]))
        log(tx, "late", now, **data)
    return Receipt(len(new), len(ids) - len(new), len(late))


def _new_values(
    tx: Transaction, values: Sequence[Value], guardrails: Sequence[Guardrail], now: float
) -> tuple[list[GuardrailValue], int]:
    """The values that are not on record, as they are to be added, and how many come too late: after
    the window of their guardrail, in which the value is what was told by then, or `otherwise`.

    Raises:
        InvalidInputError: there is no guardrail of a name, or a value is outside its bounds.
        ConflictingOutcomeError: another value was told before. A value counts from when it is told.
    """
    places = {each.name: place for place, each in enumerate(guardrails)}
    outside: dict[int, tuple[str, float]] = {}
    for number, name, value in values:
        if name not in places:
            known = "It has none: the outcome itself is the `reward`."
            if places:
                known = f"There is {', '.join(map(repr, places))}."
            raise InvalidInputError(
                f"The experiment has no guardrail {name!r}.",
                field="guardrail",
                value=name,
                remedy=suggestion(name, [*places, "reward"]) or known,
            )
        low, high = guardrails[places[name]].bounds
        if not low <= value <= high:
            outside.setdefault(number, (name, value))
    check_assigned(list(outside) or [number for number, _, _ in values], tx.head)
    if outside:
        refused = np.array(list(outside)), np.array([value for _, value in outside.values()])
        tx.head.refused_values += tx.add_refusals(*refused, at=now)
        number, (name, value) = next(iter(outside.items()))
        low, high = guardrails[places[name]].bounds
        raise InvalidInputError(
            f"`{name}` must lie between {low:g} and {high:g}; got {value:g}.",
            field=name,
            value=value,
            remedy="What is promised of a guardrail rests on its bounds.",
            about=number,
        )
    records = tx.records_of(GuardrailValue, [number for number, _, _ in values])
    told = {(each.assignment, each.guardrail): each.value for each in records}
    rows = tx.rows_of(np.array(sorted({number for number, _, _ in values}), dtype=np.int64))
    asked = dict(rows[["id", "asked"]].tolist())
    new: dict[tuple[int, int], float] = {}
    late = set[tuple[int, int]]()
    for number, name, value in values:
        key, window = (number, places[name]), guardrails[places[name]].window
        before = told.get(key, new.get(key))
        if before == value:
            continue
        if window is not None and asked[number] + window <= now:
            late.add(key)
        elif before is None:
            new[key] = value
        else:
            message = f"Of assignment {number}, {name!r} was already told as {before!r}, now "
            message += f"{value!r}."
            remedy = "Tell a guardrail's value once it is settled: it cannot be changed."
            raise ConflictingOutcomeError(
                message, field=name, value=value, remedy=remedy, about=number
            )
    return _value_records(tx, new, rows, now), len(late)


def _value_records(
    tx: Transaction, new: Mapping[tuple[int, int], float], rows: Rows, now: float
) -> list[GuardrailValue]:
    """Values by assignment and guardrail, as they are added; the rows have all assignments."""
    drawn = {number: (phase, arm) for number, phase, arm in rows[["id", "phase", "arm"]].tolist()}
    return [
        GuardrailValue(count, number, *drawn[number], guardrail, value, now)
        for count, ((number, guardrail), value) in enumerate(new.items(), tx.head.values)
    ]


def _add_outcomes(
    tx: Transaction,
    new: dict[int, float],
    now: float,
    *,
    late: Set[int] = frozenset(),
    lost: Set[int] = frozenset(),
) -> None:
    """Add outcomes, of which some are late and some of these lost, and count them."""
    head = tx.head
    tx.add_outcomes(list(new), list(new.values()), at=now, late=[each in late for each in new])
    was_blocked = head.is_blocked
    head.phase_outcomes += head.settle([number for number in new if number not in lost])
    head.outcomes += len(new) - len(late)
    head.late += len(late)
    head.lowest = min(head.lowest, *new.values())
    head.highest = max(head.highest, *new.values())
    # While it is held up, `settled_end` is what it waits for.
    if head.is_blocked and (not was_blocked or head.settled_end in new):
        find_settled(tx)


def _conflict(number: int, before: float, now: float) -> ConflictingOutcomeError:
    """The error for an outcome that contradicts the one on record."""
    told, then = f"{before:g}", f"{now:g}"
    if told == then:  # they differ in digits that are seldom shown
        told, then = repr(before), repr(now)
    return ConflictingOutcomeError(
        f"Assignment {number} was already told {told}, now {then}.",
        field="reward",
        value=now,
        remedy="Outcomes cannot be changed: the plans after them rest on them.",
        about=number,
    )


def _record_reports(
    tx: Transaction, ids: Sequence[int], rewards: Sequence[float], now: float
) -> Receipt:
    """Record what is told of outcomes that have a window: the last report within it counts.

    What is told later is kept, and is not used.
    """
    head, (settled, lost) = tx.head, tx.settlements(ids)
    reported = {report.assignment: report.reward for report in tx.records_of(Report, ids)}
    known = settled | reported
    new = {each: to for each, to in zip(ids, rewards, strict=True) if known.get(each) != to}
    late = [each for each in new if head.over or each in settled or each in lost]
    if new:
        head.last_told = max(head.last_told, now)
        flags = np.isin(list(new), late).tolist()
        first, rows = head.reports, enumerate(zip(new.items(), flags, strict=True), head.reports)
        tx.add(*(Report(number, *told, now, flag) for number, (told, flag) in rows))
        head.reports += len(new)
        head.late += len(late)
        head.early += len(new.keys() - reported.keys() - set(late))
    if late:
        data = events.late_data(np.array(late), np.array([new[each] for each in late]))
        log(tx, "late", now, **data, reports=[first, head.reports])
    return Receipt(len(new), len(ids) - len(new), len(late), held=len(new) - len(late))


def fail(tx: Transaction, ids: Ids, *, reason: str, now: float) -> None:
    """Give outcomes up: see `Experiment.fail_many`."""
    check_assigned(ids.tolist(), tx.head)
    expire(tx, now)
    known, lost = tx.settlements(ids.tolist())
    remedy = "Outcomes cannot be changed: the plans after them rest on them."
    if tx.head.window is not None:
        reports = tx.records_of(Report, ids.tolist())
        known |= {report.assignment: report.reward for report in reports}
        remedy = "Within its window another reward can be told; after that it stands."
    ids = np.array([each for each in ids.tolist() if each not in lost], dtype=np.int64)
    for number in ids.tolist():
        if number in known:
            message = f"Assignment {number} has the outcome {known[number]:g}; it has not failed."
            raise ConflictingOutcomeError(message, field="id", value=number, remedy=remedy)
    if ids.size:
        _lose(tx, ids, reason=reason, at=now)
        if tx.head.over:
            log(tx, "failed", now, ids=events.ranges(ids), reason=reason)


# --- time that is up ----------------------------------------------------------------------------


def expire(tx: Transaction, now: float) -> bool:
    """Settle the assignments whose lease or window has ended; return whether there were any."""
    head = tx.head
    if not head.is_overdue(now):
        return False
    find_settled(tx)
    head.oldest = find_oldest(tx)
    if not head.is_overdue(now):
        return False
    assert head.time_limit is not None
    ids = _outstanding_since(tx, now - head.time_limit)
    if head.window is None:
        _lose(tx, ids, reason="expired", at=now)
    elif ids.size:
        _end_windows(tx, ids.tolist(), now)
        find_settled(tx)
        head.oldest = find_oldest(tx)
    return bool(ids.size)


def end_guardrail_windows(
    tx: Transaction, guardrails: Sequence[Guardrail], start: Sequence[int], now: float
) -> list[int]:
    """Add `otherwise` where nothing was told of a guardrail within its window.

    Every step begins with it. What it adds is on record like values that were told, so that a
    replay takes the same. A process that is killed before the commit leaves nothing behind.

    Args:
        tx: the transaction.
        guardrails: the guardrails.
        start: for each of them, an assignment before which all have a value.
        now: the time of the transaction.

    Returns:
        The same for each of them, once the transaction is committed.
    """
    head, ends = tx.head, list(start)
    for place, each in enumerate(guardrails):
        if each.window is None or each.otherwise is None or head.over:
            continue
        while ends[place] < head.assigned:
            end = min(ends[place] + _PIECE, head.assigned)
            rows = tx.rows_of(np.arange(ends[place], end, dtype=np.int64))
            young = np.flatnonzero(rows["asked"] + each.window > now)
            due = rows[: young[0]] if young.size else rows
            ids = due["id"].tolist()
            told = {
                value.assignment
                for value in tx.records_of(GuardrailValue, ids)
                if value.guardrail == place
            }
            new = {(number, place): each.otherwise for number in ids if number not in told}
            values = _value_records(tx, new, due, now)
            tx.add(*values)
            head.values += len(values)
            ends[place] += len(ids)
            if young.size:
                break
    return ends


def _outstanding_since(tx: Transaction, time: float) -> Ids:
    """The outstanding ids that were asked for by a time."""
    head = tx.head
    if head.clock_setback:
        return tx.outstanding(head.settled_end, head.assigned, asked_by=time)
    found, first = [np.empty(0, dtype=np.int64)], head.settled_end
    # Times are in order of id, and most assignments may be younger.
    while first < head.assigned and tx.asked_at(first) <= time:
        end = min(first + _PIECE, head.assigned)
        found.append(tx.outstanding(first, end, asked_by=time))
        first = end
    return np.concatenate(found)


def _lose(tx: Transaction, ids: Ids, *, reason: str, at: float) -> None:
    """Give up the outcomes of outstanding assignments."""
    head, lost = tx.head, ids.tolist()
    tx.add_losses(lost, reason=reason, at=at)
    head.losses += len(lost)
    head.phase_losses += head.settle(lost)
    find_settled(tx)


def _end_windows(tx: Transaction, ids: Sequence[int], now: float) -> None:
    """Have outcomes enter whose window has ended, with what was told by then."""
    head = tx.head
    assert head.otherwise is not None
    told = {report.assignment: report.reward for report in tx.records_of(Report, ids)}
    head.early -= len(told)
    _add_outcomes(tx, {each: told.get(each, head.otherwise) for each in ids}, now)
