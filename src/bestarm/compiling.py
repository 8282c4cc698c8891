"""Compile loops to machine code. Only modules with such loops import this: it loads slowly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar, cast

import numba

__all__ = ["compiled", "inlined"]

P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function to machine code, cached on disk where possible.

    The compiled function releases the interpreter lock and divides by zero as NumPy does. Give it
    plain tuples, never named ones: the cache stores the class of each argument by name, and cannot
    be read once a class was renamed or moved, for example by an upgrade.
    """
    # Without the wrapper for callbacks from C, which nobody calls: it takes long to make.
    make = partial(numba.njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
    try:
        made = make(cache=True)(function)
    except RuntimeError:  # the cache directory is not writable: compile in every process
        made = make()(function)
    return cast(Callable[P, T], made)


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function as a part of the one that calls it.

    For a part with one caller, called with positional arguments: compiled by itself as well, it
    would take twice as long. Many or long ones take longer so than by themselves.
    """
    made = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return cast(Callable[P, T], made)
