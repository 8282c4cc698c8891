"""Processes that fork while an experiment is open, and while other threads are at work on it."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from databases import wait_until
from kept import told
from numba.core.compiler_lock import global_compiler_lock
from sqlalchemy import MetaData
from workers_faults import begin

from bestarm import Problem
from bestarm.errors import StoreUnavailableError
from bestarm.live import Experiment
from bestarm.live.store.sql import Store, forks

if not hasattr(os, "fork"):
    pytest.skip("There are no forks on this system.", allow_module_level=True)


class Clock:
    """A clock that only naps move on."""

    def __init__(self, naps: list[float]) -> None:
        self.naps = naps

    def monotonic(self) -> float:
        return sum(self.naps)

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)


def can_in_fork(do: Callable[[], object]) -> bool:
    """Whether a forked process can do something."""
    child = os.fork()
    if not child:
        try:
            signal.alarm(30)
            do()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def tells_in_fork(experiment: Experiment, number: int) -> bool:
    """Whether a forked process can tell an outcome."""
    return can_in_fork(lambda: experiment.tell(number, 1.0))


def store_of(experiment: Experiment) -> Any:
    ledger: Any = experiment._ledger
    return ledger.store


def is_forking() -> bool:
    """Whether a fork waits for other threads."""
    return forks.forks._lock.locked()


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """A thread at work beside the block."""
    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_parent_that_closes_does_not_take_the_log_from_its_child(sqlite_url: str) -> None:
    with begin(sqlite_url) as experiment:
        ids = experiment.ask(3).ids
    experiment = Experiment.open(sqlite_url, "offer")
    experiment.status()
    (read, come), (closed, write) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            os.close(write)
            experiment.status()
            os.write(come, b".")
            os.read(closed, 1)
            experiment.tell_many(dict.fromkeys(ids, 1.0))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.close(come)
    os.close(closed)
    assert os.read(read, 1)
    experiment.close()
    os.close(write)
    os.close(read)
    _, ended = os.waitpid(child, 0)
    assert os.WTERMSIG(ended) == signal.SIGKILL  # it has told them
    with Experiment.open(sqlite_url, "offer") as later:
        assert told(later) == dict.fromkeys(ids, 1.0)


@pytest.mark.parametrize("writing", [False, True])
def test_a_fork_waits_for_the_transactions_of_other_threads(sqlite_url: str, writing: bool) -> None:
    """Or the child would take its parent's locks for those of another process, for ever."""
    with begin(sqlite_url) as experiment:
        ids = experiment.ask(3).ids
        ledger: Any = experiment._ledger
        begun, ended = Event(), Event()

        def work() -> None:
            with ledger.store.writing() if writing else ledger.store.reading():
                begun.set()
                time.sleep(0.2)  # not to wait for anything: the fork waits for this
            ended.set()
            experiment.tell(ids[0], 1.0)

        thread = Thread(target=work)
        thread.start()
        begun.wait()
        assert tells_in_fork(experiment, ids[1])
        assert ended.is_set()
        thread.join()
        assert tells_in_fork(experiment, ids[2])
        assert told(experiment) == dict.fromkeys(ids, 1.0)


def test_nobody_begins_a_transaction_while_a_fork_waits(sqlite_url: str) -> None:
    with begin(sqlite_url) as experiment:
        (number,), begun = experiment.ask(1).ids, Event()
        other = Thread(target=experiment.status)
        waits: list[bool] = []

        def work() -> None:
            with store_of(experiment).reading():
                begun.set()
                wait_until(is_forking)
                other.start()
                other.join(0.2)
                waits.append(other.is_alive())

        with beside(work):
            begun.wait()
            assert tells_in_fork(experiment, number)
        other.join()
        assert waits == [True]


def test_forks_wait_for_each_other() -> None:
    """Or what is begun after the first would be open as the second one comes."""
    of_both = forks.Forks()
    of_both.begin()
    second = Thread(target=of_both.begin)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    (held,) = of_both._held
    held.release()
    second.join()
    assert of_both.has_to_wait()  # this thread, now that the other one forks


