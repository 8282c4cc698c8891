"""Whose turn it is to write to a SQLite file, which has one writer at a time.

SQLite itself has no line: everybody tries again and again, and those who try take the time of the
one who writes. And whoever writes after another process first reads again what it had in memory.
Therefore processes that meet stand in line, and each writes for a while, one transaction after the
other, before the next one does. Nothing rests on this but time: SQLite keeps writers apart, and
every transaction is on disk before its call returns.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import compress, islice
from operator import methodcaller
from threading import Lock
from typing import Any
from weakref import WeakSet, finalize

from bestarm.live.store.sql import connections

try:
    import fcntl
except ImportError:  # not everywhere
    fcntl = None  # type: ignore[assignment]

_SLICE = 0.025  # seconds for which a process writes before the next one does
_IDLE = 0.002  # seconds without a transaction after which its time is over
_LOOK = 0.001  # seconds between looks of the first in the line whether that is so
_NAPS = 0.005, 0.010  # seconds between looks whether the one before has moved: the second, others
_PLACES = 64  # in the line
_STUCK = 0.1  # seconds without a sign of anybody after which one passes those who are before


_release = methodcaller("release")


class Turn:
    """The turns of this process's threads, and its place in a line with other processes.

    Args:
        line: the path of the file by which processes stand in line; it is made when one waits.
    """

    def __init__(self, line: str) -> None:
        self._lock = Lock()
        self._line = _Line(line)
        self._hurries = list[None]()

    def take(self, held: list[Any]) -> None:
        """Wait for the other threads; what is to be given back is added to `held`.

        Raises:
            sqlite3.OperationalError: they did not finish in time.
        """
        # All of it is in C: no signal is answered between taking the lock and noting that.
        taken = map(self._lock.acquire, (True,), (connections.PATIENCE,))
        held.extend(compress((self._lock,), taken))
        if not held:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    def give(self, held: list[Any]) -> None:
        """End the turn, unless it has ended."""
        try:
            if held:
                self._line.sign()
        finally:
            deque(map(_release, islice(iter(held.pop, None), len(held))), maxlen=0)  # likewise

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """Pass the line until the block ends: what is done in it is of use to those who wait."""
        self._line.end_slice()
        self._hurries.append(None)
        try:
            yield
        finally:
            self._hurries.pop()

    def begin(self, attempt: Callable[[], object]) -> None:
        """Begin a transaction, by an attempt that SQLite refuses while another process writes."""
        met_others = False
        if self._hurries or self._line.is_free():
            try:
                attempt()
            except sqlite3.OperationalError as error:
                if not connections.is_busy(error):
                    raise
                met_others = True
            else:
                return
        if self._hurries:
            connections.patiently(attempt)
            return
        with self._line.first() as waited:
            connections.patiently(attempt)
            if met_others or waited:
                self._line.begin_slice()


class _Line:
    """The line in which processes wait, as one of them sees it.

    Its file says whose time it is, until when, and when that process last wrote. Those who wait
    have a byte of it locked each: their places. Both end with their process: the locks at once,
    and what it said a moment later.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._closing: finalize[[int], _Line] | None = None
        self._me = secrets.randbits(62)
        self._until = 0.0  # the end of this process's time; 0 if it has none
        self._signed = 0.0  # when it said last that it writes
        _lines.add(self)

    def is_free(self) -> bool:
        """Whether to try at once: it is this process's time, or nobody's."""
        if self._file is None:
            return True  # it has met nobody yet
        now = time.monotonic()
        if self._until:
            if now < min(self._until, self._signed + _IDLE):
                return True
            self._until = 0.0
            return False  # another may wait
        return self._left_to_another(now) <= 0

    @contextmanager
    def first(self) -> Iterator[bool]:
        """Become the one process that tries, or one that has waited for too long to become it.

        The value is whether there were others.
        """
        if not self._open():
            yield False
            return
        try:
            place = self._take_place()
            alone = not place
            if alone or self._wait_for_first_place(place):
                alone = self._wait_for_another() and alone
            yield not alone
        finally:
            self._leave()

    def _take_place(self) -> int:
        """The place behind all others that wait."""
        for place in range(_PLACES):
            if self._lock(place, _PLACES + 1 - place):  # nobody is there, nor behind
                self._unlock(place + 1, _PLACES - place)
                return place
        return _PLACES

    def _wait_for_first_place(self, place: int) -> bool:
        """Move forward; in vain if nothing happens any more, as where the first one hangs."""
        said, since = b"", time.monotonic()
        latest = since + connections.PATIENCE
        while place:
            if self._lock(place - 1):
                self._unlock(place)
                place -= 1
                continue
            time.sleep(_NAPS[place > 1])
            now, before, said = time.monotonic(), said, self._read()
            if said != before:
                since = now
            if now > min(since + _STUCK, latest):
                return False
        return True

    def _wait_for_another(self) -> bool:
        """Wait until it is no other process's time, and return whether it was not."""
        latest = time.monotonic() + connections.PATIENCE
        at_once = True
        while (left := self._left_to_another(now := time.monotonic())) > 0 and now < latest:
            at_once = False
            time.sleep(min(left, _LOOK))
        return at_once

    def _left_to_another(self, now: float) -> float:
        """Seconds for which another process may write, even if it does nothing more."""
        try:
            who, until, signed = _SAID.unpack(self._read())
        except struct.error:  # nobody has said anything
            return 0.0
        # Nothing is believed that was said before the machine was started, or of other clocks.
        if who == self._me or not now < until <= now + _SLICE:
            return 0.0
        return float(min(until, signed + _IDLE) - now)

    def begin_slice(self) -> None:
        """Say that it is this process's time from now on."""
        self._signed = time.monotonic()
        self._until = self._signed + _SLICE
        self._say()

    def end_slice(self) -> None:
        """Say that others may write, if it is this process's time."""
        until, self._until = self._until, 0.0
        if time.monotonic() < min(until, self._signed + _IDLE):
            self._say()

    def sign(self) -> None:
        """Say that this process writes, if it is its time."""
        if self._until and (now := time.monotonic()) > self._signed + _IDLE / 4:
            self._signed = now
            self._say()

    def _say(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.pwrite(self._file, _SAID.pack(self._me, self._until, self._signed), 0)

    def _read(self) -> bytes:
        try:
            return b"" if self._file is None else os.pread(self._file, _SAID.size, 0)
        except OSError:
            return b""

    def _open(self) -> bool:
        if self._file is None and fcntl is not None:
            with suppress(OSError):
                self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
                self._closing = finalize(self, os.close, self._file)
        return self._file is not None

    def _lock(self, place: int, count: int = 1) -> bool:
        assert self._file is not None
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, _SAID.size + place)
        except OSError:
            return False
        return True

    def _unlock(self, place: int, count: int = 1) -> None:
        assert self._file is not None
        with suppress(OSError):  # where nothing can be locked
            fcntl.lockf(self._file, fcntl.LOCK_UN, count, _SAID.size + place)

    def _leave(self) -> None:
        self._unlock(0, _PLACES + 1)

    def begin_in_fork(self) -> None:
        """Leave the file and the time to the parent."""
        if self._closing is not None:
            self._closing()
        self._file, self._until = None, 0.0


_SAID = struct.Struct("<qdd")
_lines: WeakSet[_Line] = WeakSet()


def _begin_in_fork() -> None:
    for line in _lines:
        line.begin_in_fork()


if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(after_in_child=_begin_in_fork)
