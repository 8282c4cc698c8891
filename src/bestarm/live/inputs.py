"""Reading outcomes as users give them: everything is checked before anything is touched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from bestarm.checks import whole
from bestarm.errors import ConflictingOutcomeError, InvalidInputError
from bestarm.geometry import Array
from bestarm.live.store.contract import Ids
from bestarm.live.values import Assignment

__all__ = ["conflict", "read_ids", "read_outcomes"]

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
    """Ids, each once, in the order given."""
    if not isinstance(ids, Iterable):
        ids = [ids]
    return list(dict.fromkeys(whole(_id(each), "id", least=0, below=2**63) for each in ids))


def _id(number: object) -> object:
    """An id; of an assignment its own."""
    return number.id if isinstance(number, Assignment) else number


def conflict(number: int, before: float, now: float) -> ConflictingOutcomeError:
    """The error for an outcome that contradicts what is on record."""
    said = f"told {before:g}, now {now:g}"
    if f"{before:g}" == f"{now:g}":  # they differ in digits that are seldom shown
        said = f"told {before!r}, now {now!r}"
    return ConflictingOutcomeError(
        f"Assignment {number} was already {said}.",
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
    """Whether these are Python's own numbers and all is well: then there is no need to look at
    them one by one."""
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