@pytest.mark.parametrize("forking", [1, 3])
def test_forks_amid_busy_threads_can_write(sqlite_url: str, forking: int) -> None:
    with begin(sqlite_url) as experiment:
        over = Event()
        fine: list[bool] = []

        def work() -> None:
            while not over.is_set():
                experiment.tell(experiment.ask(1).ids[0], 1.0)
                experiment.status()

        def fork(ids: range) -> None:
            fine.extend(tells_in_fork(experiment, number) for number in ids)

        ids = experiment.ask(8 * forking).ids
        busy = [Thread(target=work) for _ in range(4)]
        forkers = [Thread(target=fork, args=(ids[each::forking],)) for each in range(forking)]
        for thread in busy + forkers:
            thread.start()
        for thread in forkers:
            thread.join()
        over.set()
        for thread in busy:
            thread.join()
        assert fine == [True] * 8 * forking
        assert set(ids) <= set(told(experiment))
        assert experiment.verify().sound


def test_a_fork_does_not_wait_for_its_own_thread_nor_for_ever(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(sqlite_url) as experiment:
        found: list[bool] = []
        naps: list[float] = []
        monkeypatch.setattr(forks, "time", Clock(naps))
        with store_of(experiment).reading():
            found.append(can_in_fork(lambda: None))
            assert not naps
            with beside(lambda: found.append(can_in_fork(lambda: None))):
                pass
        assert sum(naps) >= forks._PATIENCE
        assert found == [True, True]
        assert experiment.ask(1).ids


def refused(url: str, experiment: Experiment, number: int) -> bool:
    """Whether a process is told that it must not use a file, and may use another."""
    Experiment.create(f"{url}.other", "offer", Problem(np.eye(3)), seed=0).close()
    refusals = 0
    for do in (lambda: experiment.tell(number, 1.0), lambda: Experiment.open(url, "offer")):
        try:
            do()
        except StoreUnavailableError as error:
            refusals += "was forked while" in str(error) and "spawn" in error.remedy
    experiment.close()
    return refusals == 2


@pytest.mark.parametrize("own", [False, True])
def test_a_child_does_not_use_a_file_that_was_in_use_as_it_was_forked(
    sqlite_url: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would take the parent's locks for its own, or those of another, for ever."""
    monkeypatch.setattr(forks, "_PATIENCE", 0.05)

    def check() -> None:
        assert refused(sqlite_url, experiment, ids[0])

    with begin(sqlite_url) as experiment:
        ids = experiment.ask(2).ids
        found: list[bool] = []
        with store_of(experiment).reading():
            if own:
                found.append(can_in_fork(check))
            else:
                with beside(lambda: found.append(can_in_fork(check))):
                    pass
        assert found == [True]
        assert tells_in_fork(experiment, ids[0])
        experiment.tell(ids[1], 1.0)
        assert told(experiment) == dict.fromkeys(ids, 1.0)


def test_a_fork_in_a_transaction_does_not_wait_for_those_who_wait_for_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    with begin(sqlite_url) as experiment:
        (number,), store = experiment.ask(1).ids, store_of(experiment)
        other = Thread(target=experiment.tell, args=(number, 1.0))
        with store.writing():
            other.start()
            wait_until(lambda: len(store._pool.users()) == 2)
            monkeypatch.setattr(forks, "time", Clock(naps))
            assert can_in_fork(lambda: None)
        other.join()
        assert not naps
        assert told(experiment) == {number: 1.0}


def test_a_thread_that_a_fork_waits_for_can_use_another_file(
    sqlite_url: str, tmp_path: Path
) -> None:
    with (
        begin(sqlite_url) as experiment,
        begin(f"sqlite:///{tmp_path / 'second.db'}") as second,
    ):
        (number,), begun = experiment.ask(1).ids, Event()

        def work() -> None:
            with store_of(experiment).reading():
                begun.set()
                wait_until(is_forking)
                second.ask(1)

        def check() -> None:
            assert not store_of(second)._pool._idle  # it was closed again
            experiment.tell(number, 1.0)

        with beside(work):
            begun.wait()
            assert can_in_fork(check)
        assert second.ask(1).ids[0] == 1


def test_a_fork_waits_for_tables_that_are_made(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(sqlite_url) as experiment:
        (number,), begun, ended = experiment.ask(1).ids, Event(), Event()
        store = Store(sqlite_url)

        def make(*_: object) -> None:
            begun.set()
            wait_until(is_forking)
            ended.set()

        monkeypatch.setattr(MetaData, "create_all", make)
        with beside(lambda: store.make_tables(MetaData())):
            begun.wait()
            assert tells_in_fork(experiment, number)
            assert ended.is_set()
        store.close()


def test_ctrl_c_ends_the_wait_of_a_fork_and_is_not_lost(sqlite_url: str) -> None:
    with begin(sqlite_url) as experiment:
        begun, over = Event(), Event()

        def work() -> None:
            with store_of(experiment).reading():
                begun.set()
                wait_until(is_forking)
                os.kill(os.getpid(), signal.SIGINT)
                over.wait()

        with beside(work):
            begun.wait()
            try:
                with pytest.raises(KeyboardInterrupt):
                    can_in_fork(lambda: None)
            finally:
                over.set()
        os.wait()
        assert not is_forking()
        assert tells_in_fork(experiment, experiment.ask(1).ids[0])


def test_a_fork_after_an_interrupted_call_waits_once_for_what_never_comes(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(forks, "time", Clock(naps))
    with begin(sqlite_url) as experiment:
        (number,) = experiment.ask(1).ids
        store_of(experiment)._pool._free.get()  # and interrupted before it noted a session
        assert can_in_fork(lambda: None)
        assert forks._TAKING <= sum(naps) < forks._PATIENCE
        del naps[:]
        assert tells_in_fork(experiment, number)
        assert not naps


def test_a_session_that_another_thread_has_taken_is_not_closed(sqlite_url: str) -> None:
    """After Ctrl-C as it was put back."""
    with begin(sqlite_url) as experiment:
        pool, taken, over = store_of(experiment)._pool, Event(), Event()
        usual, found = pool._lock, list[object]()

        class Interrupted(deque[Any]):
            def append(self, session: object) -> None:
                super().append(session)
                pool._idle = deque(self)
                raise KeyboardInterrupt

        class Released:
            """A lock after which another thread comes first."""

            def __enter__(self) -> None:
                usual.acquire()

            def __exit__(self, kind: object, *_: object) -> None:
                usual.release()
                if kind is KeyboardInterrupt:
                    pool._lock = usual
                    other.start()
                    taken.wait()

        def work() -> None:
            with store_of(experiment).reading() as session:
                taken.set()
                over.wait()
                found.extend(session.raw.execute("SELECT 1"))

        other = Thread(target=work)
        pool._idle, pool._lock = Interrupted(pool._idle), Released()
        with pytest.raises(KeyboardInterrupt):
            experiment.status()
        over.set()
        other.join()
        assert found == [(1,)]


@pytest.mark.parametrize("writing", [False, True])
def test_a_fork_waits_for_a_thread_that_compiles(sqlite_url: str, writing: bool) -> None:
    """In a transaction or not. The child would wait for it for ever, which it does not have."""
    with begin(sqlite_url) as experiment:
        (number,), begun = experiment.ask(1).ids, Event()

        def work() -> None:
            with store_of(experiment).writing() if writing else nullcontext():
                begun.set()
                if writing:
                    wait_until(is_forking)
                with global_compiler_lock:
                    wait_until(is_forking)
                    time.sleep(0.05)

        def compile_and_tell() -> None:
            with global_compiler_lock:
                experiment.tell(number, 1.0)

        with beside(work):
            begun.wait()
            assert can_in_fork(compile_and_tell)
        assert told(experiment) == {number: 1.0}


def test_a_fork_learns_though_its_parent_did(sqlite_url: str) -> None:
    """The lock of a forecaster may be held by a thread that the child does not have."""
    problem = Problem(np.eye(3), delta=0.01)
    settings: dict[str, Any] = {
        "policy": "anytime",
        "options": {"bounds": (0, 1)},
        "forecaster": "default",
    }
    with Experiment.create(sqlite_url, "offer", problem, seed=0, **settings) as experiment:
        ids = experiment.ask(2).ids
        forecasts: Any = experiment._forecasts
        with forecasts._lock:
            assert tells_in_fork(experiment, ids[0])
        experiment.tell(ids[1], 1.0)
