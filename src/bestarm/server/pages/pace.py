"""How often the page of an experiment is brought up to date: looking must leave time to work."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

_SHARE = 0.05  # of a processor's time, for each page that is open
_LONGEST = 3.0  # seconds between two updates that are wanted
_MOST = 1000  # experiments


class Pace:
    """Lets updates of an experiment's page wait for as long as the last one was worth."""

    def __init__(self) -> None:
        self._next: OrderedDict[str, float] = OrderedDict()  # when, by the clock of the loop

    async def wait(self, name: str) -> None:
        """Wait until it is time for an update."""
        early = self._next.get(name, 0.0) - asyncio.get_running_loop().time()
        if early > 0:
            await asyncio.sleep(early)

    def note(self, name: str, seconds: float) -> None:
        """Note that an update took so many seconds of a processor's time."""
        rest = min(seconds / _SHARE, _LONGEST)
        self._next[name] = asyncio.get_running_loop().time() + rest
        self._next.move_to_end(name)
        while len(self._next) > _MOST:
            self._next.popitem(last=False)
