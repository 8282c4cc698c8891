"""Compile loops to machine code. Only modules with such loops import this: it loads slowly."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numba.core.registry import CPUDispatcher

__all__ = ["compile_eagerly", "compiled", "in_progress", "inlined", "tiered"]

P = ParamSpec("P")
T = TypeVar("T")

_LARGE, _LARGEST = 2_000, 100_000  # elements of an array: one call might take long as Python code
_LOG_AFTER = 1.0  # seconds of compiling after which a log says so

_log = logging.getLogger(__name__)
_call = CPUDispatcher.__call__  # quicker than super()


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function to machine code at its first call, cached on disk where possible.

    The compiled function releases the interpreter lock and divides by zero as NumPy does. Give it
    positional arguments, and plain tuples, never named ones: the cache stores the class of each
    argument by name, and cannot be read once a class was renamed or moved, for example by an
    upgrade.
    """
    return cast(Callable[P, T], _make(function, _Compiled))


def tiered(function: Callable[P, T]) -> Callable[P, T]:
    """As `compiled`, but run as Python code while there is little to compute, to the same bits.

    The steps of a small live experiment take milliseconds as Python code, and half a minute to
    compile. So write no `**`, and no functions of NumPy but `sqrt`: Python code rounds them
    otherwise. Where Python raises, as at a division by zero, the function is compiled and called
    again: one that changes what it is given must not raise.
    """
    return cast(Callable[P, T], _make(function, _Tiered))


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function as a part of the one that calls it.

    For a part with one caller, called with positional arguments: compiled by itself as well, it
    would take twice as long. Many or long ones take longer so than by themselves.
    """
    made = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return cast(Callable[P, T], made)


def compile_eagerly() -> None:
    """Compile tiered functions at their first call from now on: this process computes a lot."""
    _Tiered.python_seconds = 0.0


def in_progress() -> str | None:
    """The function that is being compiled right now, in any thread of this process."""
    return next((name for name, _ in _compiling), None)


def _make(function: Callable[..., Any], kind: type[_Compiled]) -> Any:
    # Without the wrapper for callbacks from C, which nobody calls: it takes long to make.
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        made = numba.njit(**options)(function)
    made.__class__ = kind
    return made


class _Compiled(CPUDispatcher):
    def compile(self, sig: Any) -> Any:
        """Compile for the type of a constant, where Numba would compile for its value."""
        types, outer, began = tuple(map(numba.types.unliteral, sig)), _inner.seconds, _now()
        try:
            return super().compile(types)
        except OSError:  # the disk is full: it is compiled by now, but not in the cache
            return super().compile(types)
        finally:
            _inner.seconds = outer + _now() - began

    def __call__(self, *arguments: Any) -> Any:
        """Raise what a signal's handler raises while compiled code runs.

        To return arrays Numba runs Python code, in which signals that came meanwhile are handled.
        It goes on with what their handler raised, and says in the end: SystemError, with that as
        the cause, or as the cause of a cause.
        """
        try:
            return _call(self, *arguments)
        except SystemError as error:
            cause: BaseException | None = error
            while isinstance(cause, SystemError):
                cause = cause.__cause__
            if cause is None:
                raise
            raise cause from None


class _Tiered(_Compiled):
    """Run as Python code for some seconds in all, less those of the functions it calls.

    What is in the cache is loaded at once, and for large arrays it is compiled at once. The work of
    a function that calls other ones is mostly theirs: it may get larger arrays.
    """

    python_seconds = 1.0  # seconds
    seconds = 0.0
    size_limit = 0  # elements of an array; 0 before the first call

    def __call__(self, *arguments: Any) -> Any:
        if self.overloads or self._worth_compiling(arguments):
            return _Compiled.__call__(self, *arguments)
        outer, _inner.seconds, began = _inner.seconds, 0.0, _now()
        try:
            with np.errstate(all="ignore"):
                result = self.py_func(*arguments)
        except (ArithmeticError, ValueError):
            return _Compiled.__call__(self, *arguments)
        finally:
            taken = _now() - began
            self.seconds += taken - _inner.seconds
            _inner.seconds = outer + taken
        return result.item() if isinstance(result, np.generic) else result

    def _worth_compiling(self, arguments: tuple[Any, ...]) -> bool:
        if not self.size_limit:
            self.seconds = np.inf if self._in_cache(arguments) else 0.0
            named = map(self.py_func.__globals__.get, self.py_func.__code__.co_names)
            self.size_limit = (
                _LARGEST if any(isinstance(each, _Compiled) for each in named) else _LARGE
            )
        sizes = (each.size for each in arguments if isinstance(each, np.ndarray))
        return self.seconds >= self.python_seconds or max(sizes, default=0) > self.size_limit

    def _in_cache(self, arguments: tuple[Any, ...]) -> bool:
        if self.stats.cache_path is None:
            return False
        this: Any = self
        key = this._cache._index_key(
            tuple(map(this.typeof_pyval, arguments)), this.targetctx.codegen()
        )
        return key in this._cache._cache_file._load_index()


class _Inner(threading.local):
    """The seconds of the functions that were called by the one that runs."""

    seconds = 0.0


_inner, _now = _Inner(), time.thread_time
_compiling: list[tuple[str, float]] = []  # the outermost first; Numba compiles in one thread only


class _Listener(event.Listener):
    logged = False

    def on_start(self, event: Any) -> None:
        function, now = event.data["dispatcher"].py_func, time.monotonic()
        _compiling.append((f"{function.__module__}.{function.__qualname__}", now))
        if not self.logged and now - _compiling[0][1] > _LOG_AFTER:
            self.logged = True
            _log.info("Compiling … (first use on this machine)")

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        _compiling.pop()


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]
