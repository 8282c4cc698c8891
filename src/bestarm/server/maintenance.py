"""Maintenance of experiments that nobody asks for: leases run out, and lists show alarms."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool

from bestarm.errors import BestArmError
from bestarm.live.store.sql import ChangeFeed
from bestarm.live.values import LEVELS, Check
from bestarm.server.experiments import OpenExperiments

_EVERY = 5.0  # seconds between two rounds
_HEALTH = 0.1  # seconds of a processor's time per round, for health checks
_log = logging.getLogger("bestarm.server")


class Maintenance:
    """Visits the experiments of a server, round after round.

    Leases that ran out are seen to in every round. Health is checked of what has changed, then of
    all others that are not over, as time alone may make an outcome overdue; what there is no time
    for is left to the next round.
    """

    def __init__(self, experiments: OpenExperiments) -> None:
        self._experiments = experiments
        self.worst: dict[str, Check | None] = {}  # checks by experiment, None if all are well
        self._changes = ChangeFeed(experiments.store)
        self._unchecked: dict[str, None] = {}  # names, in order

    async def run(self) -> None:
        """Make rounds until cancelled."""
        while True:
            try:
                await run_in_threadpool(self.run_once)
            except BestArmError as error:
                _log.warning("Maintenance is postponed: %s", error)
            except Exception as error:
                _log.error("Maintenance is postponed", exc_info=error)
            await asyncio.sleep(_EVERY)

    def run_once(self) -> None:
        """Make one round."""
        changes, gone = self._changes.read(now=self._experiments.store.now())
        for name in gone:
            self.worst.pop(name, None)
            self._unchecked.pop(name, None)
        for change in changes:
            if change.overdue:
                self._try(lambda name: self._experiments.open(name).expire(), change.name)
        self._unchecked = dict.fromkeys(change.name for change in changes) | self._unchecked
        if not self._unchecked:
            self._unchecked = dict.fromkeys(self._changes.running)
        end = time.thread_time() + _HEALTH
        while self._unchecked and time.thread_time() < end:
            name = next(iter(self._unchecked))
            del self._unchecked[name]
            self._try(self._check, name)

    def _try(self, do: Callable[[str], object], name: str) -> None:
        try:
            do(name)
        except BestArmError:
            pass  # the list shows what is wrong with it
        except Exception as error:  # of a user's own policy
            _log.error("Maintenance skips an experiment", exc_info=error)

    def _check(self, name: str) -> None:
        checks = self._experiments.watch(name).health()
        worst = max(checks, key=lambda check: LEVELS.index(check.level), default=None)
        self.worst[name] = None if worst is None or worst.level == "ok" else worst
