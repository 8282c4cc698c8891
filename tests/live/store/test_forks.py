"""Processes that fork while an experiment is open, and while other threads are at work on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from recorded import told
from workers_store import begin, fork_and_continue, run_processes

from bestarm.errors import StoreUnavailableError
from bestarm.live import Experiment

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
            StoreUnavailableError, match="forked from one that had the database open"
        ):
            do()

    return can_in_fork(refused)


def test_a_child_has_connections_of_its_own_to_a_server(postgres_url: str, tmp_path: Path) -> None:
    run_processes(fork_and_continue, [(postgres_url, tmp_path)])
    parent, child = (
        set((tmp_path / f"ids {who}").read_text().split()) for who in ("parent", "child")
    )
    assert len(parent) == len(child) == 60
    assert not parent & child


@pytest.mark.parametrize("use", ["nothing", "a snapshot", "a transaction", "another thread"])
def test_a_child_is_refused_a_file_that_its_parent_has_open(sqlite_url: str, use: str) -> None:
    """It would take its parent's locks for its own; the parent goes on."""
    with begin(sqlite_url) as experiment:
        ids = iter(experiment.ask(9).ids)
        ledger: Any = experiment.engine.ledger
        in_use, release = Event(), Event()

        def check() -> None:
            assert is_refused_in_fork(lambda: experiment.tell(next(ids), 1.0))
            assert is_refused_in_fork(lambda: begin(sqlite_url, "another"))

        def hold() -> None:
            with ledger.transaction():
                in_use.set()
                assert release.wait(60)

        match use:
            case "nothing":
                check()
            case "another thread":
                thread = Thread(target=hold)
                thread.start()
                assert in_use.wait(60)
                check()
                release.set()
                thread.join()
            case _:
                with ledger.snapshot() if use == "a snapshot" else ledger.transaction():
                    check()
        number = next(ids)
        experiment.tell(number, 1.0)
        assert told(experiment) == {number: 1.0}
        assert experiment.verify().sound


def test_a_child_opens_a_file_that_its_parent_has_closed(sqlite_url: str) -> None:
    begin(sqlite_url).close()

    def use() -> None:
        with Experiment.open(sqlite_url, "offer") as experiment:
            experiment.tell(experiment.ask(1).ids[0], 1.0)

    assert can_in_fork(use)
    with Experiment.open(sqlite_url, "offer") as experiment:
        assert told(experiment) == {0: 1.0}


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
    """Every child is refused, whatever the threads of its parent are doing."""
    with begin(sqlite_url) as experiment:
        ids = list(experiment.ask(120).ids)
        stop, kept = Event(), dict[int, float]()

        def work() -> None:
            for number in ids[:100]:
                experiment.tell(number, 1.0)
                kept[number] = 1.0
                if stop.is_set():
                    return

        busy = Thread(target=work)
        busy.start()
        for number in ids[100:]:
            assert is_refused_in_fork(partial(experiment.tell, number, 1.0))
        stop.set()
        busy.join()
        assert told(experiment) == kept
        assert experiment.verify().sound


def test_a_child_opens_again_what_its_parent_has_open_on_a_server(postgres_url: str) -> None:
    """It has connections of its own, and waits for no thread of its parent."""
    with begin(postgres_url) as experiment:
        ids = experiment.ask(4).ids
        engine: Any = experiment.engine
        with engine.ledger.snapshot(), engine._lock, engine._at_work, engine._queueing:
            assert is_refused_in_fork(lambda: experiment.tell(ids[0], 1.0))
            assert is_refused_in_fork(experiment.recommendation)
            assert can_in_fork(lambda: Experiment.open(postgres_url, "offer").tell(ids[0], 1.0))
        experiment.tell(ids[1], 1.0)
        assert told(experiment) == {0: 1.0, 1: 1.0}


def test_a_child_is_refused_an_experiment_in_memory() -> None:
    experiment = Experiment(["old", "new"], bounds=(0, 1))

    def refused() -> None:
        with pytest.raises(StoreUnavailableError, match="has the experiment in memory"):
            experiment.ask()

    assert can_in_fork(refused)
