"""The sessions of a store: forked processes, interrupted calls, and many at once."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import ExitStack, closing, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import psycopg
import pytest
import workers_faults
from databases import name_of, run_sql, wait_until
from interrupting import Interrupting
from kept import told
from workers_faults import begin
from workers_started import PATIENCE, processes

from bestarm import Problem
from bestarm.errors import DamagedStoreError, StoreUnavailableError
from bestarm.live import Experiment, writer
from bestarm.live.store.sql import connections, database, pool, sqlite, turns
from bestarm.live.store.sql.postgresql import PostgresSession
from bestarm.live.store.sql.sqlite import SqliteSession


def test_a_forked_process_that_ends_closes_no_connection_of_its_parent(store_url: str) -> None:
    process = processes.Process(target=workers_faults.forks_one_that_ends, args=(store_url,))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0


def test_work_on_what_is_due_leaves_connections_for_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many experiments of one store may have something due as there are connections."""
    monkeypatch.setattr(pool, "_PATIENCE", 0.1)
    with begin(postgres_url) as experiment, ExitStack() as claims:
        store: database.Store = experiment._ledger.store  # type: ignore[attr-defined]
        assert all(claims.enter_context(store.claiming(number)) for number in range(20))
        assert experiment.tell(experiment.ask(1).ids[0], 1.0).recorded


