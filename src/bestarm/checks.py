"""Checks of single arguments: each returns the value in its type, or raises in a sentence."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import InvalidInputError

__all__ = [
    "choice",
    "computable",
    "finite",
    "interval",
    "not_negative",
    "positive",
    "probability",
    "vector",
    "whole",
]


def finite(value: object, field: str) -> float:
    """A finite number. Text and truth values are not numbers here."""
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInputError(
            f"`{field}` must be a finite number; got {value!r}.", field=field, value=value
        )
    return number


def positive(value: object, field: str) -> float:
    """A finite number above 0."""
    number = finite(value, field)
    if number <= 0:
        raise InvalidInputError(
            f"`{field}` must be positive; got {number:g}.", field=field, value=value
        )
    return number


def not_negative(value: object, field: str, *, remedy: str = "") -> float:
    """A finite number of at least 0."""
    number = finite(value, field)
    if number < 0:
        raise InvalidInputError(
            f"`{field}` must not be negative; got {number:g}.",
            field=field,
            value=value,
            remedy=remedy,
        )
    return number


def probability(value: object, field: str = "delta") -> float:
    """A number strictly between 0 and 1."""
    number = finite(value, field)
    if 0 < number < 1e-100:
        raise InvalidInputError(
            f"`{field}` must be at least 1e-100; got {number:g}.",
            field=field,
            value=value,
            remedy="Nothing is ever that certain.",
        )
    if not 0 < number < 1:
        likely = 1 <= number < 100
        raise InvalidInputError(
            f"`{field}` must lie in (0, 1); got {number:g}.",
            field=field,
            value=value,
            remedy=f"Did you mean {number / 100:g}?" if likely else "Try 0.05.",
        )
    return number


def whole(value: object, field: str, *, least: int | None = None, below: int | None = None) -> int:
    """A whole number, NumPy's included, of at least `least` and less than `below`."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)
        if (least is None or number >= least) and (below is None or number < below):
            return number
    span = ""
    if least is not None:
        span = f" of at least {least}" if below is None else f" from {least} to {below - 1}"
    raise InvalidInputError(
        f"`{field}` must be a whole number{span}; got {value!r}.", field=field, value=value
    )


def choice(value: object, choices: tuple[str, ...], field: str) -> None:
    """One of a few words."""
    if value not in choices:
        raise InvalidInputError(
            f"`{field}` must be one of {', '.join(map(repr, choices))}; got {value!r}.",
            field=field,
            value=value,
        )


def interval(value: object, field: str) -> tuple[float, float]:
    """Two finite numbers, the lower one first."""
    ends = tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else ()
    low, high = (finite(end, field) for end in ends) if len(ends) == 2 else (0.0, 0.0)
    if not low < high:
        raise InvalidInputError(
            f"`{field}` must be two numbers, the lower one first; got {value!r}.",
            field=field,
            value=value,
            remedy="For ratings from 1 to 5: (1, 5).",
        )
    computable(max(abs(low), abs(high)), field)
    computable(high - low, field)
    return low, high


def computable(size: float, field: str) -> None:
    """A size whose square is still a number: from 1e-100 to 1e100."""
    if not 1e-100 <= size <= 1e100:
        raise InvalidInputError(
            f"`{field}` speaks of rewards of size {size:g}, too large or too small to compute "
            "with.",
            field=field,
            value=size,
            remedy="Change the unit of the rewards.",
        )


def vector(values: object, field: str, *, first: int = 0) -> NDArray[np.float64]:
    """An array of finite numbers, a copy; errors number its entries from `first`."""
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(
            f"`{field}` could not be read as numbers.", field=field, value=values
        ) from None
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        value, place = float(array.flat[wrong[0]]), first + int(wrong[0])
        raise InvalidInputError(
            f"`{field}` is {value:g} at {place}.",
            field=field,
            value=value,
            remedy="Every value must be a finite number.",
        )
    return array
