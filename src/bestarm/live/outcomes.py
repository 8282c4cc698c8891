"""Recording outcomes, within a transaction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import BestArmError, InvalidInputError, UnknownAssignmentError
from bestarm.geometry import Array
from bestarm.live import rules
from bestarm.live.events import log
from bestarm.live.inputs import conflict
from bestarm.live.store.contract import Head, Ids, Writing
from bestarm.live.summaries import late_data, ranges
from bestarm.live.values import Receipt


class NotAllNewError(Exception):
    """Some outcome was on record before."""


def record(
    tx: Writing,
    several: Sequence[tuple[Ids, Array]],
    *,
    now: float,
    bounds: tuple[float, float] | None,
    assume_new: bool,
) -> list[Receipt | BestArmError]:
    """Record batches of outcomes, each whole or not at all: a receipt or an error each.

    One after the other: a batch that contradicts one before it gets the error. With `assume_new`
    nobody looks first whether any is on record already; if one is, NotAllNewError is raised, and
    nothing of the transaction may be kept.
    """
    rules.expire(tx, now)
    known: dict[int, float] = {}
    if not assume_new:
        every = np.unique(np.concatenate([ids for ids, _ in several]))
        known = tx.rewards(every[(every >= 0) & (every < tx.head.assigned)])
    accepted: list[tuple[Ids, Array]] = []
    answers: list[tuple[Ids, int] | BestArmError] = []
    for ids, rewards in several:
        try:
            _check_bounds(tx, ids, rewards, bounds, now)
            _check_known(ids, tx.head)
            new = _find_new(ids, rewards, known)
        except BestArmError as error:
            answers.append(error)
            continue
        accepted.append((ids[new], rewards[new]))
        answers.append((ids[new], int((~new).sum())))
        if len(several) > 1:
            known.update(zip(ids[new].tolist(), rewards[new].tolist(), strict=True))
    late: set[int] = set()
    if accepted:
        new_ids, new_rewards = (np.concatenate(part) for part in zip(*accepted, strict=True))
        late = set(_write(tx, new_ids, new_rewards, now).tolist())
    return [
        answer
        if isinstance(answer, BestArmError)
        else Receipt(len(answer[0]), answer[1], len(late.intersection(answer[0].tolist())))
        for answer in answers
    ]


def _write(tx: Writing, ids: Ids, rewards: Array, now: float) -> Ids:
    """Add new outcomes, and return the ids of those that came too late."""
    head = tx.head
    if not len(ids):
        return ids
    lost = np.isin(ids, list(tx.lost(ids))) if head.losses else np.zeros(len(ids), dtype=bool)
    late = np.ones(len(ids), dtype=bool) if head.over else lost
    if tx.add_outcomes(ids, rewards, at=now, late=late) < len(ids):
        raise NotAllNewError
    if late.any():
        log(tx, "late", now, **late_data(ids[late], rewards[late]))
    head.phase_outcomes += head.settle(ids[~lost])
    head.outcomes += int((~late).sum())
    head.late += int(late.sum())
    head.lowest = min(head.lowest, float(rewards.min()))
    head.highest = max(head.highest, float(rewards.max()))
    if head.waits and not head.outstanding_before and head.phase_settled >= head.pulls:
        rules.find_settled(tx)
    return ids[late]


def fail(tx: Writing, ids: Ids, *, reason: str, now: float) -> None:
    """Give outcomes up."""
    _check_known(ids, tx.head)
    rules.expire(tx, now)
    new = ids[~np.isin(ids, list(tx.lost(ids)))]
    for number, reward in tx.rewards(new).items():
        raise conflict(number, reward, None)
    if new.size:
        rules.lose(tx, new, reason=reason, at=now)
        if tx.head.over:
            log(tx, "failed", now, ids=ranges(new), reason=reason)


def _check_bounds(
    tx: Writing, ids: Ids, rewards: Array, bounds: tuple[float, float] | None, now: float
) -> None:
    """Refuse rewards outside the bounds, and record that: each assignment counts once."""
    if bounds is None:
        return
    low, high = bounds
    wrong = ~((low <= rewards) & (rewards <= high))
    if wrong.any():
        _check_known(ids[wrong], tx.head)
        tx.head.refusals += tx.add_refusals(ids[wrong], rewards[wrong], at=now)
        reward = float(rewards[wrong][0])
        raise InvalidInputError(
            f"`reward` must lie between {low:g} and {high:g}; got {reward:g}.",
            field="reward",
            value=reward,
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
    if known:
        for place, number in enumerate(ids.tolist()):
            if (before := known.get(number)) is not None:
                if before != rewards[place]:
                    raise conflict(number, before, float(rewards[place]))
                new[place] = False
    return new