def test_a_claim_that_is_interrupted_does_not_stay(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(connection: psycopg.Connection, *statement: Any) -> psycopg.Cursor:
        execute(connection, *statement)
        raise KeyboardInterrupt

    with begin(postgres_url) as experiment:
        store: database.Store = experiment._ledger.store  # type: ignore[attr-defined]
        execute = psycopg.Connection.execute
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", interrupt)
            with pytest.raises(KeyboardInterrupt), store.claiming(7):
                pass
        with closing(database.Store(postgres_url)) as other:
            wait_until(lambda: _may_claim(other))


def _may_claim(store: database.Store) -> bool:
    with store.claiming(7) as alone:
        return alone


def test_who_is_interrupted_while_waiting_for_a_server_is_told(postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        ids = experiment.ask(3).ids
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT id FROM bestarm_experiments FOR UPDATE")
            later = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            later.start()
            with pytest.raises(KeyboardInterrupt):
                experiment.tell(ids[0], 1.0)
            later.join()
            other.rollback()
        assert experiment.tell(ids[0], 1.0).recorded
        assert told(experiment) == {0: 1.0}


def test_who_is_interrupted_while_taking_back_does_not_keep_the_turn(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(connections, "PATIENCE", 1.0)
    with begin(store_url) as experiment:
        ids = experiment.ask(3).ids
        kinds = SqliteSession, PostgresSession
        with monkeypatch.context() as patch:
            for kind in kinds:
                patch.setattr(kind, "rollback", interrupt)
            with pytest.raises(KeyboardInterrupt), experiment._ledger.writing():
                raise ValueError
        assert experiment.tell(ids[0], 1.0).recorded


def test_a_session_given_back_while_a_store_is_closed_is_closed(sqlite_url: str) -> None:
    class Used(set[Any]):
        def __contains__(self, session: object) -> bool:
            found = super().__contains__(session)
            closing = threading.Thread(target=sessions.close)
            closing.start()
            closing.join(0.1)
            return found

    with closing(database.Store(sqlite_url)) as store:
        sessions = store._pool
        session = sessions.take()
        sessions._used = Used([session])
        sessions.give(session, sound=True)
        wait_until(lambda: not sessions._idle)


@pytest.mark.filterwarnings("ignore:unclosed database")  # of a session that nobody had noted yet
@pytest.mark.parametrize("call", ["ask", "tell"])
def test_who_is_interrupted_anywhere_holds_nobody_up(
    sqlite_url: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with begin(sqlite_url) as experiment:
        ids = iter(experiment.ask(500).ids)
        for number in range(1, 200):
            interrupting = Interrupting(number, turns, sqlite, pool, database, exits=False)
            with suppress(KeyboardInterrupt), interrupting:
                experiment.ask(1) if call == "ask" else experiment.tell(next(ids), 1.0)
            if not interrupting.done:
                break
            assert experiment.tell(next(ids), 1.0).recorded
        assert 15 < number < 199
        assert experiment.verify().sound
    gc.collect()  # while that warning is let pass


@pytest.mark.parametrize("kept", [False, True])
def test_a_session_is_kept_or_closed_by_whoever_is_interrupted(sqlite_url: str, kept: bool) -> None:
    """Or its end, whenever it comes, would be taken for the end of the file's log."""

    class Interrupted(deque[Any]):
        def append(self, session: object) -> None:
            if kept:
                super().append(session)
            raise KeyboardInterrupt

    with begin(sqlite_url) as experiment:
        (number,) = experiment.ask(1).ids
        ledger: Any = experiment._ledger
        sessions = ledger.store._pool
        sessions._idle = Interrupted(sessions._idle)
        with pytest.raises(KeyboardInterrupt):
            experiment.status()
        assert len(sessions._file._held) == len(sessions._idle) == kept
        sessions._idle = deque(sessions._idle)
        assert experiment.tell(number, 1.0).recorded


def test_sessions_that_interrupts_have_lost_are_made_up_for(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is interrupted between taking one and noting it cannot give it back."""
    monkeypatch.setattr(pool, "_PATIENCE", 0.1)
    with begin(sqlite_url) as experiment:
        ledger: Any = experiment._ledger
        sessions = ledger.store._pool
        while sessions._free.qsize():
            sessions._free.get()
        lost = [sessions.take() for _ in range(3)]
        experiment.tell(experiment.ask(1).ids[0], 1.0)
        for session in lost:
            sessions.give(session, sound=True)
        taken = [sessions.take() for _ in range(pool._MOST)]
        with pytest.raises(pool.NoSessionError):
            sessions.take()
        for session in taken:
            sessions.give(session, sound=True)
        assert sessions._free.qsize() == pool._MOST


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
        with one._ledger.writing() as tx:
            later = threading.Thread(target=other.tell, args=(ids[0], 1.0))
            later.start()
            wait_until(lambda: bool(run_sql(postgres_url, _WAITING)))
            tx.head.last_time += 1
        later.join(PATIENCE)
        assert told(one) == {0: 1.0}


_WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def test_what_is_left_to_a_process_that_hangs_is_done_in_the_end(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under an open plan as well, where nobody has to wait for it."""
    monkeypatch.setattr(writer, "_PATIENCE", 0.05)
    problem = Problem([[1, 0], [0, 1]])
    with (
        Experiment.create(store_url, "offer", problem, seed=1) as experiment,
        Experiment.open(store_url, "offer") as hanging,
        hanging._ledger.advancing() as alone,
    ):
        assert alone
        experiment.tell_many(dict.fromkeys(experiment.ask(1000).ids, 0.5))
        wait_until(lambda: bool(experiment.ask(1)) and experiment.phase > 1)
        assert experiment.verify().sound


@pytest.mark.parametrize("slow", [False, True])
def test_the_next_ask_does_what_was_left_to_a_process_that_is_gone(
    store_url: str, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem([[1, 0], [0, 1]])
    with (
        Experiment.create(store_url, "offer", problem, seed=1) as experiment,
        Experiment.open(store_url, "offer") as gone,
    ):
        with gone._ledger.advancing() as alone:
            assert alone
            experiment.tell_many(dict.fromkeys(experiment.ask(1000).ids, 0.5))
            assert experiment.ask(1)
            assert experiment.phase == 1
        if slow:  # the moment passes while it is at it
            moments = chain([True], repeat(False))
            monkeypatch.setattr(experiment, "_left_lately", lambda _: next(moments))
        assert experiment.ask(1)
        assert experiment.phase > 1


def test_an_outcome_without_its_assignment_is_found(store_url: str) -> None:
    with begin(store_url) as experiment:
        experiment.tell(experiment.ask(2).ids[0], 1.0)
        ledger: Any = experiment._ledger
        with ledger.store.writing() as session:
            session.raw.execute("DELETE FROM bestarm_assignments WHERE number = 0")
        with pytest.raises(DamagedStoreError, match="without their assignments"):
            experiment.tell(0, 1.0)


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
        with pytest.raises(StoreUnavailableError, match="rolled back"):
            fail_and_go_on(experiment._ledger)
        assert experiment.tell(number, 1.0).recorded


def fail_and_go_on(ledger: Any) -> None:
    with ledger.writing() as tx, suppress(psycopg.Error):
        tx._session.raw.execute("SELECT 1 / 0")


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 200, 1000])
def test_rows_of_all_numbers_are_added_in_few_statements(sqlite_url: str, count: int) -> None:
    """After each statement other threads go first, and each of them may compute for a while."""
    with begin(sqlite_url) as experiment:
        experiment.ask(1)
        ledger: Any = experiment._ledger
        said: list[str] = []
        for session in ledger.store._pool._idle:
            session.raw.set_trace_callback(said.append)
        ids = experiment.ask(count).ids
        assert 0 < sum("bestarm_assignments" in each for each in said) <= count // 64 + 6
        experiment.tell_many({number: number / count for number in ids[::2]})
        repeated = experiment.tell_many({number: number / count for number in ids})
        assert (repeated.recorded, repeated.repeated) == (count // 2, (count + 1) // 2)
        assert told(experiment) == {number: number / count for number in ids}
        assert experiment.verify().sound
