"""Lengths of time as people write them."""

from __future__ import annotations

import re

from bestarm.errors import InvalidInputError

__all__ = ["read_lease"]

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def read_lease(value: object) -> float:
    """Seconds: a number, or a text like 90s, 30m, 12h, 2d, 1w."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*", value)
        if found is None or not float(found[1]):
            raise InvalidInputError(
                f"`lease` must be a time like 90s, 30m, 12h or 2d; got {value!r}.",
                field="lease",
                value=value,
            )
        return float(found[1]) * _SECONDS[found[2]]
    return value  # type: ignore[return-value]  # `create` says if it is no number
