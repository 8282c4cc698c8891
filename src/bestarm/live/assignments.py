"""Giving assignments out, within a transaction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import ConflictingRequestError
from bestarm.geometry import Array
from bestarm.live import rules
from bestarm.live.digests import requested
from bestarm.live.store.contract import Head, Ids, Opened, Reading, Request, Writing
from bestarm.live.values import Batch

__all__ = ["Giver"]


class Giver:
    """Draws the arms of a trial's next assignments.

    Args:
        labels: the names of the source arms.
        seed: of the draws.
    """

    def __init__(self, labels: tuple[str, ...], seed: int) -> None:
        self._labels = labels
        self._seed = seed
        self._current: tuple[Opened, NDArray[np.int64] | None] | None = None

    def give(self, tx: Writing, count: int, name: str | None, now: float) -> Batch:
        """Give out up to `count` assignments of the open phase, under a name if there is one."""
        head = tx.head
        start, size = head.given, head.available(count)
        if size:
            opened, order = self._plan(tx)
            arms, probabilities = rules.draw_arms(tx, opened, order, seed=self._seed, size=size)
        else:
            arms, probabilities = np.empty(0, dtype=np.int64), np.empty(0)
        waiting = head.outstanding + size if size < count and head.state == "running" else 0
        if size:
            asked = None
            if name is not None:
                asked = Request(name, count, start, size, head.phase, waiting)
                head.requests = requested(head.requests, asked)
            tx.give(arms, probabilities, at=now, request=asked)
            head.given += size
            head.oldest = min(head.oldest, now)
        return self._batch(head, start, arms, probabilities, waiting)

    def again(self, books: Reading, asked: Request, count: int) -> Batch:
        """What a request was given before.

        Raises:
            ConflictingRequestError: it asked for another number then.
        """
        if asked.count != count:
            raise ConflictingRequestError(
                f"The same request asked for {asked.count} before, now for {count}.",
                field="request_id",
                value=asked.name,
                remedy="Use a new request id for every new request.",
            )
        rows = np.concatenate(list(books.rows(asked.first, asked.first + asked.size)))
        arms, probabilities = rows["arm"].copy(), rows["probability"].copy()
        arms.flags.writeable = probabilities.flags.writeable = False
        head, waiting = books.head, 0
        short = asked.size < asked.count and asked.phase == head.phase
        if short and head.planned and head.state == "running" and not head.available(1):
            waiting = head.outstanding  # as it is now, whatever it was then
        head = replace(head, phase=asked.phase)
        return self._batch(head, asked.first, arms, probabilities, waiting)

    def _batch(
        self, head: Head, start: int, arms: Ids, probabilities: Array, waiting: int
    ) -> Batch:
        return Batch(
            ids=range(start, start + len(arms)),
            arms=arms,
            probabilities=probabilities,
            labels=self._labels,
            phase=head.phase,
            waiting=waiting,
            state=head.state,
        )

    def _plan(self, books: Reading) -> tuple[Opened, NDArray[np.int64] | None]:
        current, phase = self._current, books.head.phase
        if current is None or current[0].plan.phase != phase:
            opened = books.opened(phase)
            current = self._current = opened, rules.turns(opened.plan)
        return current
