"""A store made by an older version is brought up to date, whole; one from a newer is left alone.

The asset `store_0001.db` was written by the first version. It is never changed: make another for
another version.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import workers_migrations
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, create_engine, inspect, text
from workers_started import PATIENCE, processes

from bestarm import Problem
from bestarm.errors import StoreVersionError
from bestarm.live import Experiment
from bestarm.live.store.sql import schema
from bestarm.live.store.sql.database import VERSION, VERSIONS

OLD = Path(__file__).parent / "assets" / "store_0001.db"
Tables = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=["sqlite", "postgres"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The asset, as it is or copied into PostgreSQL as the first version would have it there."""
    path = tmp_path / "old.db"
    shutil.copyfile(OLD, path)
    if request.param == "sqlite":
        yield f"sqlite:///{path}"
        return
    url = request.getfixturevalue("postgres_url")
    engine = engine_of(url)
    with engine.begin() as connection:
        upgrade(connection, "0001")
        there = MetaData()
        there.reflect(connection)
        for name, rows in tables(f"sqlite:///{path}").items():
            if name != schema.VERSION_TABLE:
                connection.execute(there.tables[name].insert(), rows)
    engine.dispose()
    yield url


def engine_of(url: str) -> Engine:
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def upgrade(connection: Connection, version: str) -> None:
    config = Config()
    config.set_main_option("script_location", "bestarm.live.store.sql:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def tables(url: str) -> Tables:
    """All there is, column by column, the parents of others first."""
    engine, there = engine_of(url), MetaData()
    with engine.connect() as connection:
        there.reflect(connection)
        found = {
            table.name: sorted(
                (dict(row) for row in connection.execute(table.select()).mappings()),
                key=lambda row: str(sorted(row.items(), key=lambda item: item[0])),
            )
            for table in there.sorted_tables
        }
    engine.dispose()
    return found


def check_unchanged(before: Tables, after: Tables) -> None:
    """Raise unless all that was there is there, and columns that are new say nothing."""
    assert before.keys() <= after.keys()
    assert not any(after[table] for table in after.keys() - before.keys())
    assert before.pop(schema.VERSION_TABLE) == [{"version_num": "0001"}]
    assert after.pop(schema.VERSION_TABLE) == [{"version_num": VERSION}]
    for name, rows in before.items():
        assert len(rows) == len(after[name])
        old = [{key: row[key] for key in rows[0]} for row in after[name]]
        assert sorted(map(str, old)) == sorted(map(str, rows))
        for row in after[name]:
            assert not any(row[key] for key in row.keys() - rows[0].keys())


def test_nothing_in_an_old_store_changes(old_url: str) -> None:
    before = tables(old_url)
    with Experiment.open(old_url, "steps") as experiment:
        check_unchanged(before, tables(old_url))
        tip = "cf96fc460d619af9d3c65e27afdfa9e12dcd93ef07a6b8a2ba6411170621a09e"
        assert experiment.events()[-1].hash == tip
        assert experiment.description == ""
        assert experiment.verify().sound
        status, said = experiment.status(), experiment.recommendation()
        assert (status.phase, status.pulls, status.outstanding, status.lost) == (54, 162, 1, 1)
        assert (said.label, said.pulls, said.final) == ("call", 159, False)
        for _ in range(3):
            batch = experiment.ask(40)
            experiment.tell_many([(each, 0.5) for each in batch.ids])
        assert experiment.verify().sound


def test_the_asset_is_of_the_first_version() -> None:
    assert tables(f"sqlite:///{OLD}")[schema.VERSION_TABLE] == [{"version_num": "0001"}]
    assert not list(OLD.parent.glob("*-wal"))


def test_several_processes_bring_it_up_to_date_at_once(old_url: str) -> None:
    before = tables(old_url)
    start = processes.Barrier(6)
    arguments = (old_url, "steps", start)
    running = [
        processes.Process(target=workers_migrations.opens_with_others, args=arguments)
        for _ in range(6)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join(PATIENCE)
        assert process.exitcode == 0
    check_unchanged(before, tables(old_url))


def test_whoever_is_killed_while_it_is_brought_up_to_date_can_be_followed(old_url: str) -> None:
    before = tables(old_url)
    kills = 0
    while True:
        arguments = (old_url, "steps", kills + 1)
        process = processes.Process(target=workers_migrations.opens_and_dies, args=arguments)
        process.start()
        process.join(PATIENCE)
        if process.exitcode == 0:
            break
        assert process.exitcode == -9
        kills += 1
    assert kills > 5
    check_unchanged(before, tables(old_url))
    with Experiment.open(old_url, "steps") as experiment:
        assert experiment.verify().sound


def test_a_store_of_a_newer_version_is_left_alone(store_url: str) -> None:
    problem = Problem(np.eye(3))
    with Experiment.create(store_url, "trial", problem, seed=0) as experiment:
        experiment.tell(experiment.ask(3).ids[0], 0.5)
    engine = engine_of(store_url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'"))
    engine.dispose()
    before = tables(store_url)
    for call in (
        lambda: Experiment.open(store_url, "trial"),
        lambda: Experiment.create(store_url, "other", problem, seed=0),
        lambda: Experiment.list(store_url),
    ):
        with pytest.raises(StoreVersionError, match="9999") as caught:
            call()
        assert caught.value.remedy
    assert tables(store_url) == before


def test_a_new_store_has_the_tables_that_are_declared(store_url: str) -> None:
    Experiment.create(store_url, "trial", Problem(np.eye(3)), seed=0).close()
    assert differences(store_url) == []


def test_an_old_store_gets_the_tables_that_are_declared(old_url: str) -> None:
    assert differences(old_url)
    Experiment.open(old_url, "steps").close()
    assert differences(old_url) == []


def differences(url: str) -> list[Any]:
    engine = engine_of(url)
    with engine.connect() as connection:
        options = {"version_table": schema.VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        found = compare_metadata(context, schema.metadata)
        if engine.dialect.name == "sqlite" and not found:
            for table in schema.metadata.tables.values():
                said = inspect(connection).get_table_options(table.name)
                if (
                    said.get("sqlite_with_rowid", True)
                    != table.dialect_options["sqlite"]["with_rowid"]
                ):
                    found.append((table.name, said))
    engine.dispose()
    return list(found)


def test_every_version_has_its_migration() -> None:
    config = Config()
    config.set_main_option("script_location", "bestarm.live.store.sql:migrations")
    steps = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(step.revision for step in steps)[::-1] == VERSIONS
