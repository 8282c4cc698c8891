"""What users give: outcomes, ids, names, texts and times, checked before anything is changed."""

from __future__ import annotations

import math
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from bestarm.checks import duration, finite
from bestarm.errors import ClockError, InvalidInputError
from bestarm.live.store.head import TimeLimits
from bestarm.live.store.rows import UnitKey

#: A unit, or a decision point: a text, or a whole number, which is the same as its digits.
Label = str | int

EARLIEST = 946_684_800.0  # the beginning of the year 2000, in seconds since 1970
LATEST = 7_258_118_400.0  # the beginning of the year 2200

_UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}

# Beyond this size the square of a reward, summed over a phase, could overflow, and a phase whose
# totals are not finite could never close.
_LARGEST_REWARD = 1e100


def read_reward(value: object, field: str = "reward", *, about: int | None = None) -> float:
    """A reward, or a value of a guardrail, as a number that sums do not overflow with."""
    if type(value) is float and abs(value) <= _LARGEST_REWARD:
        return value + 0.0  # −0.0 becomes 0.0
    try:
        number = float(value) if isinstance(value, (Real, np.bool_)) else math.nan
    except OverflowError:
        number = math.inf
    if not abs(number) <= _LARGEST_REWARD:  # false for NaN as well
        wanted = f"a finite number of size at most {_LARGEST_REWARD:g}, or True or False"
        message = f"`{field}` must be {wanted}; got {value!r}."
        remedy = "Tell nothing until the outcome is known."
        raise InvalidInputError(message, field=field, value=value, remedy=remedy, about=about)
    return number + 0.0


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
    earliest = EARLIEST if stored else -LATEST
    if type(value) is float and earliest <= value < LATEST:
        return value
    try:
        number = finite(value, "clock")
    except InvalidInputError:
        number = math.nan
    if earliest <= number < LATEST:
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
    reward = read_reward(otherwise, "otherwise")
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


# --- units -------------------------------------------------------------------------------------


def lone_decision_point() -> InvalidInputError:
    """The error for a decision point without a unit."""
    message = "`decision_point` is that of a unit, and there is none."
    remedy = 'Give the `unit` too, for example unit="person-7".'
    return InvalidInputError(message, field="unit", value=None, remedy=remedy)


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
