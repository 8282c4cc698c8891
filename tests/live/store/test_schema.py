"""A new database is made whole or not at all; one of another version is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, MetaData, Table, create_engine, inspect, text
from workers_started import HANG_TIMEOUT, processes
from workers_store import create_with_others, prepare_and_die, run_processes

from bestarm import Problem
from bestarm.errors import StoreVersionError
from bestarm.live import Experiment
from bestarm.live.store import schema
from bestarm.live.store.schema import VERSION

Tables = dict[str, list[dict[str, Any]]]


def engine_of(url: str) -> Engine:
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def tables(url: str) -> Tables:
    """All there is, column by column."""
    engine, there = engine_of(url), MetaData()
    with engine.connect() as connection:
        there.reflect(connection)
        found = {
            table.name: sorted(
                (dict(row) for row in connection.execute(table.select()).mappings()), key=str
            )
            for table in there.sorted_tables
        }
    engine.dispose()
    return found


def test_several_processes_make_the_tables_at_once(store_url: str) -> None:
    start = processes.Barrier(6)
    run_processes(create_with_others, [(store_url, f"offer {n}", start) for n in range(6)])
    assert differences(store_url) == []
    assert len(Experiment.list(store_url)) == 6


def test_whoever_is_killed_while_the_tables_are_made_leaves_none(store_url: str) -> None:
    kills = 0
    while True:
        process = processes.Process(target=prepare_and_die, args=(store_url, kills + 1))
        process.start()
        process.join(HANG_TIMEOUT)
        if process.exitcode == 0:
            break
        assert process.exitcode == -9
        assert tables(store_url) == {}
        kills += 1
    assert kills > 5
    assert differences(store_url) == []
    assert tables(store_url)[schema.version.name] == [{"version_num": VERSION}]


@pytest.mark.parametrize("version", ["0005", "9999"], ids=["older", "newer"])
def test_a_store_of_another_version_is_left_alone(store_url: str, version: str) -> None:
    problem = Problem(np.eye(3))
    with Experiment.create(store_url, "offer", problem, seed=0) as experiment:
        experiment.tell(experiment.ask(3).ids[0], 0.5)
    engine = engine_of(store_url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {schema.version.name} SET version_num = '{version}'"))
    engine.dispose()
    before = tables(store_url)
    for call in (
        lambda: Experiment.open(store_url, "offer"),
        lambda: Experiment.create(store_url, "other", problem, seed=0),
        lambda: Experiment.list(store_url),
    ):
        with pytest.raises(
            StoreVersionError, match=f"version {version}; .* version {VERSION}"
        ) as caught:
            call()
        assert caught.value.remedy
    assert tables(store_url) == before


def test_a_version_table_without_a_version_is_refused(store_url: str) -> None:
    Experiment.create(store_url, "offer", Problem(np.eye(3)), seed=0).close()
    engine = engine_of(store_url)
    with engine.begin() as connection:
        connection.execute(schema.version.delete())
    engine.dispose()
    with pytest.raises(StoreVersionError, match="version unknown"):
        Experiment.open(store_url, "offer")


def differences(url: str) -> list[object]:
    """What the tables lack, or have too much, of what is declared."""
    engine, there = engine_of(url), MetaData()
    with engine.connect() as connection:
        there.reflect(connection)
        found: list[object] = list(there.tables.keys() ^ schema.metadata.tables.keys())
        for name in there.tables.keys() & schema.metadata.tables.keys():
            declared = schema.metadata.tables[name]
            if shape(there.tables[name]) != shape(declared):
                found.append(name)
            if engine.dialect.name == "sqlite":
                options = inspect(connection).get_table_options(name)
                wanted = declared.dialect_options["sqlite"]
                rowid, strict = wanted["with_rowid"], wanted["strict"]
                kept = options.get("sqlite_with_rowid", True), options.get("sqlite_strict", False)
                if kept != (rowid, strict):
                    found.append((name, options))
    engine.dispose()
    return found


def shape(table: Table) -> object:
    columns = [(each.name, each.nullable, each.primary_key) for each in table.columns]
    indexes = {(each.name, each.unique, tuple(each.columns.keys())) for each in table.indexes}
    return columns, indexes
