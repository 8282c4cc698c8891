"""Forks of a process that uses SQLite files.

A forked process must not have its parent's connections to a file: SQLite would take locks for its
own that the parent holds, and whoever closes the file first could take the log away that the other
writes to. So all connections are closed before a fork, which waits for the transactions of other
threads. A file of which one stays open nevertheless is not used in the child.
"""

from __future__ import annotations

import operator
import os
import signal
import sys
import time
from _thread import interrupt_main
from functools import partial, reduce
from itertools import compress
from operator import methodcaller
from threading import Lock, get_ident
from typing import Any, Protocol
from weakref import WeakValueDictionary

from bestarm.live.store.sql.files import Identity, WatchedFile

_PATIENCE = 5.0  # seconds for the transactions of other threads
_TAKING = 1.0  # seconds for connections that are being made
_LOOK = 0.001  # seconds between looks


class Pool(Protocol):
    """Connections to a file."""

    process: int

    @property
    def identity(self) -> Identity | None:
        """The file that they are to, if there is one by now."""

    def users(self) -> set[int]:
        """The threads that use one."""

    def being_taken(self) -> bool:
        """Whether a thread takes or makes one."""

    def make_up(self) -> None:
        """Nobody takes one any more: whoever was about to was interrupted."""

    def close_idle(self) -> bool:
        """Close those that nobody uses, and return whether none of them is left."""


class Forks:
    """The forks of this process, one at a time."""

    def __init__(self) -> None:
        self._pools: WeakValueDictionary[int, Pool] = WeakValueDictionary()
        self._lock = Lock()  # held while the process forks
        self._held: list[Lock] = []  # it, by the thread that forks
        self._forking = 0  # that thread, or the last one that did
        self._waiting: set[int] = set()  # threads that fork once another has
        self._open: list[Pool] = []  # pools with connections that a child would have
        self._inherited: set[Identity] = set()  # files with connections of a parent process
        self._interrupts: list[int] = []  # Ctrl-C, if it came meanwhile

    def add(self, pool: Pool) -> None:
        """Connections to be closed before forks."""
        self._pools[id(pool)] = pool

    def allow(self, file: WatchedFile) -> bool:
        """Whether this process may use a file: it has no connection to it from its parent."""
        return not self._inherited or file.identity() not in self._inherited

    def has_to_wait(self) -> bool:
        """Whether this thread must make or take no connection yet, because another one forks.

        A thread that has one, of any file, goes on: the fork waits for it.
        """
        me = get_ident()
        return (
            self._lock.locked()
            and self._forking != me
            and all(me not in pool.users() for pool in self._own_pools())
        )

    def wait(self) -> None:
        """Wait until this thread may take a connection."""
        while self.has_to_wait():
            time.sleep(_LOOK)

    def begin(self) -> None:
        """Before the process forks: close what is open once nobody uses it, if that is soon."""
        held: list[Lock] = []
        interrupts: list[int] = []
        while True:
            try:
                self._take_lock(held)
                self._close(patience=0.0 if interrupts else _PATIENCE)
                self._interrupts[:] = interrupts
            except KeyboardInterrupt:  # here it would be lost; and nothing is waited for any more
                interrupts = [signal.SIGINT]
            else:
                return

    def _take_lock(self, held: list[Lock]) -> None:
        """Wait for other threads that fork; the lock is added to `held` unless it is there."""
        me = get_ident()
        self._waiting.add(me)
        try:
            if not held:
                # In C: no signal is answered between taking it and noting that.
                held.extend(compress((self._lock,), map(self._lock.acquire, (True,))))
            self._forking, self._held[:] = me, held
        finally:
            self._waiting.discard(me)

    def _close(self, patience: float) -> None:
        self._open, start = self._own_pools(), time.monotonic()
        while True:
            # Twice, as a thread that is waited for may have gone from one file to another.
            self._open = self._not_quiet() or self._not_quiet()
            waited = time.monotonic() - start
            taking = waited < _TAKING
            if waited >= patience or not any(self._is_awaited(each, taking) for each in self._open):
                break
            time.sleep(_LOOK)
        if not taking:
            for pool in self._open:
                pool.make_up()

    def _not_quiet(self) -> list[Pool]:
        """Close what nobody uses, and return the pools of which something is left."""
        return [
            pool
            for pool in self._own_pools()
            if pool.users() or pool.being_taken() or not pool.close_idle()
        ]

    def _is_awaited(self, pool: Pool, taking: bool) -> bool:
        """Whether to wait for a pool: not where this thread itself uses a connection of it."""
        users, me = pool.users(), get_ident()
        if me in users:
            return False
        alive = users & sys._current_frames().keys() - set(self._waiting)
        return bool(alive) or (taking and not users)

    def begin_in_child(self) -> None:
        """After a fork, in the child."""
        for pool in self._open:
            if pool.identity is not None:
                self._inherited.add(pool.identity)
            _kept.append(pool)
        self._waiting.clear()

    def _own_pools(self) -> list[Pool]:
        pools = (each() for each in self._pools.valuerefs())
        return [pool for pool in pools if pool is not None and pool.process == os.getpid()]

    def register(self) -> None:
        """Have all this done at every fork."""
        # What comes after it is in C, as an exception there would be lost: the lock is given back,
        # and Ctrl-C takes effect once the hooks are done.
        give = partial(reduce, operator.call, self._held, methodcaller("release"))
        interrupt = partial(reduce, operator.call, self._interrupts, interrupt_main)
        os.register_at_fork(before=self.begin, after_in_parent=give, after_in_child=give)
        for done in (self._held.clear, interrupt, self._interrupts.clear):
            os.register_at_fork(after_in_parent=done)
        for done in (self._held.clear, self._interrupts.clear, self.begin_in_child):
            os.register_at_fork(after_in_child=done)


_kept: list[Pool] = []  # with a parent's connections, which nothing must close
_compilers: list[Any] = []  # the lock of Numba's compiler, while the process forks


def _stop_compiling() -> None:
    """Wait for a thread that compiles: a child without it could never compile anything."""
    if (numba := sys.modules.get("numba.core.compiler_lock")) is not None:
        numba.global_compiler_lock.acquire()
        _compilers.append(numba.global_compiler_lock)


def _go_on_compiling() -> None:
    while _compilers:
        _compilers.pop().release()


forks = Forks()
if hasattr(os, "register_at_fork"):  # not everywhere
    # The last to be registered comes first: a thread may compile in a transaction.
    os.register_at_fork(
        before=_stop_compiling, after_in_parent=_go_on_compiling, after_in_child=_go_on_compiling
    )
    forks.register()
