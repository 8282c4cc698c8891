"""Processes that fork while an experiment is open, and while other threads are at work on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from recorded import told
from workers_store import begin, fork_and_continue, run_processes

from bestarm import Problem
from bestarm.errors import StoreUnavailableError
from bestarm.live import Experiment
from bestarm.live.store.sql import database

if not hasattr(os, "fork"):
    pytest.skip("There are no forks on this system.", allow_module_level=True)


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


def is_refused_in_fork(do: Callable[[], object]) -> bool:
    """Whether a forked process is refused the file, with a sentence."""

    def refused() -> None:
        with pytest.raises(
            StoreUnavailableError, match="forked while its parent used the database"
        ):
            do()

    return can_in_fork(refused)


def test_a_forked_process_has_connections_of_its_own(store_url: str, tmp_path: Path) -> None:
    run_processes(fork_and_continue, [(store_url, tmp_path)])
    parent, child = (
        set((tmp_path / f"ids {who}").read_text().split()) for who in ("parent", "child")
    )
    assert len(parent) == len(child) == 60
    assert not parent & child


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
@pytest.mark.parametrize("own_thread", [False, True])
def test_a_child_is_refused_a_file_that_was_in_use(
    sqlite_url: str, writing: bool, own_thread: bool
) -> None:
    """It would take its parent's locks for its own; the parent goes on, and the next child can."""
    with begin(sqlite_url) as experiment:
        ids = iter(experiment.ask(9).ids)
        ledger: Any = experiment.engine.ledger
        in_use, release = Event(), Event()

        def use() -> None:
            with ledger.transaction() if writing else ledger.snapshot():
                in_use.set()
                assert release.wait(60)

        def check() -> None:
            assert is_refused_in_fork(lambda: experiment.tell(next(ids), 1.0))
            assert is_refused_in_fork(lambda: begin(sqlite_url, "another"))

        if own_thread:
            with ledger.transaction() if writing else ledger.snapshot():
                check()
        else:
            thread = Thread(target=use)
            thread.start()
            assert in_use.wait(60)
            check()
            release.set()
            thread.join()
        number = next(ids)
        assert can_in_fork(lambda: experiment.tell(number, 1.0))
        experiment.tell(next(ids), 1.0)
        assert told(experiment) == {number: 1.0, number + 1: 1.0}
        assert experiment.verify().sound


_ENDS = """
import gc, os, sys
from bestarm.live import Experiment
experiment = Experiment.open(sys.argv[1], "offer")
try:
    with experiment.engine.ledger.transaction() as tx:
        tx.add_outcomes([0], [1.0], at=2e9, late=[False])
        if not os.fork():
            raise InterruptedError
        os.wait()
        tx.add_outcomes([1], [1.0], at=2e9, late=[False])
except InterruptedError:
    del tx
    gc.collect()
    sys.exit(0)  # as programs end: modules and objects are taken apart
"""


def test_a_child_that_leaves_a_transaction_leaves_it_to_its_parent(store_url: str) -> None:
    """Its parent's connection is neither rolled back nor closed there."""
    with begin(store_url) as experiment:
        experiment.ask(4)
        subprocess.run([sys.executable, "-c", _ENDS, store_url], check=True, timeout=60)
        assert told(experiment) == {0: 1.0, 1: 1.0}


def test_forks_amid_busy_threads_lose_nothing(sqlite_url: str) -> None:
    """A child that is not refused writes, and what it acknowledges is kept."""
    with begin(sqlite_url) as experiment:
        ids = list(experiment.ask(140).ids)
        stop, kept = Event(), dict[int, float]()

        def work() -> None:
            for number in ids[:100]:
                experiment.tell(number, 1.0)
                kept[number] = 1.0
                if stop.is_set():
                    return

        def fork(part: list[int]) -> None:
            for number in part:
                if can_in_fork(partial(experiment.tell, number, 1.0)):
                    kept[number] = 1.0

        busy = Thread(target=work)
        forks = [Thread(target=fork, args=(part,)) for part in (ids[100:115], ids[115:130])]
        for each in (busy, *forks):
            each.start()
        for each in forks:
            each.join()
        stop.set()
        busy.join()
        assert told(experiment) == kept
        assert experiment.verify().sound


def test_a_child_uses_a_server_its_parent_uses(postgres_url: str) -> None:
    """It has connections of its own."""
    with begin(postgres_url) as experiment:
        ids = experiment.ask(4).ids
        ledger: Any = experiment.engine.ledger
        with ledger.snapshot():
            assert can_in_fork(lambda: experiment.tell(ids[0], 1.0))
        experiment.tell(ids[1], 1.0)
        assert told(experiment) == {0: 1.0, 1: 1.0}


def test_the_handler_of_a_signal_may_fork(sqlite_url: str) -> None:
    """Its thread may have been about to take a connection, or to give one back."""
    with begin(sqlite_url) as experiment:
        ids = experiment.ask(2).ids
        with database._pools_lock:
            assert can_in_fork(lambda: experiment.tell(ids[0], 1.0))
        experiment.tell(ids[1], 1.0)
        assert told(experiment) == {0: 1.0, 1: 1.0}


def test_ctrl_c_as_a_connection_is_taken_leaves_the_file_to_children(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        """A lock after which a thread is interrupted, once."""

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            monkeypatch.undo()
            raise KeyboardInterrupt

    with begin(sqlite_url) as experiment:
        monkeypatch.setattr(database, "_pools_lock", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            experiment.status()
        assert can_in_fork(experiment.status)


def test_ctrl_c_as_a_connection_is_given_back_leaves_the_file_to_children(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with begin(sqlite_url) as experiment:
        ledger: Any = experiment.engine.ledger
        with closing(ledger.store._engine.raw_connection()) as borrowed:
            monkeypatch.setattr(type(borrowed), "close", interrupt)
            with pytest.raises(KeyboardInterrupt):
                experiment.status()
        assert can_in_fork(experiment.status)


def test_a_fork_learns_though_its_parent_did(sqlite_url: str) -> None:
    """The lock of a forecaster may be held by a thread that the child does not have."""
    problem = Problem(np.eye(3), delta=0.01)
    settings: dict[str, Any] = {
        "policy": "anytime",
        "policy_options": {"bounds": (0, 1)},
        "forecaster": "default",
    }
    with Experiment.create(sqlite_url, "offer", problem, seed=0, **settings) as experiment:
        ids = experiment.ask(2).ids
        forecasts: Any = experiment.engine.forecasts
        with forecasts._lock:
            assert can_in_fork(lambda: experiment.tell(ids[0], 1.0))
        experiment.tell(ids[1], 1.0)
