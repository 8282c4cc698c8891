"""What users give: outcomes, ids, names, texts and times, checked before anything is changed."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from bestarm.checks import whole
from bestarm.errors import ClockError, ConflictingOutcomeError, InvalidInputError
from bestarm.geometry import Array
from bestarm.live.store.contract import Ids
from bestarm.live.values import Assignment

__all__ = [
    "EARLIEST",
    "LATEST",
    "Outcomes",
    "check_name",
    "clean_text",
    "conflict",
    "normal_form",
    "read_ids",
    "read_label",
    "read_outcomes",
    "read_time",
]

Outcomes = (
    Mapping[int, float]
    | Mapping[Assignment, float]
    | Iterable[tuple[int, float]]
    | Iterable[tuple[int | Assignment, float]]
)


EARLIEST = 946_684_800.0  # the beginning of the year 2000, in seconds since 1970
LATEST = 7_258_118_400.0  # the beginning of the year 2200

_UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}

# Beyond this size the square of a reward, summed over a phase, could overflow, and a phase whose
# totals are not finite could never close.
_LARGEST_REWARD = 1e100
_PLAIN_REWARDS = {float, bool, np.bool_}  # True and False are 1 and 0: yes and no


def read_outcomes(outcomes: object) -> tuple[Ids, Array]:
    """Ids and rewards, each id once, from a mapping, from pairs or from a data frame."""
    ids, rewards = _columns(outcomes)
    number = np.asarray(ids, dtype=np.int64)
    reward = np.asarray(rewards, dtype=float) + 0.0  # −0.0 and 0.0 are the same reward
    unique, places = np.unique(number, return_index=True)
    if len(unique) == len(number):
        return number, reward
    again = reward[places][np.searchsorted(unique, number)]
    if (again != reward).any():
        wrong = int(np.flatnonzero(again != reward)[0])
        raise conflict(int(number[wrong]), float(again[wrong]), float(reward[wrong]))
    return unique, reward[places]


def read_ids(ids: object) -> list[int]:
    """Ids, each once, in the same order."""
    if not isinstance(ids, Iterable):
        ids = [ids]
    return list(dict.fromkeys(whole(_id(each), "id", least=0, below=2**63) for each in ids))


def _id(number: object) -> object:
    """An id; of an assignment its own."""
    return number.id if isinstance(number, Assignment) else number


def conflict(number: int, before: float, now: float) -> ConflictingOutcomeError:
    """The error for an outcome that contradicts the one on record."""
    rewards = f"told {before:g}, now {now:g}"
    if f"{before:g}" == f"{now:g}":  # they differ in digits that are seldom shown
        rewards = f"told {before!r}, now {now!r}"
    return ConflictingOutcomeError(
        f"Assignment {number} was already {rewards}.",
        field="reward",
        value=now,
        remedy="Outcomes cannot be changed: the plans after them rest on them.",
    )


def _columns(outcomes: object) -> tuple[Any, Any]:
    if hasattr(outcomes, "columns"):
        outcomes = _frame_pairs(outcomes)
    if isinstance(outcomes, Mapping):
        ids, rewards = list(outcomes.keys()), list(outcomes.values())
        if _plain(ids, rewards):
            return ids, rewards
        outcomes = outcomes.items()
    entries: Iterable[Any] = outcomes if isinstance(outcomes, Iterable) else [outcomes]
    entries = list(entries)
    if entries and all(type(item) is tuple and len(item) == 2 for item in entries):
        ids, rewards = map(list, zip(*entries, strict=True))
        if _plain(ids, rewards):
            return ids, rewards
    pairs = [_pair(item) for item in entries]
    return [number for number, _ in pairs], [reward for _, reward in pairs]


def _plain(ids: list[Any], rewards: list[Any]) -> bool:
    """Whether these are Python's own numbers and all valid, so that none has to be read alone."""
    if not (set(map(type, ids)) <= {int} and set(map(type, rewards)) <= _PLAIN_REWARDS):
        return False
    if not ids:
        return True
    sizes = np.abs(np.asarray(rewards, dtype=float))
    return min(ids) >= 0 and max(ids) < 2**63 and bool((sizes <= _LARGEST_REWARD).all())


