"""Writing outcomes down, within a transaction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import ConflictingOutcomeError, InvalidInputError, UnknownAssignmentError
from bestarm.geometry import Array
from bestarm.live import digests, trial
from bestarm.live.batches import Receipt
from bestarm.live.events import log
from bestarm.live.ledger import Head, Ids, Writing
from bestarm.live.outcomes import conflict

__all__ = ["NotAllNewError", "fail", "outside", "record", "refuse"]


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
    trial.expire(tx, now)
    repeated = 0
    if not hopeful:
        known = tx.rewards(ids)
        if known:
            fresh = _not_known(ids, rewards, known)
            repeated = len(ids) - int(fresh.sum())
            ids, rewards = ids[fresh], rewards[fresh]
    late = _write(tx, ids, rewards, now) if len(ids) else 0
    return Receipt(len(ids), repeated, late)


def _write(tx: Writing, ids: Ids, rewards: Array, now: float) -> int:
    head = tx.head
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
    head.phase_told += len(settled) - behind
    head.told += int((~late).sum())
    head.late += int(late.sum())
    head.lowest = min(head.lowest, float(rewards.min()))
    head.highest = max(head.highest, float(rewards.max()))
    if head.open and not head.behind and head.phase_told + head.phase_lost >= head.pulls:
        trial.look(tx)
    return int(late.sum())


def fail(tx: Writing, ids: Ids, *, reason: str, now: float) -> None:
    """Give outcomes up."""
    _check_known(ids, tx.head)
    trial.expire(tx, now)
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
        trial.lose(tx, fresh.tolist(), reason=reason, at=now)
        if tx.head.over:
            log(tx, "failed", now, ids=digests.runs(fresh), reason=reason)


def refuse(tx: Writing, ids: Ids, rewards: Array, *, now: float) -> None:
    """Note that rewards outside the bounds were told: each assignment counts once."""
    _check_known(ids, tx.head)
    tx.head.refused += tx.refuse(ids, rewards, at=now)


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
                raise conflict(number, f"told {told:g}", float(rewards[place]))
            fresh[place] = False
    return fresh
