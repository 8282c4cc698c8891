"""Transactions: who waits and who is interrupted; a server's clock, settings and poolers."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from databases import end_connections, name_of, read_on_begin, run_sql, wait_until
from interrupting import Interrupting
from needed import need_found
from postgres import Server, find_pooler
from recorded import told
from sqlalchemy import make_url
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.pool import base as pool_base
from sqlalchemy.pool import impl as pool_impl
from sqlalchemy.util import queue as pool_queue
from workers_started import HANG_TIMEOUT
from workers_store import begin, other_writer

from bestarm.errors import ExperimentExistsError, StoreUnavailableError, UnknownExperimentError
from bestarm.live import Experiment
from bestarm.live.store import Store
from bestarm.live.store.session import PostgresSession


def test_who_is_interrupted_while_waiting_for_others_can_go_on(store_url: str) -> None:
    with begin(store_url) as experiment:
        ids = experiment.ask(3).ids
        with other_writer(store_url):
            later = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            later.start()
            with pytest.raises(KeyboardInterrupt):
                experiment.tell(ids[0], 1.0)
            later.join()
        assert experiment.tell(ids[0], 1.0).recorded
        assert told(experiment) == {0: 1.0}


def test_an_unknown_name_leaves_the_connections_of_a_shared_store(store_url: str) -> None:
    """Only a store that a call makes itself is closed when the call fails."""
    with closing(Store(store_url)) as store:
        begin(store)
        made: list[object] = []
        sa.event.listen(store._engine, "connect", lambda *connection: made.append(connection))
        for _ in range(3):
            with pytest.raises(UnknownExperimentError):
                Experiment.open(store, "unknown")
            with pytest.raises(UnknownExperimentError):
                Experiment.list(store, after="unknown")
            with pytest.raises(ExperimentExistsError):
                begin(store)
            assert Experiment.open(store, "offer").ask()
        assert not made


def test_who_is_interrupted_while_rolling_back_keeps_no_lock(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with begin(store_url) as experiment, Experiment.open(store_url, "offer") as other:
        ids = experiment.ask(3).ids
        with monkeypatch.context() as patch:
            patch.setattr(DefaultDialect, "do_rollback", interrupt)
            with pytest.raises(KeyboardInterrupt), experiment.engine.ledger.transaction():
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
            store: Any = experiment.engine.ledger.store
            assert store._engine.pool.checkedout() == 0, moment
        assert moment > 10
        assert experiment.tell(number, 1.0).repeated
    gc.collect()  # here, where the warning is expected


def test_counters_are_read_to_the_bit_whatever_the_server_says(postgres_url: str) -> None:
    number = 0.1 + 0.2
    name = name_of(postgres_url)
    run_sql(postgres_url, f"ALTER DATABASE {name} SET extra_float_digits = 0")
    with begin(postgres_url) as experiment:
        experiment.tell(experiment.ask(1).ids[0], number)
        with experiment.read() as snapshot:
            assert snapshot.head.highest == number


def test_writers_take_turns_whatever_the_server_says(postgres_url: str) -> None:
    name = name_of(postgres_url)
    strict = "default_transaction_isolation = 'repeatable read'"
    run_sql(postgres_url, f"ALTER DATABASE {name} SET {strict}")
    with begin(postgres_url) as one, Experiment.open(postgres_url, "offer") as other:
        ids = one.ask(2).ids
        with one.engine.ledger.transaction() as tx:
            later = threading.Thread(target=other.tell, args=(ids[0], 1.0))
            later.start()
            wait_until(lambda: bool(run_sql(postgres_url, _WAITING)))
            tx.head.last_time += 1
        later.join(HANG_TIMEOUT)
        assert told(one) == {0: 1.0}


_WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


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
            fail_and_go_on(experiment.engine.ledger)
        assert experiment.tell(number, 1.0).recorded


def fail_and_go_on(ledger: Any) -> None:
    with ledger.transaction() as tx, suppress(psycopg.Error):
        tx.session.raw.execute("SELECT 1 / 0")


# --- PostgreSQL: its clock, connections that end, and poolers before it --------------------------


def counted(experiment: Experiment) -> int:
    with experiment.read() as snapshot:
        return snapshot.head.outcomes


@pytest.mark.parametrize("call", ["ask", "tell"])
def test_a_call_whose_answer_is_lost_raises(
    postgres_url: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent may be on record: to do it again could give assignments to nobody."""
    with begin(postgres_url) as experiment:
        first, second, *_ = experiment.ask(9).ids
        experiment.tell(first, 1.0)
        commit = PostgresSession.commit

        def lose(self: PostgresSession) -> None:
            commit(self)
            self.raw.close()
            raise psycopg.OperationalError("the server closed the connection")

        monkeypatch.setattr(PostgresSession, "commit", lose)
        with pytest.raises(StoreUnavailableError):
            experiment.ask(3) if call == "ask" else experiment.tell(second, 1.0)
        monkeypatch.undo()
        assert experiment.status().given == (12 if call == "ask" else 9)
        assert len(told(experiment)) == (1 if call == "ask" else 2)
        assert experiment.verify().sound


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        ("missing database", 'database "nowhere" does not exist'),
        ("wrong password", "password authentication failed"),
        ("no password", ""),  # in the words of the system
        ("unknown user", 'role "stranger" does not exist'),
        ("no server", ""),
        ("no host", "no.host.invalid"),
    ],
)
def test_who_cannot_connect_is_told_what_to_check(
    postgres: Server, postgres_url: str, tmp_path: Path, wrong: str, cause: str
) -> None:
    """To make the same call again would not help."""
    name, url = name_of(postgres_url), make_url(postgres_url)
    with postgres.password_needed(name) as password:
        url = {
            "missing database": url.set(database="nowhere"),
            "wrong password": url.set(password="wrong"),
            "no password": url,
            "unknown user": url.set(username="stranger", database="postgres"),
            "no host": url.set(host="no.host.invalid", query={}),
            "no server": url.update_query_dict({"host": str(tmp_path)}),
        }[wrong]
        with pytest.raises(StoreUnavailableError) as caught:
            begin(url.render_as_string(hide_password=False))
        right = make_url(postgres_url).set(password=password)
        begin(right.render_as_string(hide_password=False)).close()
    error = caught.value
    assert error.message.startswith("Cannot connect to the database (")
    assert cause in error.message
    assert error.remedy == (
        "Check the host, the user, the password and the name of the database in its URL, and that "
        "the server runs. Nothing acknowledged is lost."
    )
    assert "wrong" not in str(error.value)


