"""What a server does unasked: leases run out although nobody asks, and lists know of alarms."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import anyio.to_thread
from anyio import CapacityLimiter

from bestarm.errors import BestArmError
from bestarm.live.values import Check
from bestarm.live.watch.overview import lights
from bestarm.server.experiments import Trials

__all__ = ["Keeper"]

_EVERY = 5.0  # seconds between two rounds
_MOST = 100  # trials of a round that run, and as many that are over
_OVER = {"finished", "stopped"}
_WORSE = {"ok": 0, "warning": 1, "alarm": 2}
_log = logging.getLogger("bestarm.server")


class Keeper:
    """Goes round the trials of a server.

    Args:
        trials: of the server.
    """

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._worst: dict[str, Check | None] = {}
        self._seen: dict[str, str] = {}  # revisions of trials that are over
        self._rounds = 0

    @property
    def worst(self) -> Mapping[str, Check | None]:
        """The worst that health says of a trial, by its name; None if all is well."""
        return self._worst

    async def run(self) -> None:
        """Go round until cancelled."""
        alone = CapacityLimiter(1)
        while True:
            try:
                await anyio.to_thread.run_sync(self.go_round, limiter=alone)
            except BestArmError as error:
                _log.warning("Upkeep is put off: %s", error)
            except Exception as error:
                _log.error("Upkeep is put off", exc_info=error)
            await asyncio.sleep(_EVERY)

    def go_round(self) -> None:
        """See to every trial once."""
        listed = self._trials.states()
        running = [name for name, state in listed if state not in _OVER]
        others = [name for name, state in listed if state in _OVER]
        some = self._some(running)
        for name in [*some, *self._some(others)]:
            try:
                self._see_to(name, over=name not in some)
            except BestArmError:
                pass  # what is wrong with it is said in the list
            except Exception as error:  # of somebody else's policy
                _log.error("Upkeep leaves a trial out", exc_info=error)
        names = {name for name, _ in listed}
        for known in (self._worst, self._seen):
            for gone in known.keys() - names:
                del known[gone]
        self._rounds += 1

    def _some(self, names: Sequence[str]) -> list[str]:
        """As many as a round has time for; others the next time."""
        if len(names) <= _MOST:
            return list(names)
        first = self._rounds * _MOST % len(names)
        return [*names[first:], *names[:first]][:_MOST]

    def _see_to(self, name: str, *, over: bool) -> None:
        experiment = self._trials.open(name)
        if not over:
            experiment.expire()
        elif self._seen.get(name) == (revision := experiment.revision):
            return
        else:
            self._seen[name] = revision
        worst = max(lights(experiment), key=lambda check: _WORSE[check.level], default=None)
        self._worst[name] = None if worst is None or worst.level == "ok" else worst
