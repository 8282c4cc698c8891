"""Transactions on a PostgreSQL server: how many messages they take, and when one does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import psycopg
import pytest
from databases import end_connections, run_sql, wait_until
from kept import told
from psycopg.pq.abc import PGresult
from workers_faults import begin

from bestarm.errors import StoreUnavailableError
from bestarm.live import Experiment
from bestarm.live.store.sql import postgresql
from bestarm.live.store.sql.postgresql import PostgresSession

SHIFT = 3600.0  # seconds by which a clock is wrong
ONE = ["EXECUTE"]
TWO = ["BEGIN EXECUTE", "EXECUTE EXECUTE COMMIT"]


@pytest.fixture(autouse=True)
def _slow_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a call takes here, the moment is not over after it."""
    monkeypatch.setattr(postgresql, "_MOMENT", SHIFT / 2)


@contextmanager
def messages() -> Iterator[list[str]]:
    """The messages that are sent to the server."""
    sent: list[str] = []
    send = PostgresSession._send

    def noted(self: PostgresSession, *more: str) -> list[PGresult]:
        message = "; ".join((*self._waiting, *more))
        if message:
            sent.append(message)
        return send(self, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresSession, "_send", noted)
        yield sent


def words(sent: list[str]) -> list[str]:
    """The first word of each statement of each message, but for those that prepare others."""
    every = [[part.split()[0] for part in each.split("; ")] for each in sent]
    return [" ".join(each) for each in every if each != ["PREPARE"]]


def counted(experiment: Experiment) -> int:
    with experiment.read() as books:
        return books.head.outcomes


