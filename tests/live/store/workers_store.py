"""Experiments for tests of stores, and processes that share one or make its tables."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from workers_killed import die_at
from workers_started import HANG_TIMEOUT, processes

from bestarm import Problem
from bestarm.errors import ExperimentExistsError
from bestarm.live import Experiment
from bestarm.live.store import Store

__all__ = [
    "begin",
    "create_with_others",
    "fork_and_continue",
    "other_writer",
    "prepare_and_die",
    "run_processes",
    "stop_amid_transaction",
    "together",
]


def begin(url: str | Store, name: str = "offer") -> Experiment:
    """An experiment that never ends by itself: one plan of very many pulls."""
    problem = Problem(np.eye(3), delta=0.01)
    return Experiment.create(
        url, name, problem, policy="sp-bai", policy_options={"r1": 1e6}, seed=0
    )


@contextmanager
def other_writer(url: str) -> Iterator[Any]:
    """A connection of another program that holds the lock for which writers wait."""
    other: Any
    if url.startswith("sqlite"):
        other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
    else:
        other = psycopg.connect(url)
        other.execute("SELECT id FROM bestarm_experiments FOR UPDATE")
    try:
        yield other
    finally:
        other.rollback()
        other.close()


def run_processes(target: Callable[..., None], arguments: Iterable[tuple[object, ...]]) -> None:
    """Run a function in processes of their own, all at once; each must end without an error."""
    running = [processes.Process(target=target, args=each) for each in arguments]
    for process in running:
        process.start()
    for process in running:
        process.join(HANG_TIMEOUT)
        assert process.exitcode == 0


def stop_amid_transaction(url: str, writing: Event) -> None:
    """Write an outcome, and be stopped before its transaction ends."""
    with Experiment.open(url, "offer").engine.ledger.transaction() as tx:
        tx.add_outcomes([1], [1.0], at=2e9, late=[False])
        writing.set()
        os.kill(os.getpid(), signal.SIGSTOP)


def together(url: str, folder: Path, number: int, start: Barrier, rounds: int) -> None:
    """Begin an experiment with others at once, or open it; ask, tell, and note the ids."""
    start.wait(60)
    try:
        experiment = begin(url)
    except ExperimentExistsError:
        experiment = Experiment.open(url, "offer")
    got: list[int] = []
    for turn in range(rounds):
        batch = experiment.ask(1 + (number + turn) % 3)
        experiment.tell_many([(each, float(each)) for each in batch.ids])
        got += batch.ids
    (folder / f"ids {number}").write_text(" ".join(map(str, got)))


def fork_and_continue(url: str, folder: Path) -> None:
    """Use an experiment, fork, and go on with it on both sides."""
    experiment = begin(url)
    experiment.tell_many([(each, float(each)) for each in experiment.ask(3).ids])
    child = os.fork()
    got: list[int] = []
    try:
        if not child:
            experiment = Experiment.open(url, "offer")
        for _ in range(30):
            batch = experiment.ask(2)
            experiment.tell_many([(each, float(each)) for each in batch.ids])
            got += batch.ids
        if child:
            assert os.waitpid(child, 0)[1] == 0
            batch = experiment.ask(1)
            experiment.tell(batch.ids[0], 1.0)
            assert experiment.verify().sound
        (folder / f"ids {'parent' if child else 'child'}").write_text(" ".join(map(str, got)))
    except BaseException:
        if not child:
            os._exit(1)
        raise
    if not child:
        os._exit(0)


def create_with_others(url: str, name: str, start: Barrier) -> None:
    """Create an experiment at the same time as others do."""
    start.wait(60)
    with Experiment.create(url, name, Problem(np.eye(3)), seed=0) as experiment:
        assert experiment.verify().sound


def prepare_and_die(url: str, instant: int) -> None:
    """Make the tables, and be killed before the n-th statement unless it takes fewer."""
    die_at(instant)
    store = Store(url)
    store.prepare()
    store.close()
