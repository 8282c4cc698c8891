"""Recording outcomes, within a transaction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bestarm.errors import BestArmError, InvalidInputError, UnknownAssignmentError
from bestarm.live import rules
from bestarm.live.events import log
from bestarm.live.inputs import conflict
from bestarm.live.store.contract import Head, Ids, Writing
from bestarm.live.summaries import late_data, ranges
from bestarm.live.values import Receipt

Outcomes = tuple[Sequence[int], Sequence[float]]  # ids, each once, and a reward for each


def record(
    tx: Writing,
    several: Sequence[Outcomes],
    *,
    now: float,
    bounds: tuple[float, float] | None,
    assume_new: bool,
) -> list[Receipt | BestArmError]:
    """Record batches of outcomes, each whole or not at all: a receipt or an error each.

    One after the other: a batch that contradicts one before it gets the error. With `assume_new`
    nobody looks first whether any is on record already; if one is, NotAllNewError is raised, here
    or when the transaction ends.
    """
    rules.expire(tx, now)
    known: dict[int, float] = {}
    if not assume_new:
        every = {number for ids, _ in several for number in ids if 0 <= number < tx.head.assigned}
        known = tx.rewards(np.array(sorted(every), dtype=np.int64))
    new_ids: list[int] = []
    new_rewards: list[float] = []
    answers: list[tuple[Sequence[int], int] | BestArmError] = []
    for ids, rewards in several:
        try:
            _check_bounds(tx, ids, rewards, bounds, now)
            _check_known(ids, tx.head)
            new = _find_new(ids, rewards, known)
        except BestArmError as error:
            answers.append(error)
            continue
        new_ids += new[0]
        new_rewards += new[1]
        answers.append((new[0], len(ids) - len(new[0])))
        if len(several) > 1:
            known.update(zip(*new, strict=True))
    late = _write(tx, new_ids, new_rewards, now) if new_ids else set()
    return [
        answer
        if isinstance(answer, BestArmError)
        else Receipt(len(answer[0]), answer[1], len(late.intersection(answer[0])) if late else 0)
        for answer in answers
    ]


def _write(tx: Writing, ids: Sequence[int], rewards: Sequence[float], now: float) -> set[int]:
    """Add new outcomes, and return the ids of those that came too late."""
    head = tx.head
    lost = tx.lost(np.array(ids)) if head.losses else set()
    late = set(ids) if head.over else lost
    tx.add_new_outcomes(ids, rewards, at=now, late=[number in late for number in ids])
    if late:
        outcomes = np.array([each for each in zip(ids, rewards, strict=True) if each[0] in late])
        log(tx, "late", now, **late_data(outcomes[:, 0].astype(np.int64), outcomes[:, 1]))
    held_up = head.held_up
    head.phase_outcomes += head.settle([number for number in ids if number not in lost])
    head.outcomes += len(ids) - len(late)
    head.late += len(late)
    head.lowest = min(head.lowest, *rewards)
    head.highest = max(head.highest, *rewards)
    # While it is held up, `settled_end` is what it waits for.
    if head.held_up and (not held_up or head.settled_end in ids):
        rules.find_settled(tx)
    return late


def fail(tx: Writing, ids: Ids, *, reason: str, now: float) -> None:
    """Give outcomes up."""
    _check_known(ids.tolist(), tx.head)
    rules.expire(tx, now)
    new = ids[~np.isin(ids, list(tx.lost(ids)))]
    for number, reward in tx.rewards(new).items():
        raise conflict(number, reward, None)
    if new.size:
        rules.lose(tx, new, reason=reason, at=now)
        if tx.head.over:
            log(tx, "failed", now, ids=ranges(new), reason=reason)


def _check_bounds(
    tx: Writing,
    ids: Sequence[int],
    rewards: Sequence[float],
    bounds: tuple[float, float] | None,
    now: float,
) -> None:
    """Refuse rewards outside the bounds, and record that: each assignment counts once."""
    if bounds is None or not len(rewards):
        return
    low, high = bounds
    if low <= min(rewards) and max(rewards) <= high:
        return
    wrong = {
        number: reward
        for number, reward in zip(ids, rewards, strict=True)
        if not low <= reward <= high
    }
    _check_known(list(wrong), tx.head)
    columns = np.array(list(wrong)), np.array(list(wrong.values()))
    tx.head.refusals += tx.add_refusals(*columns, at=now)
    reward = float(next(iter(wrong.values())))
    raise InvalidInputError(
        f"`reward` must lie between {low:g} and {high:g}; got {reward:g}.",
        field="reward",
        value=reward,
        remedy="The policy's guarantee rests on the bounds that it was made with.",
    )


def _check_known(ids: Sequence[int], head: Head) -> None:
    if not len(ids) or (min(ids) >= 0 and max(ids) < head.assigned):
        return
    unknown = next(number for number in ids if not 0 <= number < head.assigned)
    last = f"the last id is {head.assigned - 1}" if head.assigned else "there are none yet"
    raise UnknownAssignmentError(
        f"Assignment {unknown} was never given out; {last}.",
        field="id",
        value=int(unknown),
        remedy="Tell outcomes under the ids that `ask` returned.",
    )


def _find_new(
    ids: Sequence[int], rewards: Sequence[float], known: dict[int, float]
) -> tuple[list[int], list[float]]:
    """The outcomes that are new; raises where one contradicts what is on record."""
    if not known:
        return list(ids), list(rewards)
    new_ids, new_rewards = list[int](), list[float]()
    for number, reward in zip(ids, rewards, strict=True):
        before = known.get(number)
        if before is None:
            new_ids.append(number)
            new_rewards.append(reward)
        elif before != reward:
            raise conflict(number, before, reward)
    return new_ids, new_rewards
