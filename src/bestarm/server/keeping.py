"""What a server does unasked: leases run out although nobody asks, and lists know of alarms."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

import anyio.to_thread
from anyio import CapacityLimiter

from bestarm.errors import BestArmError
from bestarm.live import Listed
from bestarm.live.check import Check
from bestarm.live.overview import lights
from bestarm.live.upkeep import keep_up
from bestarm.server.trials import Trials

__all__ = ["Keeper"]

_EVERY = 5.0  # seconds between two rounds
_MOST = 100  # trials of a round, those that run first
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
            await asyncio.sleep(_EVERY)

    def go_round(self) -> None:
        """See to every trial once."""
        listed = sorted(self._trials.listed(), key=lambda each: each.status.state == "finished")
        for each in listed[:_MOST]:
            with suppress(BestArmError):  # one that cannot be opened says so in the list
                self._see_to(each)
        names = {each.name for each in listed}
        for gone in self._worst.keys() - names:
            del self._worst[gone]

    def _see_to(self, each: Listed) -> None:
        experiment = self._trials.open(each.name)
        over = each.status.state in {"finished", "stopped"}
        if not over:
            keep_up(experiment)
        elif self._seen.get(each.name) == (revision := experiment.revision):
            return
        else:
            self._seen[each.name] = revision
        worst = max(lights(experiment), key=lambda check: _WORSE[check.level], default=None)
        self._worst[each.name] = None if worst is None or worst.level == "ok" else worst
