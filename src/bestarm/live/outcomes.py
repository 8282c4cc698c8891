"""Recording outcomes, within a transaction."""

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
from bestarm.live import rules
from bestarm.live.events import log
from bestarm.live.inputs import conflict
from bestarm.live.store.contract import Head, Ids, Writing
from bestarm.live.summaries import late_data, ranges
from bestarm.live.values import Receipt

__all__ = [
    "NotAllNewError",
    "fail",
    "out_of_bounds",
    "out_of_bounds_error",
    "record",
    "record_each",
    "refuse",
]

BatchOfOutcomes = tuple[Ids, Array]


class NotAllNewError(Exception):
    """Some outcome was on record before."""


def record(tx: Writing, ids: Ids, rewards: Array, *, now: float, assume_new: bool) -> Receipt:
    """Record outcomes.

    Args:
        tx: a transaction.
        ids: of the assignments.
        rewards: one per assignment.
        now: the time.
        assume_new: do not look first whether any is on record already. If one is, NotAllNewError
            is raised, and nothing of the transaction may be kept.
    """
    _check_known(ids, tx.head)
    rules.expire(tx, now)
    repeated = 0
    if not assume_new:
        known = tx.rewards(ids)
        if known:
            new = _find_new(ids, rewards, known)
            repeated = len(ids) - int(new.sum())
            ids, rewards = ids[new], rewards[new]
    late = int(_write(tx, ids, rewards, now).sum())
    return Receipt(len(ids), repeated, late)


def record_each(
    tx: Writing,
    several: Sequence[BatchOfOutcomes],
    *,
    now: float,
    bounds: tuple[float, float] | None,
) -> list[Receipt | BestArmError]:
    """Record several batches of outcomes, each whole or not at all: a receipt or an error each.

    One after the other: a batch that contradicts one before it gets the error.

    Args:
        tx: a transaction.
        several: ids and rewards.
        now: the time.
        bounds: the least and the largest reward there can be, or None.
    """
    rules.expire(tx, now)
    every = np.unique(np.concatenate([ids for ids, _ in several]))
    known = tx.rewards(every[(every >= 0) & (every < tx.head.assigned)])
    accepted: list[BatchOfOutcomes] = []
    answers: list[Receipt | BestArmError] = []
    for ids, rewards in several:
        try:
            wrong = out_of_bounds(rewards, bounds)
            if bounds is not None and wrong.any():
                refuse(tx, ids[wrong], rewards[wrong], now=now)
                raise out_of_bounds_error(float(rewards[wrong][0]), bounds)
            _check_known(ids, tx.head)
            new = _find_new(ids, rewards, known)
        except BestArmError as error:
            answers.append(error)
            continue
        accepted.append((ids[new], rewards[new]))
        known.update(zip(ids[new].tolist(), rewards[new].tolist(), strict=True))
        answers.append(Receipt(int(new.sum()), int((~new).sum()), 0))
    if not accepted:
        return answers
    new_ids, new_rewards = (np.concatenate(part) for part in zip(*accepted, strict=True))
    late = _write(tx, new_ids, new_rewards, now)
    ends = np.cumsum([len(ids) for ids, _ in accepted])
    counts = iter([int(part.sum()) for part in np.split(late, ends[:-1])])
    return [
        each if isinstance(each, BestArmError) else replace(each, late=next(counts))
        for each in answers
    ]


def _write(tx: Writing, ids: Ids, rewards: Array, now: float) -> NDArray[np.bool_]:
    """Add new outcomes, and return which of them came too late."""
    head = tx.head
    if not len(ids):
        return np.zeros(0, dtype=bool)
    lost = np.zeros(len(ids), dtype=bool)
    if head.losses:
        gone = tx.lost(ids)
        if gone:
            lost = np.isin(ids, list(gone))
    late = np.ones(len(ids), dtype=bool) if head.over else lost
    if tx.add_outcomes(ids, rewards, at=now, late=late) < len(ids):
        raise NotAllNewError
    if late.any():
        log(tx, "late", now, **late_data(ids[late], rewards[late]))
    settled = ids[~lost]
    before = int((settled < head.first).sum())
    head.outstanding_before -= before
    head.arrivals += int((settled < head.summary_end).sum())
    head.phase_outcomes += len(settled) - before
    head.outcomes += int((~late).sum())
    head.late += int(late.sum())
    head.lowest = min(head.lowest, float(rewards.min()))
    head.highest = max(head.highest, float(rewards.max()))
    if head.waits and not head.outstanding_before and head.phase_settled >= head.pulls:
        rules.find_settled(tx)
    return late


def fail(tx: Writing, ids: Ids, *, reason: str, now: float) -> None:
    """Give outcomes up."""
    _check_known(ids, tx.head)
    rules.expire(tx, now)
    gone = tx.lost(ids)
    new = ids[~np.isin(ids, list(gone))] if gone else ids
    for number, reward in tx.rewards(new).items():
        raise ConflictingOutcomeError(
            f"Assignment {number} was already told {reward:g}, now it has failed.",
            field="id",
            value=number,
            remedy="Outcomes cannot be changed: the plans after them rest on them.",
        )
    if new.size:
        rules.lose(tx, new.tolist(), reason=reason, at=now)
        if tx.head.over:
            log(tx, "failed", now, ids=ranges(new), reason=reason)


def refuse(tx: Writing, ids: Ids, rewards: Array, *, now: float) -> None:
    """Record rewards outside the bounds: each assignment counts once."""
    _check_known(ids, tx.head)
    tx.head.refusals += tx.add_refusals(ids, rewards, at=now)


def out_of_bounds(rewards: Array, bounds: tuple[float, float] | None) -> NDArray[np.bool_]:
    """Which rewards lie outside the bounds."""
    if bounds is None:
        return np.zeros(len(rewards), dtype=bool)
    return ~((bounds[0] <= rewards) & (rewards <= bounds[1]))


def out_of_bounds_error(reward: float, bounds: tuple[float, float]) -> InvalidInputError:
    """The error for a reward outside the bounds."""
    low, high = bounds
    return InvalidInputError(
        f"`reward` must lie between {low:g} and {high:g}; got {reward:g}.",
        field="reward",
        value=float(reward),
        remedy="The policy's guarantee rests on the bounds that it was made with.",
    )


def _check_known(ids: Ids, head: Head) -> None:
    unknown = ids[(ids < 0) | (ids >= head.assigned)]
    if unknown.size:
        last = f"the last id is {head.assigned - 1}" if head.assigned else "there are none yet"
        raise UnknownAssignmentError(
            f"Assignment {unknown[0]} was never given out; {last}.",
            field="id",
            value=int(unknown[0]),
            remedy="Tell outcomes under the ids that `ask` returned.",
        )


def _find_new(ids: Ids, rewards: Array, known: dict[int, float]) -> NDArray[np.bool_]:
    """Which outcomes are new; raises where one contradicts what is on record."""
    new = np.ones(len(ids), dtype=bool)
    for place, number in enumerate(ids.tolist()):
        before = known.get(number)
        if before is not None:
            if before != rewards[place]:
                raise conflict(number, before, float(rewards[place]))
            new[place] = False
    return new
