"""Transactions on connections of the pool: what is kept, who waits, and what a server may say."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from databases import name_of, run_sql, wait_until
from interrupting import Interrupting
from kept import told
from sqlalchemy.pool import base as pool_base
from sqlalchemy.pool import impl as pool_impl
from sqlalchemy.util import queue as pool_queue
from workers_faults import begin, forks_one_that_ends
from workers_started import PATIENCE, processes

from bestarm.errors import StoreUnavailableError
from bestarm.live import Experiment
from bestarm.live.store.sql.session import PostgresSession, SqliteSession


def test_a_forked_process_that_ends_closes_no_connection_of_its_parent(store_url: str) -> None:
    process = processes.Process(target=forks_one_that_ends, args=(store_url,))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0


def test_who_is_interrupted_while_waiting_for_others_can_go_on(store_url: str) -> None:
    with begin(store_url) as experiment:
        ids = experiment.ask(3).ids
        other: Any
        if store_url.startswith("sqlite"):
            other = sqlite3.connect(store_url.removeprefix("sqlite:///"), isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
        else:
            other = psycopg.connect(store_url)
            other.execute("SELECT id FROM bestarm_experiments FOR UPDATE")
        later = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        later.start()
        with pytest.raises(KeyboardInterrupt):
            experiment.tell(ids[0], 1.0)
        later.join()
        other.rollback()
        other.close()
        assert experiment.tell(ids[0], 1.0).recorded
        assert told(experiment) == {0: 1.0}


def test_who_is_interrupted_while_rolling_back_keeps_no_lock(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with begin(store_url) as experiment, Experiment.open(store_url, "offer") as other:
        ids = experiment.ask(3).ids
        with monkeypatch.context() as patch:
            for kind in (SqliteSession, PostgresSession):
                patch.setattr(kind, "rollback", interrupt)
            with pytest.raises(KeyboardInterrupt), experiment._ledger.transaction():
                raise ValueError
        assert other.tell(ids[0], 1.0).recorded
        assert experiment.tell(ids[1], 1.0).recorded


# psycopg warns of a connection that the interrupted pool lost, as it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_within_the_pool_uses_up_no_connection(store_url: str) -> None:
    """SQLAlchemy's pool counts a connection before anybody has it, and until after it is back."""
    with begin(store_url) as experiment:
        (number,) = experiment.ask(1).ids
        experiment.tell(number, 1.0)
        for moment in count(1):
            interrupting = Interrupting(moment, pool_base, pool_impl, pool_queue)
            with suppress(KeyboardInterrupt), interrupting:
                experiment.tell(number, 1.0)
            if not interrupting.done:
                break
            used = experiment._ledger.store._engine.pool.checkedout()  # type: ignore[attr-defined]
            assert used == 0, moment
        assert moment > 10
        assert experiment.tell(number, 1.0).repeated
    gc.collect()  # here, where the warning is expected


def test_counters_are_read_to_the_bit_whatever_the_server_says(postgres_url: str) -> None:
    number = 0.1 + 0.2
    name = name_of(postgres_url)
    run_sql(postgres_url, f"ALTER DATABASE {name} SET extra_float_digits = 0")
    with begin(postgres_url) as experiment:
        experiment.tell(experiment.ask(1).ids[0], number)
        with experiment.read() as books:
            assert books.head.highest == number


def test_writers_take_turns_whatever_the_server_says(postgres_url: str) -> None:
    name = name_of(postgres_url)
    strict = "default_transaction_isolation = 'repeatable read'"
    run_sql(postgres_url, f"ALTER DATABASE {name} SET {strict}")
    with begin(postgres_url) as one, Experiment.open(postgres_url, "offer") as other:
        ids = one.ask(2).ids
        with one._ledger.transaction() as tx:
            later = threading.Thread(target=other.tell, args=(ids[0], 1.0))
            later.start()
            wait_until(lambda: bool(run_sql(postgres_url, _WAITING)))
            tx.head.last_time += 1
        later.join(PATIENCE)
        assert told(one) == {0: 1.0}


_WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def test_an_outcome_without_its_assignment_is_found(store_url: str) -> None:
    with begin(store_url) as experiment:
        experiment.tell(experiment.ask(2).ids[0], 1.0)
        ledger: Any = experiment._ledger
        with ledger.store.transaction() as session:
            session.raw.execute("DELETE FROM bestarm_assignments WHERE number = 0")
        assert not experiment.verify().sound


_LOCKS = 120  # where they are in the index of SQLite's log, eight of them


def test_who_reads_waits_while_another_mends_the_log(tmp_path: Path) -> None:
    """As after a program that was killed while it wrote."""
    with begin(f"sqlite:///{tmp_path / 'store.db'}") as experiment:
        experiment.tell(experiment.ask(2).ids[0], 1.0)
        other = subprocess.Popen(
            [sys.executable, "-c", _MEND, str(tmp_path / "store.db-shm")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with other:
            assert other.stdin is not None
            assert other.stdout is not None
            assert other.stdout.readline() == b"begun\n"
            later = threading.Timer(0.2, other.stdin.close)
            later.start()
            assert told(experiment) == {0: 1.0}


_MEND = f"""
import fcntl, sys
with open(sys.argv[1], "r+b", buffering=0) as file:
    before = file.read(96)
    fcntl.lockf(file, fcntl.LOCK_EX, 8, {_LOCKS})
    file.seek(0)
    file.write(bytes(96))
    print("begun", flush=True)
    sys.stdin.read()
    file.seek(0)
    file.write(before)
"""


def test_what_the_server_does_not_keep_is_not_acknowledged(postgres_url: str) -> None:
    """Even if somebody passes over the error of a statement."""
    with begin(postgres_url) as experiment:
        (number,) = experiment.ask(1).ids
        with pytest.raises(StoreUnavailableError, match=r"aborted|rolled back"):
            fail_and_go_on(experiment._ledger)
        assert experiment.tell(number, 1.0).recorded


def fail_and_go_on(ledger: Any) -> None:
    with ledger.transaction() as tx, suppress(psycopg.Error):
        tx.session.raw.execute("SELECT 1 / 0")
