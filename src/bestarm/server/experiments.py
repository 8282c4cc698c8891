"""The experiments a server has open, and who may use them at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from threading import Lock
from typing import TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from bestarm.errors import (
    ExperimentExistsError,
    UnknownExperimentError,
)
from bestarm.live import Experiment, Listed, Receipt
from bestarm.live.store.sql import SqlLedger, Store
from bestarm.problem import Problem
from bestarm.server.api.gather import Tellers
from bestarm.server.feeds import Feeds
from bestarm.server.security.limits import Limits

__all__ = ["Trials"]

_MOST_OPEN = 200

# Threads at a time. Those that write to one trial wait for each other, and those that use its
# policy for as long as a phase takes to close. They must not be all the threads there are, nor
# hold all connections: looking at counters stays quick whatever the others do, and one trial that
# is slow does not keep others from being looked at.
_WRITING = 8
_WRITING_ONE = 3
_THINKING = 4
_THINKING_ONE = 2
_BROWSING = 2
_FEW = 100  # outcomes

T = TypeVar("T")


class _ByName:
    """A limit for each name that is in use.

    Args:
        most: how many may use one name at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limits: dict[str, tuple[CapacityLimiter, int]] = {}

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for one's turn."""
        limiter, users = self._limits.get(name) or (CapacityLimiter(self._most), 0)
        self._limits[name] = limiter, users + 1
        try:
            async with limiter:
                yield
        finally:
            limiter, users = self._limits.pop(name)
            if users > 1:
                self._limits[name] = limiter, users - 1


class Trials:
    """Experiments by name, opened once and kept open; all on the connections of one store.

    Args:
        store: where they are.
        limits: how many may follow them at a time.
    """

    def __init__(self, store: Store, *, limits: Limits) -> None:
        self.store = store
        self.feeds = Feeds(self.open, limits=limits)
        self._lock = Lock()
        self._open: OrderedDict[str, Experiment] = OrderedDict()
        self._generation = store.generation
        self._writing: CapacityLimiter | None = None
        self._thinking: CapacityLimiter | None = None
        self._browsing: CapacityLimiter | None = None
        self._writers = _ByName(_WRITING_ONE)
        self._thinkers = _ByName(_THINKING_ONE)
        self._tellers = Tellers(
            lambda name, several: self.write(name, lambda each: each.tell_each(several))
        )

    def open(self, name: str) -> Experiment:
        """An experiment of the store."""
        with self._lock:
            generation = self.store.generation
            if generation != self._generation:
                self._generation = generation
                self._open.clear()  # they were in another file
            if name in self._open:
                self._open.move_to_end(name)
                return self._open[name]
        try:
            return self._keep(Experiment.open(self.store, name), generation)
        except UnknownExperimentError as error:
            raise UnknownExperimentError(
                f"There is no experiment {name!r}.", field="name", value=name
            ) from error

    def create(
        self,
        name: str,
        problem: Problem,
        *,
        policy: str,
        options: Mapping[str, object],
        seed: int | None,
        lease: float | str | None,
        description: str,
    ) -> Experiment:
        """Begin an experiment."""
        generation = self.store.generation
        try:
            experiment = Experiment.create(
                self.store,
                name,
                problem,
                policy=policy,
                options=options,
                seed=seed,
                lease=lease,
                description=description,
            )
        except ExperimentExistsError as error:
            raise ExperimentExistsError(
                f"There is an experiment {name!r} already.",
                field="name",
                value=name,
                remedy="Go on with it, or choose another name.",
            ) from error
        return self._keep(experiment, generation)

    def listed(self, *, limit: int | None = None, after: str | None = None) -> Sequence[Listed]:
        """Those of the store, oldest first: all, or so many after one."""
        return Experiment.list(self.store, limit=limit, after=after)

    def states(self) -> Sequence[tuple[str, str]]:
        """The name and the state of every one of the store, oldest first."""
        return SqlLedger.states(self.store)

    def browsed(self, *, search: str, first: int, limit: int) -> tuple[Sequence[Listed], int]:
        """Some of the store, those that run first, then the newest first; and how many fit."""
        return SqlLedger.search(self.store, search, first=first, limit=limit)

    async def browse(self, do: Callable[[Trials], T]) -> T:
        """Go through many experiments, without their policies."""
        if self._browsing is None:
            self._browsing = CapacityLimiter(_BROWSING)
        return await anyio.to_thread.run_sync(do, self, limiter=self._browsing)

    async def look(self, name: str, do: Callable[[Experiment], T]) -> T:
        """Do something quick with an experiment, in a thread: read its counters or its log."""
        return await anyio.to_thread.run_sync(lambda: do(self.open(name)))

    async def think(self, name: str, do: Callable[[Experiment], T]) -> T:
        """Do something that needs the policy or reads a lot."""
        if self._thinking is None:
            self._thinking = CapacityLimiter(_THINKING)
        async with self._thinkers.turn(name):
            return await anyio.to_thread.run_sync(
                lambda: do(self.open(name)), limiter=self._thinking
            )

    async def write(self, name: str, do: Callable[[Experiment], T]) -> T:
        """Do something that writes to an experiment."""
        async with self._writers.turn(name):
            return await self.change(lambda: do(self.open(name)))

    async def tell(self, name: str, outcomes: Sequence[tuple[int, float]]) -> Receipt:
        """Record outcomes; a few together with those that others tell at the same time."""
        if len(outcomes) > _FEW:
            return await self.write(name, lambda each: each.tell_many(outcomes))
        return await self._tellers.tell(name, outcomes)

    async def change(self, do: Callable[[], T]) -> T:
        """Do something that writes to the store."""
        if self._writing is None:
            self._writing = CapacityLimiter(_WRITING)
        return await anyio.to_thread.run_sync(do, limiter=self._writing)

    def _keep(self, experiment: Experiment, generation: int) -> Experiment:
        with self._lock:
            if generation != self.store.generation:
                return experiment  # the file was replaced meanwhile: opened anew the next time
            kept = self._open.setdefault(experiment.name, experiment)
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)  # the connections are the store's, not its own
            return kept
