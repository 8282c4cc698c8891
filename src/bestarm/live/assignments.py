"""Making assignments, within a transaction."""

from __future__ import annotations

import numpy as np

from bestarm.errors import ConflictingRequestError
from bestarm.geometry import Array
from bestarm.live.draws import draw_arms, order_of
from bestarm.live.store.contract import Head, Ids, PlanRecord, Reading, Request, Writing
from bestarm.live.store.damage import damaged
from bestarm.live.summaries import chain_request
from bestarm.live.values import Batch

__all__ = ["Assigner"]


class Assigner:
    """Draws the arms of an experiment's next assignments.

    Args:
        labels: the names of the source arms.
        seed: of the draws.
    """

    def __init__(self, labels: tuple[str, ...], seed: int) -> None:
        self._labels = labels
        self._seed = seed
        self._current: tuple[PlanRecord, Ids | None] | None = None

    def assign(self, tx: Writing, count: int, name: str | None, now: float) -> Batch:
        """Make up to `count` assignments of the open phase, for a named request if there is one."""
        head = tx.head
        start, size = head.assigned, head.available(count)
        arms, probabilities = np.empty(0, dtype=np.int64), np.empty(0)
        if size:
            record, order = self._plan(tx)
            arms, probabilities = draw_arms(
                tx, record, order, seed=self._seed, start=start, size=size
            )
            if len(arms) < size:
                raise damaged(f"Phase {head.phase} has fewer losses on record than were counted.")
            request = None if name is None else Request(name, count, start, size, head.phase)
            if request is not None:
                head.requests_hash = chain_request(head.requests_hash, request)
            tx.add_assignments(arms, probabilities, at=now, request=request)
            head.assigned += size
            head.oldest = min(head.oldest, now)
        waiting = head.outstanding if size < count and head.state == "running" else 0
        return self._batch(head, head.phase, start, arms, probabilities, waiting)

    def repeat(self, books: Reading, request: Request, count: int) -> Batch:
        """The assignments that a request was given before.

        Raises:
            ConflictingRequestError: it asked for another number then.
        """
        if request.count != count:
            raise ConflictingRequestError(
                f"The same request asked for {request.count} before, now for {count}.",
                field="request_id",
                value=request.name,
                remedy="Use a new request id for every new request.",
            )
        rows = np.concatenate(list(books.rows(request.first, request.first + request.size)))
        head, waiting = books.head, 0
        short = request.size < request.count and request.phase == head.phase
        if short and head.planned and head.state == "running" and not head.available(1):
            waiting = head.outstanding  # as it is now, whatever it was then
        arms, probabilities = rows["arm"].copy(), rows["probability"].copy()
        return self._batch(head, request.phase, request.first, arms, probabilities, waiting)

    def _batch(
        self, head: Head, phase: int, start: int, arms: Ids, probabilities: Array, waiting: int
    ) -> Batch:
        arms.flags.writeable = probabilities.flags.writeable = False
        ids = range(start, start + len(arms))
        return Batch(ids, arms, probabilities, self._labels, phase, waiting, head.state)

    def _plan(self, books: Reading) -> tuple[PlanRecord, Ids | None]:
        current, phase = self._current, books.head.phase
        if current is None or current[0].plan.phase != phase:
            record = books.plan(phase)
            current = self._current = record, order_of(record.plan)
        return current
