"""`bestarm` in a process of its own, begun where all is imported already.

A new process would spend seconds on imports. What processes a command starts are begun by the same
server: they share nothing with it but modules, as new ones would.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from multiprocessing.reduction import DupFd
from threading import Thread
from typing import Any

import uvicorn._subprocess
from workers_started import HANG_TIMEOUT, processes

from bestarm.cli import main
from bestarm.simulation import executors

__all__ = ["ForkedCommand", "PassedFile"]


class ForkedCommand:
    """A running `bestarm`, as far as it is used like `subprocess.Popen`.

    Args:
        arguments: what is written behind `bestarm`.
        stderr: where it complains; a pipe if left out.
        env: what is set in its environment beside what is set here.
        first: called in the process before the command begins.
    """

    def __init__(
        self,
        *arguments: str,
        stderr: int | None = None,
        env: Mapping[str, str] | None = None,
        first: Callable[[], object] = os.getpid,
    ) -> None:
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        sinks = out_write, err_write if stderr is None else stderr
        given = arguments, tuple(map(PassedFile, sinks)), {**os.environ, **(env or {})}, first
        self._process = processes.Process(target=_run, args=given)
        self._process.start()
        os.close(out_write)
        os.close(err_write)
        self.stdout = open(out_read, encoding="utf-8")  # noqa: SIM115 - closed by `communicate`
        self.stderr = open(err_read, encoding="utf-8")  # noqa: SIM115

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int:
        code = self.poll()
        assert code is not None
        return code

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float = HANG_TIMEOUT) -> int:
        self._process.join(timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float = HANG_TIMEOUT) -> tuple[str, str]:
        """What it writes until it ends."""
        written = {self.stdout: "", self.stderr: ""}

        def read(source: Any) -> None:
            with source:
                written[source] = source.read()

        readers = [Thread(target=read, args=(source,)) for source in written if not source.closed]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
        self.wait(timeout)
        return written[self.stdout], written[self.stderr]


class PassedFile:
    """A file descriptor that a process is given."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, (DupFd(self.number),)


def _taken(passed: Any) -> int:
    return int(passed.detach())


def _run(
    arguments: tuple[str, ...],
    sinks: tuple[int, int],
    env: dict[str, str],
    first: Callable[[], object],
) -> None:
    """Run `bestarm` in this process, which was begun for it."""
    first()
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # What it starts is begun by the server that began this process.
    vars(forkserver._forkserver)["ensure_running"] = lambda: None
    executors.__dict__["get_context"] = lambda _: processes
    uvicorn._subprocess.__dict__["spawn"] = processes
    for number, sink in zip((1, 2), sinks, strict=True):
        os.dup2(sink, number)
        os.close(sink)
    sys.stdout, sys.stderr = (
        open(number, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        for number in (1, 2)
    )
    sys.argv = ["bestarm", *arguments]
    main()
