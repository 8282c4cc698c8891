"""Compile loops to machine code. Only modules with such loops import this: it loads slowly."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

try:
    import fcntl
except ImportError:  # Windows: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

__all__ = ["compiled", "inlined"]

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE = 300  # seconds to wait for another process, which may be suspended
_PAUSE = 0.02  # seconds
_NUMBERS = {"None", "bool", "int", "float", "tuple"}  # words of a type without arrays


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function to machine code, cached on disk where possible.

    Of several processes that need it at the same time, one compiles and the others wait for it.
    A constant is compiled as any other number: a function is not compiled again for it.
    The compiled function releases the interpreter lock and divides by zero as NumPy does. Give it
    positional arguments, and plain tuples, never named ones: the cache stores the class of each
    argument by name, and cannot be read once a class was renamed or moved, for example by an
    upgrade.
    """
    # Without the wrapper for callbacks from C, which nobody calls: it takes long to make.
    make = partial(numba.njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
    try:
        made: Any = make(cache=True)(function)
        made.compile = _once(made)
    except RuntimeError:  # the cache directory is not writable: compile in every process
        made = make()(function)
    made.compile = _plain(made.compile)
    if not _NUMBERS.issuperset(
        re.findall(r"\w+", str(function.__annotations__.get("return", "any")))
    ):
        made.__class__ = _ReturnsArrays
    return cast(Callable[P, T], made)


class _ReturnsArrays(CPUDispatcher):
    """A compiled function that may return arrays, and raises what a signal during it raises.

    To return arrays Numba runs Python code, in which signals that came meanwhile are handled. It
    goes on with what their handler raised, and says in the end: SystemError, with that as the
    cause, or as the cause of a cause.
    """

    def __call__(self, *arguments: Any) -> Any:
        try:
            return _call(self, *arguments)
        except SystemError as error:
            cause: BaseException | None = error
            while isinstance(cause, SystemError):
                cause = cause.__cause__
            if cause is None:
                raise
            raise cause from None


_call = CPUDispatcher.__call__  # quicker than super()


def _plain(usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compile for the type of a constant, where Numba would compile for its value."""
    return lambda signature: usual(tuple(map(numba.types.unliteral, signature)))


def _once(made: Any) -> Callable[[Any], Any]:
    """Look for a function in the cache, and compile it, while no other process compiles it."""
    usual, folder = made.compile, made.stats.cache_path
    place = zlib.crc32(f"{made.__module__}.{made.__qualname__}".encode())

    def compile_once(signature: Any) -> Any:
        # Numba's own lock first: a thread that waits for it must not hold up other processes.
        with global_compiler_lock, _alone(folder, place):
            try:
                return usual(signature)
            except OSError:  # the disk is full: it is compiled by now, but not in the cache
                return usual(signature)

    return compile_once


@contextmanager
def _alone(folder: str, place: int) -> Iterator[None]:
    """Lock a byte of a file for this process, if another one does not keep it for long.

    The system unlocks it with the end of the process, however that ends.
    """
    opened = -1
    if fcntl is not None:
        end = time.monotonic() + _PATIENCE
        with suppress(OSError):  # a file system without locks: compile at the same time
            opened = _open(folder)
            while not _locked(opened, place) and time.monotonic() < end:
                time.sleep(_PAUSE)
    try:
        yield
    finally:
        if opened >= 0:
            with suppress(OSError):
                fcntl.lockf(opened, fcntl.LOCK_UN, 1, place)


def _locked(opened: int, place: int) -> bool:
    try:
        fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except BlockingIOError:
        return False
    return True


@cache  # and never closed: all locks of a process on a file end when it closes it once
def _open(folder: str) -> int:
    return os.open(Path(folder) / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function as a part of the one that calls it.

    For a part with one caller, called with positional arguments: compiled by itself as well, it
    would take twice as long. Many or long ones take longer so than by themselves.
    """
    made = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return cast(Callable[P, T], made)
