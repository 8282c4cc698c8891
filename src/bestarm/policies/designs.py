"""Designs that runs of a simulation share, whichever method or noise they have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bestarm.design import Design
from bestarm.numerics.geometry import Array

_SMALL = 4096  # numbers in the tables of a design up to which it is remembered
_REMEMBERED = 2048  # designs, of about 1 KB: all of ten methods on a hundred instances


def cached_design(make: Callable[..., Design], *tables: Array, **options: Any) -> Design:
    """`make(*tables, **options)`, remembered by the content of its tables if they are small.

    A design does not depend on the noise, on δ or on the method that asks for it: methods that are
    compared on the same arms solve it once.

    Args:
        make: one of the designs of `bestarm.design`.
        tables: features of the source, and of the targets where the design takes them.
        options: what else it takes.
    """
    if sum(table.size for table in tables) > _SMALL:
        return make(*tables, **options)
    return solve_once(make, Tables(tables), tuple(sorted(options.items())))


class Tables:
    """Tables that are equal if their content is: what is remembered of them is a digest."""

    def __init__(self, tables: Sequence[Array]) -> None:
        contents = [table.tobytes() for table in tables]
        digest = hashlib.sha256(repr([table.shape for table in tables]).encode())
        for content in contents:
            digest.update(content)
        self._digest = digest.digest()
        # In one order, however they lie in memory, and read-only.
        pairs = zip(tables, contents, strict=True)
        self._tables = [np.frombuffer(content).reshape(table.shape) for table, content in pairs]

    def pop(self) -> list[Array]:
        """The tables, once: they need not be kept."""
        tables, self._tables = self._tables, []
        return tables

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tables) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


@lru_cache(maxsize=_REMEMBERED)
def solve_once(make: Callable[..., Design], tables: Tables, options: tuple[Any, ...]) -> Design:
    """A design of small tables, made once."""
    return make(*tables.pop(), **dict(options))
