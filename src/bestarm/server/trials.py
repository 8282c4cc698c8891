"""The experiments a server has open."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from threading import Lock

from bestarm.errors import StoreUnavailableError
from bestarm.live import Experiment, Listed
from bestarm.live.sql import Store
from bestarm.problem import Problem

__all__ = ["Trials"]

_MOST_OPEN = 200


class Trials:
    """Experiments by name, opened once and kept open; all on the connections of one store.

    Args:
        store: where they are.
        streams: how many may be followed at a time.
    """

    def __init__(self, store: Store, *, streams: int) -> None:
        self._store = store
        self._lock = Lock()
        self._open: OrderedDict[str, Experiment] = OrderedDict()
        self._streams, self._most_streams = 0, streams

    def open(self, name: str) -> Experiment:
        """An experiment of the store."""
        with self._lock:
            if name in self._open:
                self._open.move_to_end(name)
                return self._open[name]
        return self._keep(Experiment.open(self._store, name))

    def create(
        self,
        name: str,
        problem: Problem,
        *,
        policy: str,
        options: Mapping[str, object],
        seed: int,
        lease: float | None,
        description: str,
    ) -> Experiment:
        """Begin an experiment."""
        return self._keep(
            Experiment.create(
                self._store,
                name,
                problem,
                policy=policy,
                options=options,
                seed=seed,
                lease=lease,
                description=description,
            )
        )

    def listed(self) -> Sequence[Listed]:
        """All of the store."""
        return Experiment.list(self._store)

    def _keep(self, experiment: Experiment) -> Experiment:
        with self._lock:
            kept = self._open.setdefault(experiment.name, experiment)
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)  # the connections are the store's, not its own
            return kept

    async def followed(self, news: AsyncIterator[str]) -> AsyncIterator[str]:
        """Pass news on, if not too many follow trials already."""
        if self._streams >= self._most_streams:
            raise StoreUnavailableError(
                f"{self._streams} programs follow trials already.",
                field="stream",
                remedy="Poll the status instead.",
            )
        self._streams += 1
        try:
            async for each in news:
                yield each
        finally:
            self._streams -= 1
