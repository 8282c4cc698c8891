"""The experiments that a server has open, and how many threads may use them at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio.to_thread
from anyio import CapacityLimiter

from bestarm.errors import BestArmError, ExperimentExistsError, UnknownExperimentError
from bestarm.live import Batch, Experiment, Receipt, Status
from bestarm.live.store.sql import Store
from bestarm.live.watch.overview import Watch
from bestarm.problem import Problem
from bestarm.server.closing import Closings
from bestarm.server.gathering import Answer, Asked, TaskGathering
from bestarm.server.security.limits import Limits
from bestarm.server.security.roles import Callers
from bestarm.server.security.tokens import Role
from bestarm.server.streams import StatusStreams

_MOST_OPEN = 200

# Threads at a time. Writers to one experiment wait for each other, and those that use its policy
# wait while a phase closes. They must not take all threads, nor all connections: reading counters
# stays quick whatever the others do, and one slow experiment does not hold up the others.
_WRITERS = 8
_WRITERS_OF_ONE = 3
_COMPUTING = 4
_COMPUTING_OF_ONE = 2
_CLOSING = 3
_PATIENCE = 1.0  # seconds that a phase may take to close for who only reads to wait for it
_BROWSING = 2
FEW = 100  # outcomes
_MOMENT = 0.001  # seconds in which those who were answered together mostly call again

T = TypeVar("T")
Outcomes = Sequence[tuple[int, float]]


class OpenExperiments:
    """Experiments by name, opened once and kept open, all on the connections of one store."""

    def __init__(self, store: Store, *, limits: Limits) -> None:
        self.store = store
        self.streams = StatusStreams(self.open, limits=limits)
        self._lock = Lock()
        self._open: OrderedDict[str, Watch] = OrderedDict()
        self._generation = store.generation
        self._writing_threads = CapacityLimiter(_WRITERS)
        self._computing_threads = CapacityLimiter(_COMPUTING)
        self._closing_threads = CapacityLimiter(_CLOSING)
        self._browsing_threads = CapacityLimiter(_BROWSING)
        # A limit is kept as long as somebody uses it or waits for it.
        self._writers: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()
        self._computing: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()
        self.callers = Callers(store)
        self._tells: TellQueue[tuple[Outcomes, str | None]] = TellQueue(
            lambda name, told: self._write_together(name, told, self._tell_each(name)),
            moment=_MOMENT,
        )
        self._asks: TaskGathering[tuple[None, str | None], Batch] = TaskGathering(
            self._ask_together, moment=_MOMENT
        )
        self.closings = Closings(self._close_phases)

    def open(self, name: str) -> Experiment:
        """An experiment of the store."""
        return self.watch(name).experiment

    def watch(self, name: str) -> Watch:
        """An experiment of the store, to look at again and again."""
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

    def create(self, name: str, problem: Problem, **settings: Any) -> Experiment:
        """Create an experiment; settings as for `Experiment.create`."""
        generation = self.store.generation
        try:
            experiment = Experiment.create(self.store, name, problem, **settings)
        except ExperimentExistsError as error:
            raise ExperimentExistsError(
                f"An experiment {name!r} exists already.",
                field="name",
                value=name,
                remedy="Continue it, or choose another name.",
            ) from error
        return self._keep(experiment, generation).experiment

    async def browse(self, do: Callable[[OpenExperiments], T]) -> T:
        """Go through many experiments, without their policies."""
        return await anyio.to_thread.run_sync(do, self, limiter=self._browsing_threads)

    async def read(self, name: str, do: Callable[[Experiment], T]) -> T:
        """Do something quick with an experiment, in a thread: read its counters or its log."""
        await self.closings.done(name, patience=_PATIENCE)
        return await anyio.to_thread.run_sync(lambda: do(self.open(name)))

    async def compute(self, name: str, do: Callable[[Watch], T]) -> T:
        """Do something that needs the policy or reads a lot."""
        await self.closings.done(name)
        async with self._computing.setdefault(name, CapacityLimiter(_COMPUTING_OF_ONE)):
            return await anyio.to_thread.run_sync(
                lambda: do(self.watch(name)), limiter=self._computing_threads
            )

    async def write(self, name: str, do: Callable[[Experiment], T]) -> T:
        """Do something that writes to an experiment."""
        await self.closings.done(name)
        async with self._writers.setdefault(name, CapacityLimiter(_WRITERS_OF_ONE)):
            return await self.write_store(lambda: do(self.open(name)))

    async def _write_together(
        self,
        name: str,
        asked: Sequence[tuple[Asked, str | None]],
        do: Callable[[Experiment, list[Asked]], Sequence[Answer | Exception]],
    ) -> Sequence[Answer | Exception]:
        """Do something that writes to an experiment, for all whose token allows it."""

        def allowed() -> list[Answer | Exception]:
            refused = self.callers.refusals((token for _, token in asked), Role.TELL)
            passed = [each for each, token in asked if token not in refused]
            answers: Iterator[Answer | Exception] = iter(())
            if passed:
                try:
                    answers = iter(do(self.open(name), passed))
                except BestArmError as error:
                    answers = repeat(error)
            return [refused.get(token) or next(answers) for _, token in asked]

        async with self._writers.setdefault(name, CapacityLimiter(_WRITERS_OF_ONE)):
            return await self.write_store(allowed)

    async def change(self, name: str, do: Callable[[Experiment], object]) -> Status:
        """Do something that writes to an experiment; its status then."""

        def changed(experiment: Experiment) -> Status:
            do(experiment)
            return experiment.status()

        return await self.write(name, changed)

    async def tell(self, name: str, outcomes: Outcomes, token: str | None = None) -> Receipt:
        """Record outcomes; a few together with those that others tell at the same time.

        A token that is given, with a few, is checked just before they are written.
        """
        if token is None and len(outcomes) > FEW:
            return await self.write(name, lambda each: each.tell_many(outcomes))
        return await self.begin_tell(name, outcomes, token)

    def begin_tell(
        self, name: str, outcomes: Outcomes, token: str | None
    ) -> asyncio.Future[Receipt]:
        """Have a few outcomes recorded, together with others: see `tell`."""
        return self._tells.begin(name, (outcomes, token))

    async def ask_one(self, name: str, token: str | None = None) -> Batch:
        """Ask for one assignment, or one round, together with others; the token as for `tell`."""
        return await self.begin_ask(name, token)

    def begin_ask(self, name: str, token: str | None) -> asyncio.Future[Batch]:
        """Ask for one assignment, or one round: see `ask_one`."""
        return self._asks.begin(name, (None, token))

    async def _ask_together(
        self, name: str, asked: Sequence[tuple[None, str | None]]
    ) -> Sequence[Batch | Exception]:
        await self.closings.done(name)
        return await self._write_together(name, asked, _ask_each)

    def _tell_each(
        self, name: str
    ) -> Callable[[Experiment, list[Outcomes]], Sequence[Receipt | BestArmError]]:
        """What records outcomes; phases close after those who told them are answered.

        Where that failed the last time, they close before: whoever tells is told why it fails.
        """
        if name in self.closings.failed:
            return self._tell_and_close
        loop = asyncio.get_running_loop()

        def close_later() -> None:
            loop.call_soon_threadsafe(self.closings.add, name)

        return lambda experiment, told: experiment.tell_each(told, when_due=close_later)

    def _tell_and_close(
        self, experiment: Experiment, told: list[Outcomes]
    ) -> Sequence[Receipt | BestArmError]:
        answers = experiment.tell_each(told)
        self.closings.failed.discard(experiment.name)
        return answers

    async def _close_phases(self, name: str) -> bool:
        return await anyio.to_thread.run_sync(
            lambda: self.open(name).advance(), limiter=self._closing_threads
        )

    async def finish(self) -> None:
        """Wait until nothing is at work, even for callers who have gone."""
        await self._tells.finish()
        await self._asks.finish()
        await self.closings.finish()

    async def write_store(self, do: Callable[[], T]) -> T:
        """Do something that writes to the store."""
        return await anyio.to_thread.run_sync(do, limiter=self._writing_threads)

    def _keep(self, experiment: Experiment, generation: int) -> Watch:
        watch = Watch(experiment)
        with self._lock:
            if generation != self.store.generation:
                return watch  # the file was replaced meanwhile: opened anew the next time
            kept = self._open.setdefault(experiment.name, watch)
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)  # the connections are the store's, not its own
            return kept


def _ask_each(experiment: Experiment, asked: Sequence[None]) -> list[Batch]:
    """A batch for each who asks for one: one batch, dealt out."""
    batch = experiment.ask(len(asked))
    if len(asked) == 1:
        return [batch]
    rounds = len({*batch.rounds.tolist()})
    size = len(batch) // rounds if rounds else 0
    return [_part(batch, slice(i * size, (i + 1) * size)) for i in range(len(asked))]


def _part(batch: Batch, part: slice) -> Batch:
    ids = batch.ids[part]
    return replace(
        batch,
        ids=ids,
        arms=batch.arms[part],
        probabilities=batch.probabilities[part],
        rounds=batch.rounds[part],
        waiting=0 if ids else batch.waiting,
    )


class TellQueue(TaskGathering[Asked, Receipt]):
    """Outcomes that wait to be written, by experiment: together they wait for the disk once.

    Each caller is answered once its own outcomes are on disk, and is told of its own mistake alone.
    """

    async def tell(self, name: str, told: Asked) -> Receipt:
        """Have outcomes of an experiment written."""
        return await self.add(name, told)
