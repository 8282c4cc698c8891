"""A ledger in memory, for experiments that begin and end within one program."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from bestarm.geometry import Array
from bestarm.live.store.contract import (
    ROW,
    Event,
    Head,
    Ids,
    PlanRecord,
    Request,
    Rows,
    SummaryRecord,
    answers_of,
)

__all__ = ["MemoryLedger"]

_PIECE = 4096  # rows searched at a time


class MemoryLedger:
    """A ledger in memory, safe for threads. It is its own transaction."""

    def __init__(self) -> None:
        self._lock = RLock()
        self.head = Head()
        self._rows = np.empty(0, dtype=ROW)
        self._used = 0
        self._losses: dict[int, list[int]] = {}  # ids by phase
        self._requests: dict[str, Request] = {}
        self._refusals: dict[int, float] = {}
        self._deferrals: dict[int, int] = {}  # the number of the summary that covers them, or −1
        self._waiting: set[int] = set()  # deferrals that no summary covers
        self._summaries: list[SummaryRecord] = []
        self._plans: list[PlanRecord] = []
        self._events: list[Event] = []
        self._undo: list[Callable[[], object]] = []  # what takes back the steps of a transaction

    @contextmanager
    def reading(self) -> Iterator[MemoryLedger]:
        """A transaction that sees one state."""
        with self._lock:
            yield self

    @contextmanager
    def writing(self) -> Iterator[MemoryLedger]:
        """A transaction; after an exception everything is as it was before."""
        with self._lock:
            head, self._undo = replace(self.head), []
            try:
                yield self
            except BaseException:
                for take_back in reversed(self._undo):
                    take_back()
                self.head = head
                raise

    def close(self) -> None:
        """Release nothing."""

    def now(self) -> float:
        """The time by this process's clock."""
        return time.time()

    def plan(self, phase: int) -> PlanRecord:
        """The plan of a phase."""
        return self._plans[phase - self._plans[0].plan.phase]

    def plans(self, start: int = 1) -> Iterator[PlanRecord]:
        """The plans from a phase on."""
        yield from (record for record in self._plans if record.plan.phase >= start)

    def summaries(self, start: int = 0) -> Iterator[SummaryRecord]:
        """The summaries from a number on."""
        yield from self._summaries[start:]

    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        """The events from a number on."""
        yield from self._events[start : None if limit is None else start + limit]

    def request(self, name: str) -> Request | None:
        """The request of this name, or None."""
        return self._requests.get(name)

    def requests(self) -> Iterator[Request]:
        """All named requests, in the order made."""
        yield from self._requests.values()

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments of a range, in one piece."""
        yield self._rows[first : min(end, self._used)].copy()

    def answers(self, first: int, end: int) -> Iterator[Rows]:
        """The same assignments as ANSWER."""
        yield answers_of(self._rows[first:end])

    def rewards(self, ids: Ids) -> dict[int, float]:
        """The rewards of those of these assignments that have an outcome."""
        rewards = self._rows["reward"][ids]
        known = ~np.isnan(rewards)
        return dict(zip(ids[known].tolist(), rewards[known].tolist(), strict=True))

    def lost(self, ids: Ids) -> set[int]:
        """Which of these assignments are lost."""
        return set(ids[~np.isnan(self._rows["lost"][ids])].tolist())

    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        """The arms of lost assignments of a phase, in the order of loss."""
        ids = self._losses.get(phase, [])[start : start + count]
        return np.asarray(self._rows["arm"][ids], dtype=np.int64)

    def first_outstanding(self, start: int, end: int) -> int | None:
        """The least outstanding id of a range, or None."""
        for begin in range(start, end, _PIECE):
            found = self.outstanding(begin, min(end, begin + _PIECE))
            if found.size:
                return int(found[0])
        return None

    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        """The outstanding ids of a range that were asked for by a time."""
        rows = self._rows[start:end]
        return start + np.flatnonzero(~_settled(rows) & (rows["asked"] <= asked_by))

    def asked_at(self, number: int) -> float:
        """The time at which an assignment was asked for."""
        return float(self._rows["asked"][number])

    def deferrals(self, *, waiting: bool = False) -> Iterator[tuple[Ids, Ids]]:
        """The assignments that were outstanding when their phase closed."""
        some = self._waiting if waiting else self._deferrals
        found = [(number, self._deferrals[number]) for number in sorted(some)]
        rows = np.array(found, dtype=np.int64).reshape(-1, 2)
        yield rows[:, 0], rows[:, 1]

    def arrivals(self) -> Ids:
        """Those of them that are settled and that no summary covers."""
        ids = np.array(sorted(self._waiting), dtype=np.int64)
        return ids[_settled(self._rows[ids])]

    def add_assignments(
        self, arms: Ids, probabilities: Array, *, at: float, request: Request | None
    ) -> None:
        """Add assignments of the head's phase, with ids from the head's `assigned` on."""
        first, end, used = self.head.assigned, self.head.assigned + len(arms), self._used
        if end > len(self._rows):
            grown = np.empty(max(end, 2 * len(self._rows)), dtype=ROW)
            grown[:used] = self._rows[:used]
            self._rows = grown
        rows = self._rows[first:end]
        rows["id"], rows["phase"], rows["arm"] = np.arange(first, end), self.head.phase, arms
        rows["probability"], rows["asked"] = probabilities, at
        rows["reward"] = rows["told"] = rows["lost"] = np.nan
        rows["late"] = False
        self._used = end
        self._undo.append(lambda: setattr(self, "_used", used))
        if request is not None:
            self._requests[request.name] = request
            self._undo.append(lambda: self._requests.pop(request.name))

    def add_outcomes(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        """Add outcomes, except where there is one already; return the number added."""
        new = np.isnan(self._rows["reward"][ids])
        ids = ids[new]
        self._set_outcomes(ids, rewards[new], at, late[new])
        self._undo.append(lambda: self._set_outcomes(ids, np.nan, np.nan, False))
        return len(ids)

    def _set_outcomes(
        self, ids: Ids, rewards: Array | float, told: float, late: NDArray[np.bool_] | bool
    ) -> None:
        self._rows["reward"][ids] = rewards
        self._rows["told"][ids] = told
        self._rows["late"][ids] = late

    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:  # noqa: ARG002
        """Add losses, in this order. Nobody asks for the reasons of an experiment in memory."""
        for number in ids:
            self._rows["lost"][number] = at
            self._losses.setdefault(int(self._rows["phase"][number]), []).append(number)
        self._undo.append(lambda: self._remove_losses(ids))

    def _remove_losses(self, ids: Sequence[int]) -> None:
        for number in reversed(ids):
            self._rows["lost"][number] = np.nan
            self._losses[int(self._rows["phase"][number])].pop()

    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:  # noqa: ARG002
        """Add refused rewards, except where one is on record; return the number added."""
        told = zip(ids.tolist(), rewards.tolist(), strict=True)
        new = {number: reward for number, reward in told if number not in self._refusals}
        self._refusals |= new
        self._undo.append(lambda: [self._refusals.pop(number) for number in new])
        return len(new)

    def add_deferrals(self, ids: Ids) -> None:
        """Record that assignments are outstanding while their phase closes."""
        self.settle_deferrals(ids, summary=-1)

    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        """Record the number of the summary that covers these assignments."""
        for number in ids.tolist():
            before = self._deferrals.get(number)
            self._set_deferral(number, summary)
            self._undo.append(partial(self._set_deferral, number, before))

    def _set_deferral(self, number: int, summary: int | None) -> None:
        if summary is None:
            del self._deferrals[number]
        else:
            self._deferrals[number] = summary
        if summary == -1:
            self._waiting.add(number)
        else:
            self._waiting.discard(number)

    def add_summary(self, record: SummaryRecord) -> None:
        """Add a summary."""
        self._summaries.append(record)
        self._undo.append(self._summaries.pop)

    def add_plan(self, record: PlanRecord) -> None:
        """Add a plan."""
        self._plans.append(record)
        self._undo.append(self._plans.pop)

    def add_event(self, event: Event) -> None:
        """Add an event."""
        self._events.append(event)
        self._undo.append(self._events.pop)


def _settled(rows: Rows) -> NDArray[np.bool_]:
    settled: NDArray[np.bool_] = ~(np.isnan(rows["reward"]) & np.isnan(rows["lost"]))
    return settled
