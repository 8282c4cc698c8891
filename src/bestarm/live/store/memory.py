"""Books kept in memory: for trials that begin and end within one program."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from bestarm.geometry import Array
from bestarm.live.store.contract import (
    ROW,
    TIMES,
    Entry,
    Event,
    Head,
    Ids,
    Loss,
    Opened,
    Request,
    Rows,
    Sizes,
)

__all__ = ["MemoryLedger"]


class MemoryLedger:
    """A ledger in memory, safe for threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self.head = Head()
        self._rows = np.empty(0, dtype=ROW)
        self._used = 0
        self._losses: dict[int, list[int]] = {}
        self._reasons: dict[int, str] = {}
        self._requests: dict[str, Request] = {}
        self._refusals: dict[int, float] = {}
        self._deferred: dict[int, int] = {}  # the summary that has their outcome, or −1
        self._waiting: set[int] = set()  # those that no summary has
        self._entries: list[Entry] = []
        self._phases: list[Opened] = []
        self._events: list[Event] = []

    @contextmanager
    def reading(self) -> Iterator[MemoryLedger]:
        """A transaction that sees one state of the books."""
        with self._lock:
            yield self

    @contextmanager
    def writing(self) -> Iterator[MemoryLedger]:
        """A transaction; on an exception everything is as it was before."""
        with self._lock:
            head, used = replace(self.head), self._used
            lists = (self._entries, self._phases, self._events)
            sizes = [len(each) for each in lists]
            self._told: list[Ids] = []
            self._lost: list[int] = []
            self._named: list[str] = []
            self._refused: list[int] = []
            self._before: dict[int, int | None] = {}  # of `_deferred`, where it was changed
            try:
                yield self
            except BaseException:
                self.head, self._used = head, used
                for each, size in zip(lists, sizes, strict=True):
                    del each[size:]  # type: ignore[attr-defined]
                for ids in self._told:
                    self._rows["reward"][ids] = self._rows["told"][ids] = np.nan
                    self._rows["late"][ids] = False
                for number in reversed(self._lost):
                    self._rows["lost"][number] = np.nan
                    self._losses[int(self._rows["phase"][number])].pop()
                for name in self._named:
                    del self._requests[name]
                for number in self._refused:
                    del self._refusals[number]
                for number, entry in self._before.items():
                    self._defer(number, entry)
                raise

    def close(self) -> None:
        """Nothing to let go of."""

    def now(self) -> float:
        """The time by this process's clock."""
        return time.time()

    def opened(self, phase: int) -> Opened:
        """A phase's plan."""
        return self._phases[phase - self._phases[0].plan.phase]

    def request(self, name: str) -> Request | None:
        """The named ask, if there was one."""
        return self._requests.get(name)

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """Assignments with what became of them, in order of id."""
        yield self._rows[first : min(end, self._used)].copy()

    def answers(self, first: int, end: int) -> Iterator[tuple[Ids, Array]]:
        """Arms and rewards of assignments that are settled, in order of id."""
        rows = self._rows[first:end]
        yield rows["arm"], np.where(np.isnan(rows["lost"]), rows["reward"], np.nan)

    def times(self, first: int, end: int) -> Iterator[Rows]:
        """When assignments that are settled were given out, told or lost."""
        rows = self._rows[first:end]
        made = np.empty(len(rows), dtype=TIMES)
        made["asked"], made["lost"] = rows["asked"], rows["lost"]
        made["told"] = np.where(np.isnan(rows["lost"]), rows["told"], np.nan)
        yield made

    def rewards(self, ids: Ids) -> dict[int, float]:
        """The rewards on record of these assignments."""
        rewards = self._rows["reward"][ids]
        known = ~np.isnan(rewards)
        return dict(zip(ids[known].tolist(), rewards[known].tolist(), strict=True))

    def lost(self, ids: Ids) -> set[int]:
        """Which of these assignments were given up."""
        return set(ids[~np.isnan(self._rows["lost"][ids])].tolist())

    def lost_arms(self, phase: int, start: int, count: int) -> NDArray[np.int64]:
        """The arms of a phase's lost assignments in the order of their loss, from one on."""
        ids = self._losses.get(phase, [])[start : start + count]
        return np.asarray(self._rows["arm"][ids], dtype=np.int64)

    def unsettled(self, start: int, end: int, *, asked_by: float | None = None) -> Ids:
        """The ids in a range that are neither told nor lost, or the first of them alone."""
        if asked_by is None:
            for begin in range(start, end, 4096):
                rows = self._rows[begin : min(end, begin + 4096)]
                free = np.flatnonzero(np.isnan(rows["reward"]) & np.isnan(rows["lost"]))
                if free.size:
                    return begin + free[:1]
            return np.empty(0, dtype=np.int64)
        rows = self._rows[start:end]
        free = np.isnan(rows["reward"]) & np.isnan(rows["lost"]) & (rows["asked"] <= asked_by)
        return start + np.flatnonzero(free)

    def asked(self, number: int) -> float:
        """When an assignment was given out."""
        return float(self._rows["asked"][number])

    def deferred(self, *, waiting: bool = False) -> Iterator[tuple[Ids, Ids]]:
        """Assignments that were outstanding when their phase closed, in order of id."""
        some = self._waiting if waiting else self._deferred
        found = [(number, self._deferred[number]) for number in sorted(some)]
        rows = np.array(found, dtype=np.int64).reshape(-1, 2)
        yield rows[:, 0], rows[:, 1]

    def arrived(self) -> Ids:
        """Those of them that are told or lost by now, and that no summary has yet."""
        ids = np.array(sorted(self._waiting), dtype=np.int64)
        rows = self._rows[ids]
        settled: NDArray[np.bool_] = ~np.isnan(rows["reward"]) | ~np.isnan(rows["lost"])
        return ids[settled]

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The summaries told to the policy, from a number on."""
        yield from self._entries[start:]

    def phases(self, start: int = 1) -> Iterator[Opened]:
        """The plans that were opened, from a phase on."""
        yield from (opened for opened in self._phases if opened.plan.phase >= start)

    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        """The log, from a number on, up to a limit."""
        yield from self._events[start : None if limit is None else start + limit]

    def requests(self) -> Iterator[Request]:
        """The named asks, in the order made."""
        yield from self._requests.values()

    def losses(self) -> Iterator[Loss]:
        """What was given up, phase by phase, in the order of loss."""
        for phase, ids in sorted(self._losses.items()):
            for place, number in enumerate(ids):
                at = float(self._rows["lost"][number])
                yield Loss(number, phase, place, self._reasons[number], at)

    def misdated(self) -> Iterator[str]:
        """Nothing: here a time is kept once."""
        return iter(())

    def sizes(self) -> Sizes:
        """How many rows there are."""
        rows = self._rows[: self._used]
        return Sizes(
            assignments=len(rows),
            outcomes=int((~np.isnan(rows["reward"])).sum()),
            losses=int((~np.isnan(rows["lost"])).sum()),
            refusals=len(self._refusals),
            phases=len(self._phases),
            deferred=len(self._deferred),
            summaries=len(self._entries),
            events=len(self._events),
        )

    def give(
        self, arms: NDArray[np.int64], probabilities: Array, *, at: float, request: Request | None
    ) -> None:
        """Add assignments of the open phase, from the head's `given` on."""
        first, end = self.head.given, self.head.given + len(arms)
        if end > len(self._rows):
            grown = np.empty(max(end, 2 * len(self._rows)), dtype=ROW)
            grown[: self._used] = self._rows[: self._used]
            self._rows = grown
        rows = self._rows[first:end]
        rows["id"], rows["phase"], rows["arm"] = np.arange(first, end), self.head.phase, arms
        rows["probability"], rows["asked"] = probabilities, at
        rows["reward"] = rows["told"] = rows["lost"] = np.nan
        rows["late"] = False
        self._used = end
        if request is not None:
            self._requests[request.name] = request
            self._named.append(request.name)

    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        """Add outcomes, except where there is one already; gives how many were added."""
        fresh = np.isnan(self._rows["reward"][ids])
        ids = ids[fresh]
        self._rows["reward"][ids] = rewards[fresh]
        self._rows["told"][ids] = at
        self._rows["late"][ids] = late[fresh]
        self._told.append(ids)
        return len(ids)

    def lose(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Record that outcomes will not come, in the order given."""
        for number in ids:
            self._rows["lost"][number] = at
            self._losses.setdefault(int(self._rows["phase"][number]), []).append(number)
            self._reasons[number] = reason
            self._lost.append(number)

    def refuse(self, ids: Ids, rewards: Array, *, at: float) -> int:  # noqa: ARG002
        """Record that rewards were refused, except where one was before; gives how many are new."""
        news = {
            number: reward
            for number, reward in zip(ids.tolist(), rewards.tolist(), strict=True)
            if number not in self._refusals
        }
        self._refusals |= news
        self._refused += news
        return len(news)

    def defer(self, ids: Ids) -> None:
        """Record that assignments were outstanding when their phase closed."""
        self.amend(ids, entry=-1)

    def amend(self, ids: Ids, *, entry: int) -> None:
        """Record which summary has the outcomes of assignments that were outstanding."""
        for number in ids.tolist():
            self._before.setdefault(number, self._deferred.get(number))
            self._defer(number, entry)

    def _defer(self, number: int, entry: int | None) -> None:
        if entry is None:
            del self._deferred[number]
        else:
            self._deferred[number] = entry
        if entry == -1:
            self._waiting.add(number)
        else:
            self._waiting.discard(number)

    def add_entry(self, entry: Entry) -> None:
        """Add a summary."""
        self._entries.append(entry)

    def open_phase(self, opened: Opened) -> None:
        """Add a plan."""
        self._phases.append(opened)

    def add_event(self, event: Event) -> None:
        """Add to the log."""
        self._events.append(event)