def test_who_writes_alone_sends_one_message(postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        first, *ids = experiment.ask(9).ids
        experiment.tell(first, 1.0)
        for number in ids[:4]:
            with messages() as sent:
                experiment.tell(number, 1.0)
            assert words(sent) == ONE
        with messages() as sent:
            experiment.tell_many(dict.fromkeys(ids[4:], 0.5))
            experiment.ask(3)
        assert words(sent) == ONE * 2
        known = dict.fromkeys([first, *ids[:4]], 1.0) | dict.fromkeys(ids[4:], 0.5)
        assert told(experiment) == known
        assert experiment.verify().sound


def test_who_meets_another_sends_two_messages_until_it_is_alone_again(postgres_url: str) -> None:
    with begin(postgres_url) as experiment, Experiment.open(postgres_url, "offer") as other:
        ids = list(experiment.ask(20).ids)
        experiment.tell(ids.pop(), 1.0)
        other.tell(ids.pop(), 1.0)
        counts = []
        for turn in (experiment, experiment, experiment, other, experiment, other, experiment):
            with messages() as sent:
                turn.tell(ids.pop(), 1.0)
            counts.append(len(words(sent)))
        # In vain and then again; a look whether it is alone; alone.
        assert counts[:3] == [3, 2, 1]
        assert all(count <= 3 for count in counts[3:])
        assert counts[-1] == 2
        assert len(told(experiment)) == counted(experiment) == 9
        assert experiment.verify().sound


def test_what_takes_more_than_a_statement_begins_after_all(postgres_url: str) -> None:
    with begin(postgres_url) as experiment, Experiment.open(postgres_url, "offer") as other:
        ids = list(experiment.ask(20).ids)
        for meet in (lambda: None, lambda: other.tell(ids.pop(), 1.0)):
            experiment.tell(number := ids.pop(), 1.0)
            meet()
            assert experiment.tell(number, 1.0).repeated  # is looked up
            meet()
            experiment.fail(ids.pop())
            meet()
            named = experiment.ask(2, request_id=str(number))
            meet()
            assert experiment.ask(2, request_id=str(number)).ids == named.ids
            meet()
            experiment.tell_many(dict.fromkeys(ids[:2], 0.5) | dict.fromkeys(named.ids, 0.5))
            del ids[:2]
        assert len(told(experiment)) == counted(experiment) == 15
        assert experiment.verify().sound


def test_what_goes_into_two_tables_begins_after_all(postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        ids = experiment.ask(3).ids
        experiment.stop()
        assert [experiment.tell(number, 1.0).late for number in ids] == [1, 1, 1]  # and logged
        assert experiment.verify().sound


def test_many_who_meet_lose_nothing(postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        ids = list(experiment.ask(120).ids)

        def tell(part: list[int]) -> None:
            with Experiment.open(postgres_url, "offer") as mine:
                for number in part:
                    assert mine.tell(number, number / 8).recorded

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(tell, [ids[start::4] for start in range(4)]))
        assert told(experiment) == {number: number / 8 for number in ids}
        assert counted(experiment) == len(ids)
        assert experiment.verify().sound


def shift(monkeypatch: pytest.MonkeyPatch, *clocks: str) -> None:
    """Set clocks of this machine forward."""
    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + SHIFT * ("monotonic" in clocks),
        time=lambda: time.time() + SHIFT * ("time" in clocks),
    )
    monkeypatch.setattr(postgresql, "time", clock)


@pytest.mark.parametrize("clock", ["monotonic", "time"])
def test_the_servers_clock_is_read_again_after_a_moment(
    postgres_url: str, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a machine sleeps one of its clocks may stand still."""
    with begin(postgres_url) as experiment:
        ids = list(experiment.ask(9).ids)
        experiment.tell(ids.pop(), 1.0)
        shift(monkeypatch, clock)
        with messages() as sent:
            experiment.tell(ids.pop(), 1.0)
            experiment.tell(ids.pop(), 1.0)
        assert words(sent) == [*TWO, *ONE]


def test_times_are_the_servers(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They never go back, and are never later than the server's clock says."""
    shift(monkeypatch, "monotonic", "time")
    with begin(postgres_url) as experiment:
        for number in experiment.ask(30).ids:
            experiment.tell(number, 1.0)
    rows = run_sql(postgres_url, "SELECT told FROM bestarm_outcomes ORDER BY number")
    (now,) = run_sql(postgres_url, "SELECT extract(epoch FROM clock_timestamp())::float")
    times = [at for (at,) in rows]
    assert times == sorted(times)
    assert now[0] - 60 < times[0]
    assert times[-1] <= now[0]


@pytest.mark.parametrize("call", ["ask", "tell"])
def test_whoever_loses_the_answer_is_told_so(
    postgres_url: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent may be on record: to do it again could give assignments to nobody."""
    with begin(postgres_url) as experiment:
        first, second, *_ = experiment.ask(9).ids
        experiment.tell(first, 1.0)
        send = PostgresSession._send

        def lose(self: PostgresSession, *more: str) -> list[PGresult]:
            found = send(self, *more)
            if more and more[0].startswith("EXECUTE"):
                self.raw.close()
                raise psycopg.OperationalError("the server closed the connection")
            return found

        monkeypatch.setattr(PostgresSession, "_send", lose)
        with pytest.raises(StoreUnavailableError):
            experiment.ask(3) if call == "ask" else experiment.tell(second, 1.0)
        monkeypatch.undo()
        assert experiment.status().given == (12 if call == "ask" else 9)
        assert len(told(experiment)) == (1 if call == "ask" else 2)
        assert experiment.verify().sound


def test_a_connection_that_has_ended_is_replaced_whatever_comes_first(postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        ids = list(experiment.ask(40).ids)
        for call in (
            lambda: experiment.tell(ids.pop(), 1.0),
            lambda: experiment.ask(1),
            lambda: experiment.ask(1, request_id="named"),
            lambda: experiment.tell_many({ids.pop(): 1.0 for _ in range(11)}),
            lambda: experiment.fail(ids.pop()),
            lambda: experiment.tell(ids.pop(), 1.0),  # which looks whether it is lost
        ):
            experiment.tell(ids.pop(), 1.0)
            experiment.tell(ids.pop(), 1.0)
            end_connections(postgres_url)
            call()
        assert counted(experiment) == len(told(experiment)) == 25
        assert experiment.verify().sound


def server_time(url: str) -> float:
    ((now,),) = run_sql(url, "SELECT extract(epoch FROM clock_timestamp())::float")
    return float(now)


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.mark.parametrize("name", [None, "named"])
def test_the_time_is_that_after_waiting_for_others(
    postgres_url: str, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease begins when an assignment is made, not when somebody began to wait for it."""
    moment = 0.5
    with begin(postgres_url) as experiment, ThreadPoolExecutor(1) as pool:
        experiment.tell(experiment.ask(1).ids[0], 1.0)
        experiment.tell(experiment.ask(1).ids[0], 1.0)
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT id FROM bestarm_experiments FOR UPDATE")
            asking = pool.submit(experiment.ask, 1, request_id=name)
            wait_until(lambda: run_sql(postgres_url, WAITING) == [(1,)])
            monkeypatch.setattr(postgresql, "_MOMENT", moment)
            began = server_time(postgres_url)
            wait_until(lambda: server_time(postgres_url) > began + 2 * moment)
            other.rollback()
        (number,) = asking.result().ids
        sql = f"SELECT asked FROM bestarm_assignments WHERE number = {number}"
        ((asked,),) = run_sql(postgres_url, sql)
        assert asked > began + moment


def test_who_is_interrupted_while_it_prepares_a_statement_can_do_it_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(postgres_url) as experiment:
        first, *ids = experiment.ask(4).ids
        experiment.tell(first, 1.0)
        send = PostgresSession._send

        def interrupt(self: PostgresSession, *more: str) -> list[PGresult]:
            found = send(self, *more)
            if more and more[0].startswith("PREPARE"):
                raise KeyboardInterrupt
            return found

        monkeypatch.setattr(PostgresSession, "_send", interrupt)
        with pytest.raises(KeyboardInterrupt):
            experiment.tell_many(dict.fromkeys(ids, 1.0))
        monkeypatch.undo()
        assert experiment.tell_many(dict.fromkeys(ids, 1.0)).recorded == 3
        assert experiment.ask(2, request_id="named").ids
        assert experiment.verify().sound
