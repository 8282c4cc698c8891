"""Processes that fork while an experiment is open, and while other threads are at work on it."""

from __future__ import annotations

import os
import signal
import time
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from kept import told
from workers_faults import begin

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.store.sql import pool

if not hasattr(os, "fork"):
    pytest.skip("There are no forks on this system.", allow_module_level=True)


class Timer:
    """A clock that only naps move on."""

    def __init__(self, naps: list[float]) -> None:
        self.naps = naps

    def monotonic(self) -> float:
        return sum(self.naps)

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)


def tells_in_fork(experiment: Experiment, number: int) -> bool:
    """Whether a forked process can tell an outcome."""
    child = os.fork()
    if not child:
        try:
            signal.alarm(30)
            experiment.tell(number, 1.0)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def end_in_fork() -> int:
    child = os.fork()
    if not child:
        os._exit(0)
    return os.waitpid(child, 0)[1]


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


def test_forks_amid_busy_threads_can_write(sqlite_url: str) -> None:
    with begin(sqlite_url) as experiment:
        over = Event()

        def work() -> None:
            while not over.is_set():
                experiment.tell(experiment.ask(1).ids[0], 1.0)
                experiment.status()

        ids = experiment.ask(5).ids
        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            assert all(tells_in_fork(experiment, number) for number in ids)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert set(ids) <= set(told(experiment))
        assert experiment.verify().sound


def test_a_fork_does_not_wait_for_its_own_thread_nor_for_ever(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(sqlite_url) as experiment:
        ledger: Any = experiment._ledger
        forks: list[int] = []
        naps: list[float] = []
        monkeypatch.setattr(pool, "time", Timer(naps))
        with ledger.store.reading():
            forks.append(end_in_fork())
            assert not naps
            thread = Thread(target=lambda: forks.append(end_in_fork()))
            thread.start()
            thread.join()
        assert sum(naps) >= pool._FORKING
        assert forks == [0, 0]
        assert experiment.ask(1).ids


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
