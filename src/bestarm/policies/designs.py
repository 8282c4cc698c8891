"""Designs that runs of a simulation share, whichever method or noise they have."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from bestarm.design import Design
from bestarm.geometry import Array

_SMALL = 4096  # numbers in the tables of a design up to which it is remembered

Content = tuple[bytes, tuple[int, ...]]


def shared(make: Callable[..., Design], *tables: Array, **options: Any) -> Design:
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
    contents = tuple((table.tobytes(), table.shape) for table in tables)
    return solved(make, contents, tuple(sorted(options.items())))


@lru_cache(maxsize=512)
def solved(
    make: Callable[..., Design], contents: tuple[Content, ...], options: tuple[Any, ...]
) -> Design:
    """A design of small tables, made once."""
    tables = (np.frombuffer(content).reshape(shape) for content, shape in contents)
    return make(*tables, **dict(options))
