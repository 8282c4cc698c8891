"""Covariates as numbers: mappings of names to values become vectors of one width."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bestarm.checks import finite
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array

__all__ = ["WIDTH", "Encoder"]

#: The numbers in an encoded vector.
WIDTH = 64
_VALUES = 16  # columns for the values of one category

Covariates = Mapping[str, float | str | bool | None]


class Encoder:
    """Turns covariates into vectors: numbers have a column, categories one column per value.

    Columns are given out in the order in which names and values are first met, so the same mappings
    in the same order have the same vectors. The last column is for values of categories that found
    none: after 16 values of one name, or when all columns are taken. Numbers that found none are
    left out. A value that is missing or None is 0 in all its columns.

    >>> encoder = Encoder()
    >>> encoder.encode({"age": 31, "country": "CH"})[:4]
    array([31.,  1.,  0.,  0.])
    >>> encoder.encode({"country": "PE"})[:4]
    array([0., 0., 1., 0.])
    """

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str | bool | None], int] = {}

    def encode(self, covariates: Covariates) -> Array:
        """The vector of one draw's covariates. If they are refused, nothing is changed."""
        known = [(name, _checked(name, value)) for name, value in covariates.items()]
        vector = np.zeros(WIDTH)
        for name, value in sorted(known, key=lambda each: each[0]):
            if isinstance(value, float):
                column = self._column(name, None)
                if column is not None:
                    vector[column] = value
            elif value is not None:
                column = self._column(name, value)
                vector[WIDTH - 1 if column is None else column] = 1.0
        return vector

    def _column(self, name: str, value: str | bool | None) -> int | None:
        """The column of a number (None) or of a value of a category, if there is room for it."""
        key = (name, value)
        if key not in self._columns:
            values = sum(known == name and each is not None for known, each in self._columns)
            if len(self._columns) == WIDTH - 1 or values == _VALUES:
                return None
            self._columns[key] = len(self._columns)
        return self._columns[key]


def _checked(name: object, value: object) -> float | str | bool | None:
    if not isinstance(name, str):
        raise InvalidInputError(
            f"Names of `covariates` must be text; got {name!r}.",
            field="covariates",
            value=name,
            remedy='For example {"age": 31}.',
        )
    if value is None or isinstance(value, (str, bool)):
        return value
    return finite(value, f"covariates[{name!r}]")