def test_a_connection_that_has_ended_is_replaced_whatever_comes_first(postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        ids = list(experiment.ask(40).ids)
        for call in (
            lambda: experiment.tell(ids.pop(), 1.0),
            lambda: experiment.ask(1),
            lambda: experiment.ask(1, request_id="named"),
            lambda: experiment.tell_many({ids.pop(): 1.0 for _ in range(11)}),
            lambda: experiment.fail(ids.pop()),
            experiment.status,
        ):
            experiment.tell(ids.pop(), 1.0)
            end_connections(postgres_url)
            call()
        assert counted(experiment) == len(told(experiment)) == 18
        assert experiment.verify().sound


def test_all_connections_of_the_pool_that_have_ended_are_replaced(postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        (number,) = experiment.ask(1).ids
        with experiment.read(), experiment.read(), experiment.read():
            pass
        end_connections(postgres_url)
        assert experiment.tell(number, 1.0).recorded
        assert experiment.status().answered == 1


def test_a_call_takes_few_round_trips(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a network, most of the time of a call is that of its round trips."""
    trips = list[object]()
    execute, pipeline = psycopg.Cursor.execute, psycopg.Connection.pipeline

    def executed(cursor: Any, *arguments: Any, **settings: Any) -> Any:
        if cursor.connection.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF:
            trips.append(arguments[0])
        return execute(cursor, *arguments, **settings)

    def together(connection: Any) -> Any:
        trips.append("several statements")
        return pipeline(connection)

    with begin(postgres_url) as experiment:
        first, second, *_ = experiment.ask(9).ids
        experiment.tell(first, 1.0)
        monkeypatch.setattr(psycopg.Cursor, "execute", executed)
        monkeypatch.setattr(psycopg.Connection, "pipeline", together)
        for call, most in (
            (lambda: experiment.tell(second, 1.0), 5),
            (lambda: experiment.ask(1), 4),
            (experiment.status, 3),
        ):
            trips.clear()
            call()
            assert len(trips) == most, trips


def server_time(url: str) -> float:
    ((now,),) = run_sql(url, "SELECT extract(epoch FROM clock_timestamp())::float")
    return float(now)


@pytest.mark.parametrize("name", [None, "named"])
def test_the_time_is_that_after_waiting_for_others(postgres_url: str, name: str | None) -> None:
    """A lease begins when an assignment is made, not when somebody began to wait for it."""
    with begin(postgres_url) as experiment, ThreadPoolExecutor(1) as pool:
        with other_writer(postgres_url):
            asking = pool.submit(experiment.ask, 1, request_id=name)
            wait_until(lambda: run_sql(postgres_url, _WAITING) == [(1,)])
            began = server_time(postgres_url)
            wait_until(lambda: server_time(postgres_url) > began + 0.3)
        (number,) = asking.result().ids
        sql = f"SELECT asked FROM bestarm_assignments WHERE number = {number}"
        ((asked,),) = run_sql(postgres_url, sql)
        assert asked > began + 0.15


@pytest.fixture
def pooled_url(postgres: Server, postgres_url: str) -> Iterator[str]:
    """The database behind a pooler that gives every transaction a session."""
    program = need_found(find_pooler(), "PgBouncer", package="pgbouncer")
    name = name_of(postgres_url)
    with postgres.pooler(program, name, mode="transaction", size=2) as url:
        yield url


def test_a_pooler_may_give_every_transaction_another_session(
    postgres_url: str, pooled_url: str
) -> None:
    """Outcomes are durable, whatever the database has set, and nothing rests on a session."""
    run_sql(postgres_url, f"ALTER DATABASE {name_of(postgres_url)} SET synchronous_commit = off")
    with (
        ThreadPoolExecutor(4) as pool,
        read_on_begin("SHOW synchronous_commit") as seen,
        begin(pooled_url) as experiment,
    ):
        ids = list(experiment.ask(40).ids)

        def tell(part: list[int]) -> None:
            with Experiment.open(pooled_url, "offer") as mine:
                for number in part:
                    mine.tell(number, 1.0)
                    mine.status()

        list(pool.map(tell, [ids[start::4] for start in range(4)]))
        assert told(experiment) == dict.fromkeys(ids, 1.0)
        assert experiment.verify().sound
    assert set(seen) == {"on"}


def test_a_lock_is_held_through_a_pooler(pooled_url: str) -> None:
    with begin(pooled_url) as one, Experiment.open(pooled_url, "offer") as other:
        stores: list[Any] = [each.engine.ledger.store for each in (one, other)]
        with stores[0].try_lock("evaluation") as held:
            assert held
            one.ask(1)
            with stores[1].try_lock("evaluation") as again:
                assert not again
        with stores[1].try_lock("evaluation") as free:
            assert free
