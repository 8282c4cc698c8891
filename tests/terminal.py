"""A command whose progress is shown on a terminal, so that tests can wait for what it shows."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition, Thread

from forked_commands import ForkedCommand

__all__ = ["Command", "start_command"]

_START = "from bestarm.cli import main\nif __name__ == '__main__': main()"
_TIMEOUT = 120  # seconds after which a command is thought to hang


class Command:
    """A running `bestarm`. Its standard error is a terminal.

    Args:
        process: the running command, the leader of a process group.
        screen: where what it writes to the terminal can be read.
    """

    def __init__(self, process: subprocess.Popen[str] | ForkedCommand, screen: int) -> None:
        self.process = process
        self._screen = screen
        self._written = b""
        self._news = Condition()
        self._reading = Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._screen, 65536)
            except OSError:  # nobody has the terminal open any more
                piece = b""
            with self._news:
                self._written += piece
                self._news.notify_all()
            if not piece:
                return

    @property
    def shown(self) -> str:
        """All that was written to the terminal."""
        return self._written.decode(errors="replace")

    def wait_until_shown(self, pattern: str) -> None:
        """Wait until the terminal shows something, by a regular expression."""

        def found() -> bool:
            return re.search(pattern, self.shown) is not None or not self._reading.is_alive()

        with self._news:
            assert self._news.wait_for(found, _TIMEOUT), self.shown
        assert re.search(pattern, self.shown), self.shown

    def wait_for_children(self, count: int) -> None:
        """Wait until so many processes that it started have got as far as handling Ctrl-C."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        latest = time.monotonic() + _TIMEOUT
        while sum(map(_handles_interrupts, listed.read_text().split())) < count:
            assert self.process.poll() is None, self.shown
            assert time.monotonic() < latest
            time.sleep(0.001)

    def join(self) -> None:
        """Wait until all that it wrote has been read."""
        self._reading.join(_TIMEOUT)
        assert not self._reading.is_alive(), "somebody still has the terminal open"

    def interrupt(self) -> tuple[int, str, str]:
        """Send Ctrl-C to all of its processes, as a terminal does, and wait for the end.

        Returns:
            The exit code, what it printed, and all that was written to the terminal.
        """
        os.killpg(self.process.pid, signal.SIGINT)
        printed, _ = self.process.communicate(timeout=_TIMEOUT)
        self.join()
        return self.process.returncode, printed, self.shown


@contextmanager
def start_command(*arguments: str, forked: bool = True) -> Iterator[Command]:
    """`bestarm` with these arguments, ended when the test is over.

    Args:
        forked: whether it begins where all is imported already, and not in a new process.
    """
    screen, terminal = pty.openpty()
    env = {"PYTHONIOENCODING": "utf-8", "TERM": "xterm", "COLUMNS": "160"}
    process: subprocess.Popen[str] | ForkedCommand
    if forked:
        process = ForkedCommand(*arguments, stderr=terminal, env=env, first=os.setsid)
    else:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
            encoding="utf-8",
            env=os.environ | env,
            start_new_session=True,
        )
    os.close(terminal)
    running = Command(process, screen)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        running.join()
        os.close(screen)


def _handles_interrupts(pid: str) -> bool:
    """Whether a process catches or ignores Ctrl-C, as Python does once it runs."""
    sets = re.findall(r"^Sig(?:Cgt|Ign):\s(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return any(int(each, 16) & 1 << (signal.SIGINT - 1) for each in sets)
