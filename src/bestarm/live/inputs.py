"""What users give: outcomes, ids, names, texts and times, checked before anything is changed."""

from __future__ import annotations

import math
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bestarm.checks import duration, finite, whole
from bestarm.errors import (
    ClockError,
    ConflictingOutcomeError,
    InvalidInputError,
    MissingDependencyError,
)
from bestarm.live.store.contract import Ids, UnitKey
from bestarm.live.store.head import TimeLimits
from bestarm.live.values import Assignment
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.live.store.sql import SqlLedger, Store

_Named = Mapping[str, float | None]  # a reward and values of guardrails
_Pairs = Iterable[tuple[int, float]] | Iterable[tuple[int | Assignment | None, float | _Named]]
_Mappings = Mapping[int, float | _Named] | Mapping[Assignment, float | _Named]
Outcomes = _Mappings | Mapping[int | None, float] | _Pairs

#: A unit, or a decision point: a text, or a whole number, which is the same as its digits.
Label = str | int

EARLIEST = 946_684_800.0  # the beginning of the year 2000, in seconds since 1970
LATEST = 7_258_118_400.0  # the beginning of the year 2200

_UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}

# Beyond this size the square of a reward, summed over a phase, could overflow, and a phase whose
# totals are not finite could never close.
_LARGEST_REWARD = 1e100


class Told(NamedTuple):
    """Outcomes and values of guardrails, as they are recorded."""

    ids: list[int]  # each once
    rewards: list[float]  # of each
    values: list[tuple[int, str, float]]  # ids, guardrails and values
    served: int  # outcomes of assignments that were made after the end, which have no id


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


def read_told(pairs: Iterable[tuple[Any, Any]]) -> Told:
    """What pairs of ids, or assignments, and rewards tell, or names with values."""
    first: dict[int, float] = {}
    values, served = list[tuple[int, str, float]](), 0
    for named, told in pairs:
        number = _outcome_id(named)
        if isinstance(told, float) or not isinstance(told, Mapping):
            told = {"reward": told}  # noqa: PLW2901
        elif number is None:
            served += 1  # nothing is recorded of it
            continue
        for name, value in told.items():
            read = _reward(value, str(name), about=number)
            if number is None:
                served += 1
            elif name != "reward":
                values.append((number, str(name), read))
            elif first.setdefault(number, read) != read:
                raise conflict(number, first[number], read)
    return Told(list(first), list(first.values()), values, served)


def _outcome_id(number: object) -> int | None:
    if type(number) is int and 0 <= number < 2**63:
        return number
    if number is None or isinstance(number, Assignment):
        return None if number is None else number.id
    if isinstance(number, np.floating) and number.is_integer():
        number = int(number)  # a row of a table of ids and rewards
    # Numbers that no id can be are unknown ids, whatever their size.
    return max(-1, min(whole(number, "id"), 2**63 - 1))


def _reward(value: object, field: str = "reward", *, about: int | None = None) -> float:
    if type(value) is float and abs(value) <= _LARGEST_REWARD:
        return value + 0.0  # −0.0 becomes 0.0
    try:
        number = float(value) if isinstance(value, (Real, np.bool_)) else math.nan
    except OverflowError:
        number = math.inf
    if not abs(number) <= _LARGEST_REWARD:  # false for NaN as well
        wanted = f"a finite number of size at most {_LARGEST_REWARD:g}, or True or False"
        message = f"`{field}` must be {wanted}; got {value!r}."
        remedy = "Tell nothing until the outcome is known." if field == "reward" else ""
        raise InvalidInputError(message, field=field, value=value, remedy=remedy, about=about)
    return number + 0.0


def read_ids(ids: object) -> tuple[Ids, int]:
    """Ids, each once, in the same order; and how many assignments made after the end have none."""
    every = ids if isinstance(ids, Iterable) else [ids]
    given = [each.id if isinstance(each, Assignment) else each for each in every]
    numbers = (whole(each, "id", least=0, below=2**63) for each in given if each is not None)
    return np.array(list(dict.fromkeys(numbers)), dtype=np.int64), given.count(None)


