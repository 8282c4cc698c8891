"""Checks of numbers that more than one environment takes."""

from __future__ import annotations

import math

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.geometry import Array

__all__ = ["finite", "positive", "vector"]


def finite(value: object, name: str) -> float:
    """A finite number."""
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInputError(
            f"`{name}` must be a finite number; got {value!r}.", field=name, value=value
        )
    return number


def positive(value: object, name: str) -> float:
    """A finite number above 0."""
    number = finite(value, name)
    if number <= 0:
        raise InvalidInputError(
            f"`{name}` must be positive; got {number:g}.", field=name, value=value
        )
    return number


def vector(values: object, name: str, *, first: int = 0) -> Array:
    """An array of finite numbers, a copy; errors number its entries from `first`."""
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"`{name}` could not be read as numbers.", field=name, value=values
        ) from None
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        value, place = float(array.flat[wrong[0]]), first + int(wrong[0])
        raise InvalidInputError(
            f"`{name}` is {value:g} at {place}.",
            field=name,
            value=value,
            remedy="Every value must be a finite number.",
        )
    return array
