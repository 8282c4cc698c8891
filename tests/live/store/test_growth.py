"""An experiment with many outcomes is opened, looked at and gone on with as one with few is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pytest
from databases import watch_statements
from sqlalchemy import Engine, event

from bestarm import Problem
from bestarm.live import Experiment

PROBLEM = Problem(np.eye(3), delta=0.05)


class Work:
    """What a database was asked to do: statements, and rows or SQLite's own steps."""

    def __init__(self) -> None:
        self.statements = self.steps = 0

    def connected(self, connection: Any, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_progress_handler(self._step, 1)

    def _step(self) -> None:
        self.steps += 1

    def running(self) -> None:
        self.statements += 1

    def ran(self, cursor: psycopg.Cursor[Any]) -> None:
        self.steps += max(0, cursor.rowcount)


@contextmanager
def counted() -> Iterator[Work]:
    work = Work()
    execute = psycopg.Cursor.execute

    def executed(self: psycopg.Cursor[Any], *arguments: Any, **settings: Any) -> Any:
        cursor = execute(self, *arguments, **settings)
        work.ran(self)
        return cursor

    event.listen(Engine, "connect", work.connected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", executed)
        end = watch_statements(work.running)
        try:
            yield work
        finally:
            end()
            event.remove(Engine, "connect", work.connected)


CALLS: dict[str, Callable[[Experiment], object]] = {
    "status": lambda experiment: experiment.status(),
    "recommendation": lambda experiment: experiment.recommendation(),
    "ask": lambda experiment: experiment.ask(1),
    "tell": lambda experiment: experiment.tell(0, 0.5),
}


def build(url: str, outcomes: int) -> int:
    """An experiment of so many outcomes; gives how many summaries its policy was told."""
    with Experiment.create(
        url, f"{outcomes}", PROBLEM, options={"bounds": [0, 1]}, seed=0
    ) as experiment:
        for _ in range(10):
            ids = experiment.ask(outcomes // 10).ids
            experiment.tell_many(dict.fromkeys(ids, 0.5))
        assert experiment.status().pulls == outcomes
        return sum(each.kind == "closed" for each in experiment.events())


def test_the_work_to_go_on_does_not_grow_with_the_outcomes(store_url: str) -> None:
    few, many = 1_000, 20_000
    more = build(store_url, many) - build(store_url, few)
    for name, call in CALLS.items():
        done: list[Work] = []
        for outcomes in (few, many):
            with counted() as work, Experiment.open(store_url, f"{outcomes}") as experiment:
                call(experiment)
            done.append(work)
        summaries = max(0, more) if name == "recommendation" else 0  # these are replayed
        assert done[1].statements <= done[0].statements + summaries
        assert done[1].steps <= 1.1 * done[0].steps + 20 + 100 * summaries


def test_late_outcomes_are_found_without_a_look_at_those_before(store_url: str) -> None:
    visited, settled = [], []
    for before in (100, 5_000):
        with (
            counted() as work,
            Experiment.create(store_url, f"{before}", PROBLEM, seed=0) as experiment,
        ):
            ids = np.asarray(experiment.ask(before + 50).ids)
            ledger: Any = experiment._ledger
            with ledger.transaction() as tx:
                tx.add_deferrals(ids)
                tx.settle_deferrals(ids[:before], summary=0)
            experiment.tell(ids[-1], 0.5)
            with ledger.snapshot() as tx:
                start = work.steps + _rows_visited(tx.session.raw)
                assert tx.arrivals().tolist() == [ids[-1]]
                visited.append(work.steps + _rows_visited(tx.session.raw) - start)
            with ledger.transaction() as tx:
                start = work.steps + _rows_visited(tx.session.raw)
                tx.settle_deferrals(ids[-1:], summary=1)
                settled.append(work.steps + _rows_visited(tx.session.raw) - start)
    assert 0 < visited[1] <= visited[0] + 20
    assert 0 < settled[1] <= settled[0] + 100


def _rows_visited(connection: Any) -> int:
    """The rows that PostgreSQL has looked at, whether it returned them or not."""
    if isinstance(connection, sqlite3.Connection):
        return 0
    visited = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))"
    found = connection.execute(f"{visited} FROM pg_stat_xact_user_tables").fetchone()
    return int(found[0])
