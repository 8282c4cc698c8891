"""The processes that simulate plans for a server, begun where all is imported already."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar

from databases import wait_until
from forked_commands import PassedFile
from workers_started import processes

__all__ = ["begin", "settled", "workers"]

_CREATE = asyncio.create_subprocess_exec


class _Begun:
    """The process that simulates, begun where all is imported already."""

    all: ClassVar[list[BaseProcess]] = []

    def __init__(self, code: str) -> None:
        (given, self._in), (self._out, told) = os.pipe(), os.pipe()
        passed = PassedFile(given), PassedFile(told)
        self._process = processes.Process(target=_simulate, args=(code, *passed))
        self._process.start()
        self.all.append(self._process)
        os.close(given)
        os.close(told)
        self.stdin = open(self._in, "wb")  # noqa: SIM115 - closed by whoever writes
        self.stdout = asyncio.StreamReader()

    async def follow(self) -> None:
        """Read what it writes."""
        protocol = partial(asyncio.StreamReaderProtocol, self.stdout)
        connect = asyncio.get_running_loop().connect_read_pipe
        self._transport, _ = await connect(protocol, open(self._out, "rb"))  # noqa: SIM115

    def kill(self) -> None:
        self._process.kill()
        self._transport.close()

    async def wait(self) -> None:
        self._process.join()  # at once: it was killed


async def begin(program: str, *arguments: str, **given: Any) -> Any:
    """What `asyncio.create_subprocess_exec` does, otherwise for the processes that simulate."""
    if program != sys.executable:
        return await _CREATE(program, *arguments, **given)
    how, code = arguments
    begun = _Begun(code if how == "-c" else f"from {code} import main; main()")
    await begun.follow()
    return begun


def _simulate(code: str, given: int, told: int) -> None:
    sys.stdin, sys.stdout = open(given), open(told, "w")  # noqa: SIM115
    exec(code, {"__name__": "__main__"})


def workers() -> set[str]:
    """The processes that simulate plans now."""
    found = {str(each.pid) for each in _Begun.all if each.is_alive()}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes()
            parent = (place / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"bestarm.planning.worker" in command and parent == str(os.getpid()):
            found.add(place.name)
    return found


def settled() -> bool:
    """Whether all of them end."""
    wait_until(lambda: not workers())
    return True
