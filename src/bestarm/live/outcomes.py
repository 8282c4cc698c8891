"""Writing outcomes down, within a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import (
    BestArmError,
    ConflictingOutcomeError,
    InvalidInputError,
    UnknownAssignmentError,
)
from bestarm.geometry import Array
from bestarm.live import digests, rules
from bestarm.live.events import log
from bestarm.live.inputs import conflict
from bestarm.live.store.contract import Head, Ids, Writing
from bestarm.live.values import Receipt

__all__ = ["NotAllNewError", "beyond", "fail", "outside", "record", "record_each", "refuse"]

Told = tuple[Ids, Array]


class NotAllNewError(Exception):
    """Some outcome was on record before."""


def record(tx: Writing, ids: Ids, rewards: Array, *, now: float, hopeful: bool) -> Receipt:
    """Write outcomes down.

    Args:
        tx: the books.
        ids: of the assignments.
        rewards: their outcomes.
        now: the time.
        hopeful: do not look first whether any is on record already. If one is, NotAllNewError is
            raised, and nothing of the transaction may be kept.
    """
    _check_known(ids, tx.head)
    rules.expire(tx, now)
    repeated = 0
    if not hopeful:
        known = tx.rewards(ids)
        if known:
            fresh = _not_known(ids, rewards, known)
            repeated = len(ids) - int(fresh.sum())
            ids, rewards = ids[fresh], rewards[fresh]
    late = int(_write(tx, ids, rewards, now).sum())
    return Receipt(len(ids), repeated, late)


def record_each(
    tx: Writing, several: Sequence[Told], *, now: float, bounds: tuple[float, float] | None
) -> list[Receipt | BestArmError]:
    """Write down what several have told, each all or none: a receipt, or why not.

    One after the other: who comes later is told what is wrong beside those before.

    Args:
        tx: the books.
        several: ids and rewards.
        now: the time.
        bounds: between what rewards must lie, or None.
    """
    rules.expire(tx, now)
    every = np.unique(np.concatenate([ids for ids, _ in several]))
    known = tx.rewards(every[(every >= 0) & (every < tx.head.given)])
    fresh: list[Told] = []
    answers: list[Receipt | BestArmError] = []
    for ids, rewards in several:
        try:
            wrong = beyond(rewards, bounds)
            if bounds is not None and wrong.any():
                refuse(tx, ids[wrong], rewards[wrong], now=now)
                raise outside(float(rewards[wrong][0]), bounds)
            _check_known(ids, tx.head)
            new = _not_known(ids, rewards, known)
        except BestArmError as error:
            answers.append(error)
            continue
        fresh.append((ids[new], rewards[new]))
        known.update(zip(ids[new].tolist(), rewards[new].tolist(), strict=True))
        answers.append(Receipt(int(new.sum()), int((~new).sum()), 0))
    if not fresh:
        return answers
    new_ids, new_rewards = (np.concatenate(part) for part in zip(*fresh, strict=True))
    late = _write(tx, new_ids, new_rewards, now)
    ends = np.cumsum([len(ids) for ids, _ in fresh])
    counts = iter([int(part.sum()) for part in np.split(late, ends[:-1])])
    return [
        each if isinstance(each, BestArmError) else replace(each, late=next(counts))
        for each in answers
    ]


def _write(tx: Writing, ids: Ids, rewards: Array, now: float) -> NDArray[np.bool_]:
    """Add outcomes that are new, and say which of them came too late."""
    head = tx.head
    if not len(ids):
        return np.zeros(0, dtype=bool)
    lost = np.zeros(len(ids), dtype=bool)
    if head.lost:
        gone = tx.lost(ids)
        if gone:
            lost = np.isin(ids, list(gone))
    late = np.ones(len(ids), dtype=bool) if head.over else lost
    if tx.tell(ids, rewards, at=now, late=late) < len(ids):
        raise NotAllNewError
    if late.any():
        log(tx, "late", now, **digests.late(ids[late], rewards[late]))
    settled = ids[~lost]
    behind = int((settled < head.first).sum())
    head.behind -= behind
    head.fresh += int((settled < head.handed).sum())
    head.phase_told += len(settled) - behind
    head.told += int((~late).sum())
    head.late += int(late.sum())
    head.lowest = min(head.lowest, float(rewards.min()))
    head.highest = max(head.highest, float(rewards.max()))
    if head.waits and not head.behind and head.phase_told + head.phase_lost >= head.pulls:
        rules.look(tx)
    return late


def fail(tx: Writing, ids: Ids, *, reason: str, now: float) -> None:
    """Give outcomes up."""
    _check_known(ids, tx.head)
    rules.expire(tx, now)
    gone = tx.lost(ids)
    fresh = ids[~np.isin(ids, list(gone))] if gone else ids
    for number, reward in tx.rewards(fresh).items():
        raise ConflictingOutcomeError(
            f"Assignment {number} was already told {reward:g}, now it has failed.",
            field="id",
            value=number,
            remedy="Outcomes cannot be changed: the plans after them rest on them.",
        )
    if fresh.size:
        rules.lose(tx, fresh.tolist(), reason=reason, at=now)
        if tx.head.over:
            log(tx, "failed", now, ids=digests.runs(fresh), reason=reason)


def refuse(tx: Writing, ids: Ids, rewards: Array, *, now: float) -> None:
    """Note that rewards outside the bounds were told: each assignment counts once."""
    _check_known(ids, tx.head)
    tx.head.refused += tx.refuse(ids, rewards, at=now)


def beyond(rewards: Array, bounds: tuple[float, float] | None) -> NDArray[np.bool_]:
    """Which rewards do not lie between the bounds."""
    if bounds is None:
        return np.zeros(len(rewards), dtype=bool)
    return ~((bounds[0] <= rewards) & (rewards <= bounds[1]))


def outside(reward: float, bounds: tuple[float, float]) -> InvalidInputError:
    """The error for a reward that cannot be."""
    low, high = bounds
    return InvalidInputError(
        f"`reward` must lie between {low:g} and {high:g}; got {reward:g}.",
        field="reward",
        value=float(reward),
        remedy="The policy's guarantee rests on the bounds that it was made with.",
    )


def _check_known(ids: Ids, head: Head) -> None:
    unknown = ids[(ids < 0) | (ids >= head.given)]
    if unknown.size:
        last = f"the last id is {head.given - 1}" if head.given else "there is none yet"
        raise UnknownAssignmentError(
            f"Assignment {unknown[0]} was never given out; {last}.",
            field="id",
            value=int(unknown[0]),
            remedy="Tell outcomes under the ids that `ask` returned.",
        )


def _not_known(ids: Ids, rewards: Array, known: dict[int, float]) -> NDArray[np.bool_]:
    """Which outcomes are new; raises where one contradicts what is on record."""
    fresh = np.ones(len(ids), dtype=bool)
    for place, number in enumerate(ids.tolist()):
        told = known.get(number)
        if told is not None:
            if told != rewards[place]:
                raise conflict(number, told, float(rewards[place]))
            fresh[place] = False
    return fresh
