"""What users give: outcomes, ids, names, texts and times, checked before anything is changed."""

from __future__ import annotations

import math
import reprlib
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm.checks import duration, finite, whole
from bestarm.errors import (
    ClockError,
    ConflictingOutcomeError,
    InvalidInputError,
    MissingDependencyError,
)
from bestarm.live.store.contract import Ids, TimeLimits
from bestarm.live.values import Assignment

if TYPE_CHECKING:
    from bestarm.live.store.sql import SqlLedger, Store

_Named = Mapping[str, float | None]  # a reward and values of guardrails
_Pairs = Iterable[tuple[int, float]] | Iterable[tuple[int | Assignment | None, float | _Named]]
_Mappings = Mapping[int, float | _Named] | Mapping[Assignment, float | _Named]
Outcomes = _Mappings | Mapping[int | None, float] | _Pairs

EARLIEST = 946_684_800.0  # the beginning of the year 2000, in seconds since 1970
LATEST = 7_258_118_400.0  # the beginning of the year 2200

_UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}

# Beyond this size the square of a reward, summed over a phase, could overflow, and a phase whose
# totals are not finite could never close.
_LARGEST_REWARD = 1e100


Told = tuple[tuple[list[int], list[float], int], list[tuple[int, str, float]]]


def read_told(outcomes: Any, guardrails: Collection[str]) -> Told:
    """Ids and rewards, each id once; and the id, the guardrail and the value of what is told of
    guardrails, whose names are given.

    A table has a column per guardrail. Elsewhere names with values take the place of a reward.
    """
    values: list[tuple[int, str, float]] = []
    if hasattr(outcomes, "columns"):
        names = [name for name in guardrails if name in outcomes.columns]
        if not names or "id" not in outcomes.columns:
            return read_outcomes(outcomes), values
        columns = [outcomes[name].tolist() for name in ("id", *names)]
        rows = zip(*columns, strict=True)
        told = [dict(zip(names, row[1:], strict=True)) for row in rows]
        if "reward" in outcomes.columns:
            rewards = outcomes["reward"].tolist()
            told = [{"reward": reward, **each} for reward, each in zip(rewards, told, strict=True)]
        pairs: list[Any] = [
            (number, {name: value for name, value in each.items() if not _is_missing(value)})
            for number, each in zip(columns[0], told, strict=True)
        ]
    else:
        listed = outcomes.items() if isinstance(outcomes, Mapping) else outcomes
        pairs = list(listed) if isinstance(listed, Iterable) else [listed]
    rewarded: list[Any] = []
    for each in pairs:
        named = each[1] if isinstance(each, tuple) and len(each) == 2 else None
        if not isinstance(named, Mapping):
            rewarded.append(each)
            continue
        number = _outcome_id(each[0])
        if number is None:
            rewarded.append((None, 0.0))  # nothing is recorded of it
            continue
        if "reward" in named:
            rewarded.append((number, named["reward"]))
        further = [(name, value) for name, value in named.items() if name != "reward"]
        values += [(number, str(name), _reward(value, str(name))) for name, value in further]
    return read_outcomes(rewarded), values


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_outcomes(outcomes: Any) -> tuple[list[int], list[float], int]:
    """Ids and rewards, each id once, from a mapping, from pairs or from a data frame.

    And how many more there are of assignments that were made after the end, which have no id.
    """
    if hasattr(outcomes, "columns"):
        if not {"id", "reward"} <= set(outcomes.columns):
            message = "A table of outcomes needs the columns 'id' and 'reward'."
            remedy = "Rename its columns."
            found = list(outcomes.columns)
            raise InvalidInputError(message, field="outcomes", value=found, remedy=remedy)
        numbers, values = outcomes["id"].tolist(), outcomes["reward"].tolist()
    elif isinstance(outcomes, Mapping):
        numbers, values = list(outcomes.keys()), list(outcomes.values())
    else:
        pairs = list(outcomes) if isinstance(outcomes, Iterable) else [outcomes]
        try:
            if pairs and isinstance(pairs[0], (Mapping, str)):
                raise TypeError  # noqa: TRY301 - their names or letters are not ids and rewards
            numbers, values = [number for number, _ in pairs], [reward for _, reward in pairs]
        except (TypeError, ValueError):
            wanted = "`outcomes` must be a mapping from id to reward, or pairs of them"
            message = f"{wanted}; got {reprlib.repr(pairs)}."
            remedy = "For example {0: 1.5, 1: 0.2} or zip(ids, rewards)."
            raise InvalidInputError(message, field="outcomes", value=pairs, remedy=remedy) from None
    every, values = list(map(_outcome_id, numbers)), list(map(_reward, values))
    if served := every.count(None):
        values = [each for number, each in zip(every, values, strict=True) if number is not None]
    numbers = [number for number in every if number is not None]
    if len(set(numbers)) < len(numbers):
        first: dict[int, float] = {}
        for number, value in zip(numbers, values, strict=True):
            if first.setdefault(number, value) != value:
                raise conflict(number, first[number], value)
        return list(first), list(first.values()), served
    return numbers, values, served


def _outcome_id(number: object) -> int | None:
    if type(number) is int and 0 <= number < 2**63:
        return number
    if number is None or isinstance(number, Assignment):
        return None if number is None else number.id
    if isinstance(number, np.floating) and number.is_integer():
        number = int(number)  # a row of a table of ids and rewards
    # Numbers that no id can be are unknown ids, whatever their size.
    return max(-1, min(whole(number, "id"), 2**63 - 1))


def _reward(value: object, field: str = "reward") -> float:
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
        raise InvalidInputError(message, field=field, value=value, remedy=remedy)
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


@contextmanager
def connected(url: str | Store) -> Iterator[tuple[Store, type[SqlLedger]]]:
    """A database and the ledgers in it; after an exception its connections are released."""
    try:
        from bestarm.live.store.sql import SqlLedger, Store  # noqa: PLC0415
    except ImportError as error:
        name = error.name or "SQLAlchemy"
        raise MissingDependencyError.of("A stored experiment", name, extra="live") from None
    store = url if isinstance(url, Store) else Store(url)
    try:
        yield store, SqlLedger
    except BaseException:
        store.close()
        raise
