"""One memo of designs and of what follows from them: runs of a simulation ask for the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Most results have about 1 KB. Where one is large it also takes long, so that there are never many.
_REMEMBERED = 16_384


def recall(compute: Callable[_P, _T], /, *arguments: _P.args, **options: _P.kwargs) -> _T:
    """`compute(*arguments, **options)`, computed once for arguments of the same content.

    Arrays are compared by their content, all else by equality. Results are shared: nobody may
    change them, and arrays are made read-only.

    Args:
        compute: a pure function that is known by its name: a fresh lambda would never be found.
        arguments: arrays, or whatever can be hashed.
        options: the same, by name.
    """
    # In one order, however they lie in memory: the last digits of a result may depend on it.
    ordered: Any = [_in_order(value) for value in arguments]
    named = [(name, _content(value)) for name, value in sorted(options.items())]
    slot = _slot(compute, tuple(map(_content, ordered)), tuple(named))
    if not slot:
        result = compute(*ordered, **options)
        if isinstance(result, np.ndarray):
            result.flags.writeable = False
        slot.append(result)
    found: _T = slot[0]
    return found


def _in_order(value: Any) -> Any:
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


def _content(value: Any) -> Hashable:
    """What an argument is known by; for an array its shape, its type and a digest."""
    if not isinstance(value, np.ndarray):
        return cast("Hashable", value)
    return value.shape, value.dtype.str, hashlib.blake2b(value.tobytes(), digest_size=16).digest()


@lru_cache(maxsize=_REMEMBERED)
def _slot(*key: Hashable) -> list[Any]:  # noqa: ARG001
    """Where the result of this key is kept; empty before it is computed."""
    return []


def forget() -> None:
    """Forget all results."""
    _slot.cache_clear()
