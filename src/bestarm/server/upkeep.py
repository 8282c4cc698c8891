"""Upkeep of experiments that nobody asks for: leases run out, and lists show alarms."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import anyio.to_thread
from anyio import CapacityLimiter

from bestarm.errors import BestArmError
from bestarm.live.store.sql import SqlLedger
from bestarm.live.values import LEVELS, Check
from bestarm.server.experiments import OpenExperiments

_EVERY = 5.0  # seconds between two rounds
_MOST = 100  # running experiments per round, and as many that are over
_OVER = {"finished", "stopped"}
_log = logging.getLogger("bestarm.server")


class Upkeep:
    """Visits the experiments of a server, round after round."""

    def __init__(self, experiments: OpenExperiments) -> None:
        self._experiments = experiments
        self.worst: dict[str, Check | None] = {}  # checks by experiment, None if all are well
        self._visited: dict[str, str] = {}  # revisions of experiments that are over
        self._rounds = 0

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
        listed = SqlLedger.states(self._experiments.store)
        running = self._some([name for name, state in listed if state not in _OVER])
        over = self._some([name for name, state in listed if state in _OVER])
        for name in [*running, *over]:
            try:
                self._visit(name, over=name not in running)
            except BestArmError:
                pass  # the list shows what is wrong with it
            except Exception as error:  # of a user's own policy
                _log.error("Upkeep skips an experiment", exc_info=error)
        names = {name for name, _ in listed}
        for known in (self.worst, self._visited):
            for gone in known.keys() - names:
                del known[gone]
        self._rounds += 1

    def _some(self, names: Sequence[str]) -> list[str]:
        """As many as one round has time for; others the next time."""
        if len(names) <= _MOST:
            return list(names)
        first = self._rounds * _MOST % len(names)
        return [*names[first:], *names[:first]][:_MOST]

    def _visit(self, name: str, *, over: bool) -> None:
        watch = self._experiments.watch(name)
        experiment = watch.experiment
        if not over:
            experiment.expire()
        elif self._visited.get(name) == (revision := experiment.revision):
            return
        else:
            self._visited[name] = revision
        worst = max(watch.health(), key=lambda check: LEVELS.index(check.level), default=None)
        self.worst[name] = None if worst is None or worst.level == "ok" else worst
