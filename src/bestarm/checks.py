"""Checks of single arguments: each returns the value with its type, or raises."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError


def finite(value: object, field: str) -> float:
    """A finite number. Text and booleans are refused."""
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInputError(
            f"`{field}` must be a finite number; got {value!r}.",
            field=field,
            value=value,
            remedy="Give a number, not text." if isinstance(value, str) else "Give a number.",
        )
    return number


def positive(value: object, field: str) -> float:
    """A finite number above 0."""
    number = finite(value, field)
    if number <= 0:
        raise InvalidInputError(
            f"`{field}` must be positive; got {number:g}.",
            field=field,
            value=value,
            remedy="Give a number above 0.",
        )
    return number


def not_negative(value: object, field: str, *, remedy: str = "Give 0 or more.") -> float:
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
    """An error probability, above 0 and at most 0.5."""
    number = finite(value, field)
    if 0 < number < 1e-100:
        raise InvalidInputError(
            f"`{field}` must be at least 1e-100; got {number:g}.",
            field=field,
            value=value,
            remedy="Smaller error probabilities have no practical meaning.",
        )
    if not 0 < number <= 0.5:
        raise InvalidInputError(
            f"`{field}` must lie in (0, 0.5]; got {number:g}.",
            field=field,
            value=value,
            remedy=_likely(number),
        )
    return number


def _likely(number: float) -> str:
    """A likely intention behind an impossible error probability: a confidence, or percent."""
    if 0.5 < number < 1:
        return f"It is the probability of an error. Did you mean {1 - number:.10g}?"
    if 1 <= number <= 50:
        return f"Did you mean {number / 100:g}?"
    if 50 < number < 100:
        return f"It is the probability of an error. Did you mean {1 - number / 100:.10g}?"
    return f"Try {DELTA:g}."


_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def duration(value: object, field: str) -> float:
    """A length of time in seconds: a positive number, or a text like 90s, 30m, 12h, 2d, 1w.

    >>> duration("2h", "lease"), duration(90, "lease")
    (7200.0, 90.0)
    """
    if not isinstance(value, str):
        return positive(value, field)
    found = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([smhdw]?)\s*", value, re.ASCII)
    if found is None or not float(found[1]):
        raise InvalidInputError(
            f"`{field}` must be a time like 90s, 30m, 12h or 2d; got {value!r}.",
            field=field,
            value=value,
            remedy="A number alone means seconds.",
        )
    return float(found[1]) * _SECONDS[found[2]]


def whole(value: object, field: str, *, least: int | None = None, below: int | None = None) -> int:
    """A whole number, NumPy's included, of at least `least` and less than `below`."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)
        if (least is None or number >= least) and (below is None or number < below):
            return number
    span = ""
    if least is not None:
        span = f" of at least {least}" if below is None else f" from {least} to {below - 1}"
    remedy = f"Give {'one in this range' if span else 'a whole number'}."
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        remedy = f"Write {int(value)}."
    raise InvalidInputError(
        f"`{field}` must be a whole number{span}; got {value!r}.",
        field=field,
        value=value,
        remedy=remedy,
    )


def whole_numbers(values: object) -> NDArray[np.int64] | None:
    """A copy of a list of whole numbers up to 2⁵³ as an array, or None if it is not one."""
    array = np.asarray(values)
    if not array.size:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        return None
    if array.size and np.maximum.reduce(array) > 2**53:
        return None
    return array.astype(np.int64)


def choice(value: object, choices: Collection[str], field: str) -> None:
    """Raise unless the value is one of the choices."""
    if value not in choices:
        raise InvalidInputError(
            f"`{field}` must be one of {', '.join(map(repr, choices))}; got {value!r}.",
            field=field,
            value=value,
            remedy=suggestion(str(value), choices) or "Choose one of these.",
        )


def interval(value: object, field: str) -> tuple[float, float]:
    """Two finite numbers, the lower one first."""
    ends = tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else ()
    try:
        low, high = (finite(end, field) for end in ends)
    except ValueError:  # not two, or not numbers
        low = high = 0.0
    if not low < high:
        raise InvalidInputError(
            f"`{field}` must be two finite numbers, the lower one first; got {value!r}.",
            field=field,
            value=value,
            remedy="For ratings from 1 to 5 they are 1 and 5.",
        )
    computable(max(abs(low), abs(high)), field)
    computable(high - low, field)
    return low, high


def computable(size: float, field: str) -> None:
    """Raise unless the size, and its square, can be computed with: from 1e-100 to 1e100."""
    if not 1e-100 <= size <= 1e100:
        raise InvalidInputError(
            f"`{field}` implies rewards of size {size:g}, too large or too small to compute with.",
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
            f"`{field}` could not be read as numbers.",
            field=field,
            value=values,
            remedy="Give a list of numbers.",
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


def suggestion(word: str, known: Iterable[str]) -> str:
    """A question that names the nearest known word, for a remedy; empty if none is near.

    Case and punctuation do not count.

    >>> suggestion("sp-bia", ["rage", "sp-bai"])
    'Did you mean sp-bai?'
    """
    plain = {without_punctuation(each): each for each in known}
    near = get_close_matches(without_punctuation(word), list(plain), n=1)
    return f"Did you mean {plain[near[0]]}?" if near else ""


def without_punctuation(word: str) -> str:
    """A word in lower case, with its letters and digits only."""
    return "".join(letter for letter in word.lower() if letter.isalnum())
