"""Upkeep of experiments that nobody asks for: leases run out, and lists show alarms."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import anyio.to_thread
from anyio import CapacityLimiter

from bestarm.errors import BestArmError
from bestarm.live.store.sql import Changes
from bestarm.live.values import LEVELS, Check
from bestarm.server.experiments import OpenExperiments

_EVERY = 5.0  # seconds between two rounds
_SHARE = 0.005  # of a processor's time, for health checks
_BURST = 0.5  # seconds of it that may be used at once, after a rest
_log = logging.getLogger("bestarm.server")


class Upkeep:
    """Visits the experiments of a server that have changed, round after round.

    Leases that ran out are seen to in every round. Health is checked as far as a small share of a
    processor goes: in turn of what has changed lately, and of all others that are not over, as time
    alone may make an outcome overdue.
    """

    def __init__(self, experiments: OpenExperiments) -> None:
        self._experiments = experiments
        self.worst: dict[str, Check | None] = {}  # checks by experiment, None if all are well
        self._changes = Changes(experiments.store)
        # Names, and whether the experiment is over: what is to be visited, in order.
        self._news: dict[str, bool] = {}
        self._others: dict[str, bool] = {}
        self._rounds = 0
        self._allowed, self._since = _BURST, time.monotonic()

    async def run(self) -> None:
        """Make rounds until cancelled."""
        alone = CapacityLimiter(1)
        while True:
            try:
                await anyio.to_thread.run_sync(self.run_once, limiter=alone)
            except BestArmError as error:
                _log.warning("Upkeep is postponed: %s", error)
            except Exception as error:
                _log.error("Upkeep is postponed", exc_info=error)
            await asyncio.sleep(_EVERY)

    def run_once(self) -> None:
        """Make one round."""
        changes, gone = self._changes.read(now=self._experiments.store.now())
        for name in gone:
            for known in (self.worst, self._news, self._others):
                known.pop(name, None)
        queue = self._news if self._rounds else self._others
        for change in changes:
            queue[change.name] = change.over
            if change.overdue:
                self._try(self._expire, change.name)
        if not self._others:
            self._others = dict.fromkeys(self._changes.running, False)
        self._rounds += 1
        self._visit_some()

    def _visit_some(self) -> None:
        """Visit as many experiments as there is time for; others the next time."""
        now = time.monotonic()
        self._allowed = min(_BURST, self._allowed + _SHARE * (now - self._since))
        self._since, again = now, {}
        while self._allowed > 0 and (self._news or self._others):
            for queue in filter(None, (self._news, self._others)):
                name = next(iter(queue))
                over, start = queue.pop(name), time.thread_time()
                if not self._try(self._visit, name, over=over):
                    again[name] = over
                self._allowed -= time.thread_time() - start
        self._news |= again

    def _try(self, do: Callable[..., object], name: str, **how: bool) -> bool:
        """Do something with an experiment, and return whether it went well."""
        try:
            do(name, **how)
        except BestArmError:
            return False  # the list shows what is wrong with it
        except Exception as error:  # of a user's own policy
            _log.error("Upkeep skips an experiment", exc_info=error)
            return False
        return True

    def _expire(self, name: str) -> None:
        self._experiments.open(name).expire()

    def _visit(self, name: str, *, over: bool) -> None:
        watch = self._experiments.watch(name)
        if not over:
            watch.experiment.expire()
        worst = max(watch.health(), key=lambda check: LEVELS.index(check.level), default=None)
        self.worst[name] = None if worst is None or worst.level == "ok" else worst