def conflict(number: int, before: float, now: float) -> ConflictingOutcomeError:
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


def check_clock(clock: object) -> None:
    """Raise unless a clock is a function, or None."""
    if clock is not None and not callable(clock):
        message = f"`clock` must be a function that returns the time; got {clock!r}."
        remedy = "For example `time.time`, or leave it out."
        raise InvalidInputError(message, field="clock", value=clock, remedy=remedy)


def read_time(value: object, *, stored: bool) -> float:
    """The time that a clock shows, in seconds.

    A wrong time does lasting harm: leases end by it, and lost outcomes are never used. A stored
    experiment accepts only dates, as other processes share it. One in memory may run in simulated
    time, on a clock that starts anywhere; milliseconds are refused there too.

    Raises:
        ClockError: this cannot be the time.
    """
    try:
        number = finite(value, "clock")
    except InvalidInputError:
        number = math.nan
    if (EARLIEST if stored else -LATEST) <= number < LATEST:
        return number
    remedy = "Use `time.time`."
    if -LATEST < number < EARLIEST:
        remedy = "A stored experiment needs real times; one in memory may run on its own clock."
    for unit, size in _UNITS.items():
        if EARLIEST * size <= number < LATEST * size:
            remedy = f"Did you give {unit}? Divide by {size:,.0f}."
    message = f"`clock` must tell the time in seconds since 1970; got {value!r}."
    raise ClockError(message, field="clock", value=value, remedy=remedy)


def read_limits(
    lease: float | str | None,
    window: float | str | None,
    otherwise: float | None,
    bounds: tuple[float, float] | None,
) -> TimeLimits:
    """The lease, or the window in seconds and the outcome where nothing is told within it."""
    if window is None:
        if otherwise is not None:
            message = (
                "`otherwise` is the outcome where nothing is told within the window; got none."
            )
            remedy = "Give the `window` too, for example 7d."
            raise InvalidInputError(message, field="window", value=None, remedy=remedy)
        return TimeLimits(read_lease(lease))
    if otherwise is None:
        message = "An experiment with a window needs the outcome where nothing is told within it."
        remedy = "Give `otherwise`, for example 0."
        raise InvalidInputError(message, field="otherwise", value=None, remedy=remedy)
    if lease is not None:
        message = "An experiment has a lease or a window, not both."
        remedy = "Leave the lease out: at the end of its window every outcome is known."
        raise InvalidInputError(message, field="lease", value=lease, remedy=remedy)
    reward = _reward(otherwise, "otherwise")
    if bounds is not None and not bounds[0] <= reward <= bounds[1]:
        message = f"`otherwise` must lie between {bounds[0]:g} and {bounds[1]:g}; got {reward:g}."
        remedy = "It is an outcome like any other, within the bounds of the policy."
        raise InvalidInputError(message, field="otherwise", value=otherwise, remedy=remedy)
    return TimeLimits(None, duration(window, "window"), reward)


def read_lease(lease: float | str | None) -> float | None:
    """A lease in seconds, or None for no limit."""
    return None if lease is None else duration(lease, "lease")


def clean_text(value: object) -> str:
    """Free text in a form that every database can keep."""
    return str(value)[:10_000].encode("utf-8", "replace").decode().replace("\0", "")


def check_name(value: object) -> str:
    """The name of a new experiment, which can be a part of a path."""
    name = read_label(normal_form(value) if isinstance(value, str) else value, "name")
    if "/" in name or name in {".", ".."} or name != name.strip():
        wrong = "contain a slash, be made of dots, or begin or end with a space"
        message = f"`name` must not {wrong}; got {name!r}."
        raise InvalidInputError(message, field="name", value=name, remedy="Use a dash.")
    return name


def normal_form(name: str) -> str:
    """A name in Unicode's normal form C, however its letters were typed."""
    return unicodedata.normalize("NFC", name)


