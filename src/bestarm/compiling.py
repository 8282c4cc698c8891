"""How loops are compiled. Imported only by those that are: loading the compiler takes a while."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar, cast

import numba

__all__ = ["compiled"]

P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """A function as machine code, kept on disk where that can be written.

    It lets go of the interpreter while it runs, and divides by zero as NumPy does.
    """
    make = partial(numba.njit, nogil=True, error_model="numpy")
    try:
        made = make(cache=True)(function)
    except RuntimeError:  # no directory for the cache can be written: compile in every process
        made = make()(function)
    return cast(Callable[P, T], made)