def _frame_pairs(frame: Any) -> list[tuple[Any, Any]]:
    if not {"id", "reward"} <= set(frame.columns):
        raise InvalidInputError(
            "A table of outcomes needs the columns 'id' and 'reward'.",
            field="outcomes",
            value=list(frame.columns),
        )
    return list(zip(frame["id"].tolist(), frame["reward"].tolist(), strict=True))


def _pair(item: Any) -> tuple[int, float]:
    try:
        number, reward = item
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"`outcomes` must be a mapping from id to reward, or pairs of them; got {item!r}.",
            field="outcomes",
            value=item,
            remedy="For example {0: 1.5, 1: 0.2} or zip(ids, rewards).",
        ) from None
    number = _id(number)
    if isinstance(number, np.floating) and number.is_integer():
        number = int(number)  # a row of a table of ids and rewards
    number = whole(number, "id")
    # Numbers that no id can be are unknown ids, whatever their size.
    return max(-1, min(number, 2**63 - 1)), _reward(reward)


def _reward(value: object) -> float:
    try:
        number = float(value) if isinstance(value, (Real, np.bool_)) else math.nan
    except OverflowError:
        number = math.inf
    if not abs(number) <= _LARGEST_REWARD:  # false for NaN as well
        raise InvalidInputError(
            f"`reward` must be a finite number of size at most {_LARGEST_REWARD:g}, or True or "
            f"False; got {value!r}.",
            field="reward",
            value=value,
            remedy="Tell nothing until the outcome is known.",
        )
    return number


def read_time(value: object, *, stored: bool) -> float:
    """The time that a clock shows, in seconds.

    A wrong time does lasting harm: leases end by it, and lost outcomes are never used. A stored
    experiment accepts only dates, as other processes share it. One in memory may run in simulated
    time, on a clock that starts anywhere; milliseconds are refused there too.

    Args:
        value: what the clock shows.
        stored: whether it is for a stored experiment.

    Raises:
        ClockError: this cannot be the time.
    """
    number = math.nan
    if not isinstance(value, (bool, str)):
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    if (EARLIEST if stored else -LATEST) <= number < LATEST:
        return number
    raise ClockError(
        f"`clock` must tell the time in seconds since 1970; got {value!r}.",
        field="clock",
        value=value,
        remedy=_remedy(number),
    )


def _remedy(number: float) -> str:
    for unit, size in _UNITS.items():
        if EARLIEST * size <= number < LATEST * size:
            return f"Did you give {unit}? Divide by {size:,.0f}."
    if -LATEST < number < EARLIEST:
        return "A stored experiment needs real times; one in memory may run on a clock of its own."
    return "Use `time.time`."


def clean_text(value: object) -> str:
    """Free text in a form that every database can keep."""
    return str(value)[:10_000].encode("utf-8", "replace").decode().replace("\0", "")


def check_name(value: object) -> str:
    """The name of a new experiment, which can be a part of a path."""
    name = read_label(normal_form(value) if isinstance(value, str) else value, "name")
    if "/" in name or name in {".", ".."}:
        raise InvalidInputError(
            f"`name` must not contain a slash or consist of dots; got {name!r}.",
            field="name",
            value=name,
            remedy="Use a dash.",
        )
    if name != name.strip():
        raise InvalidInputError(
            f"`name` must not begin or end with a space; got {name!r}.", field="name", value=name
        )
    return name


def normal_form(name: str) -> str:
    """A name in Unicode's normal form C, however its letters were typed."""
    return unicodedata.normalize("NFC", name)


def read_label(value: object, field: str) -> str:
    """A short text without line breaks or control characters."""
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise InvalidInputError(
            f"`{field}` must be a text of 1 to 200 characters; got {value!r}.",
            field=field,
            value=value,
        )
    return value