def read_label(value: object, field: str) -> str:
    """A short text without line breaks or control characters."""
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        message = f"`{field}` must be a text of 1 to 200 characters; got {reprlib.repr(value)}."
        remedy = "Use letters, digits, spaces and signs, without line breaks."
        raise InvalidInputError(message, field=field, value=value, remedy=remedy)
    return value


def read_modules(modules: object) -> tuple[str, ...]:
    """The names of modules that are allowed."""
    names = (
        list(modules) if isinstance(modules, Iterable) and not isinstance(modules, str) else None
    )
    if names is None or not all(isinstance(name, str) for name in names):
        message = f"`allow_modules` must be a list of names of modules; got {modules!r}."
        remedy = 'For example ["my_rules"].'
        raise InvalidInputError(message, field="allow_modules", value=modules, remedy=remedy)
    return tuple(names)


@contextmanager
def connected(url: str | Store) -> Iterator[tuple[Store, type[SqlLedger]]]:
    """A database and the ledgers in it.

    After an exception the connections of one that was made here are released; a `Store` that was
    given is its owner's, and others may be using it.
    """
    try:
        from bestarm.live.store.sql import SqlLedger, Store  # noqa: PLC0415
    except ImportError as error:
        name = error.name or "SQLAlchemy"
        raise MissingDependencyError.of("A stored experiment", name, extra="live") from None
    store = url if isinstance(url, Store) else Store(url)
    try:
        yield store, SqlLedger
    except BaseException:
        if store is not url:
            store.close()
        raise


# --- units -------------------------------------------------------------------------------------


def read_asked(
    unit: Any, decision_point: Any, count: int | None, request_id: str | None, *, available: bool
) -> Sequence[UnitKey] | None:
    """The units of an `ask`, each once; None where it names none."""
    if not available and (unit is None or decision_point is None):
        message = "`available` is about a unit at a decision point, and these are not named."
        remedy = 'Name both, for example unit="person-7", decision_point="2026-11-18 09:00".'
        raise InvalidInputError(message, field="available", value=available, remedy=remedy)
    if unit is None:
        _check_no_decision_point(decision_point)
        return None
    if request_id is not None:
        message = "A request for a unit needs no name: the unit gets the same assignment again."
        remedy = "Leave the `request_id` out."
        raise InvalidInputError(message, field="request_id", value=request_id, remedy=remedy)
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


def name_told(number: object, unit: Any, decision_point: Any) -> Any:
    """What an outcome is told of: the id of an assignment, or a unit instead."""
    if number is not None and unit is not None:
        message = "An outcome needs the id of an assignment or its unit, and not both."
        remedy = 'For example tell(17, 1) or tell(unit="visitor-81", reward=1).'
        raise InvalidInputError(message, field="id", value=number, remedy=remedy)
    if unit is None:
        _check_no_decision_point(decision_point)
        return number
    return read_keys([unit], [decision_point])[0]


def _check_no_decision_point(decision_point: object) -> None:
    if decision_point is not None:
        message = "`decision_point` is that of a unit, and there is none."
        remedy = 'Give the `unit` too, for example unit="person-7".'
        raise InvalidInputError(message, field="unit", value=None, remedy=remedy)


def _several(value: Any) -> list[Any]:
    """The items of a list; what has no order cannot be one, as covariates follow it."""
    unordered = isinstance(value, (str, bytes, Set, Mapping))
    return [value] if unordered or not isinstance(value, Iterable) else [*value]


def read_keys(units: Sequence[Any], points: Sequence[Any]) -> list[UnitKey]:
    """Units, and the decision point of each or None."""
    if not units or len(points) != len(units):
        message = f"There must be a decision point per unit; got {len(points)} for {len(units)}."
        remedy = "Give one for all units, or as many as there are units."
        if not units:
            message, remedy = "There are no units.", "Name at least one."
        raise InvalidInputError(message, field="unit", value=len(units), remedy=remedy)
    names = [_label(each, "unit") for each in units]
    at = ["" if each is None else _label(each, "decision_point") for each in points]
    return list(map(UnitKey, names, at))


def _label(value: object, field: str) -> str:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        value = str(value)
    return read_label(normal_form(value) if isinstance(value, str) else value, field)
