"""Every connection of ours asks the database for durability, whatever its defaults are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from databases import name_of, read_on_begin, run_sql, wait_until
from postgres import Server
from recorded import told
from workers_store import begin

from bestarm import Experiment
from bestarm.cli.database_checks import check_database
from bestarm.live.store import Store
from bestarm.server.tokens import Role, create_token, list_tokens, revoke_token


def use_everything(url: str) -> None:
    """Tables made, an experiment begun and used, tokens, and the doctor."""
    with begin(url) as experiment:
        ids = experiment.ask(3).ids
        experiment.tell(ids[0], 0.5)
        experiment.fail(ids[1])
        experiment.status()
        experiment.verify()
        experiment.pause()
    Experiment.list(url)
    store = Store(url)
    create_token(store, "me", Role.MANAGE)
    check_database(url)
    revoke_token(store, list_tokens(store)[0].id)
    store.close()


@contextmanager
def server_setting(url: str, name: str, value: str) -> Iterator[None]:
    """A setting of the whole server, until the block ends."""
    try:
        run_sql(url, f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")
        wait_until(lambda: run_sql(url, f"SHOW {name}") == [(value,)])
        yield
    finally:
        run_sql(url, f"ALTER SYSTEM RESET {name}", "SELECT pg_reload_conf()")


@pytest.mark.parametrize(
    ("setting", "used"),
    [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("remote_apply", "remote_apply"),  # is stricter, as it waits for standbys too
    ],
)
def test_every_connection_asks_postgresql_for_durability(
    postgres_url: str, setting: str, used: str
) -> None:
    name = name_of(postgres_url)
    run_sql(postgres_url, f"ALTER DATABASE {name} SET synchronous_commit = {setting}")
    with read_on_begin("SHOW synchronous_commit") as seen:
        use_everything(postgres_url)
    assert len(seen) > 10
    assert set(seen) == {used}


def test_a_role_and_a_url_cannot_switch_durability_off(postgres_url: str) -> None:
    name = name_of(postgres_url)
    run_sql(postgres_url, f"ALTER ROLE postgres IN DATABASE {name} SET synchronous_commit = off")
    with read_on_begin("SHOW synchronous_commit") as seen:
        Experiment.list(f"{postgres_url}&options=-csynchronous_commit%3Doff")
        begin(postgres_url).close()
    assert set(seen) == {"on"}


def test_a_setting_of_the_server_that_changes_meanwhile_has_no_effect(postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        experiment.ask(2)
        with (
            server_setting(postgres_url, "synchronous_commit", "off"),
            read_on_begin("SHOW synchronous_commit") as seen,
        ):
            experiment.tell(0, 0.5)
    assert set(seen) == {"on"}


def test_no_acknowledged_outcome_is_lost_when_the_server_crashes(
    postgres: Server, postgres_url: str
) -> None:
    """The server's writer comes by every two seconds: what nobody waits for is not on disk yet."""
    name = name_of(postgres_url)
    run_sql(postgres_url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    with server_setting(postgres_url, "wal_writer_delay", "2s"):
        with begin(postgres_url) as experiment:
            ids = [experiment.ask().ids[0] for _ in range(20)]
            for number in ids:
                experiment.tell(number, number / 100)
            postgres.stop(at_once=True)
            postgres.start()
        with Experiment.open(postgres_url, "offer") as experiment:
            assert told(experiment) == {number: number / 100 for number in ids}
            assert experiment.ask().ids[0] == 20
            assert experiment.verify().sound


def test_a_server_without_fsync_is_noticed(postgres_url: str) -> None:
    with server_setting(postgres_url, "fsync", "off"):
        found = {check.name: check for check in check_database(postgres_url)}["durability"]
    assert found.level == "alarm"
    assert "fsync is off" in found.finding


def test_every_connection_has_sqlite_wait_for_the_disk(sqlite_url: str) -> None:
    with read_on_begin("PRAGMA synchronous") as seen:
        use_everything(sqlite_url)
    assert len(seen) > 10
    assert set(seen) == {2}  # FULL
