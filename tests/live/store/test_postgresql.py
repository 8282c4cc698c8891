"""Transactions on a PostgreSQL server: how many messages they take, and when one does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from databases import run_sql
from kept import told
from psycopg.pq.abc import PGresult
from workers_faults import begin

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
