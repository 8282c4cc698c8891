"""`bestarm doctor`: unsafe disks, settings and servers are told apart from safe ones."""

from __future__ import annotations

import json
import os
import sqlite3
from functools import partial
from pathlib import Path

import commands
import psycopg
import pytest
from databases import name_of, run_sql
from needed import need_found
from postgres import Server, find_pooler

from bestarm import Experiment, Problem
from bestarm.cli import database_checks
from bestarm.cli.database_checks import check_database
from bestarm.errors import InvalidInputError
from bestarm.live import Check
from bestarm.live.store import Store

run = partial(commands.run, "doctor", "--store")


def by_name(url: str) -> dict[str, Check]:
    return {check.name: check for check in check_database(url)}


def test_a_local_file_is_safe_and_nothing_is_left_behind(tmp_path: Path, sqlite_url: str) -> None:
    found = by_name(sqlite_url)
    assert list(found) == ["reachable", "tables"]  # of a file that is not there
    assert found["reachable"].level == "ok"
    path = tmp_path / "store.db"
    assert found["tables"].level == "warning"
    assert found["tables"].finding == f"The file {str(path)!r} does not exist."
    assert not list(tmp_path.iterdir())
    Experiment.create(sqlite_url, "drinks", Problem([[1.0], [2.0]]), seed=0).close()
    before = sorted(path.name for path in tmp_path.iterdir())
    found = by_name(sqlite_url)
    assert "the present one" in found["tables"].finding
    for name in ("durability", "content", "clock"):
        assert found[name].level == "ok"
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_file_without_a_write_ahead_log(sqlite_url: str, tmp_path: Path) -> None:
    Experiment.create(sqlite_url, "drinks", Problem([[1.0], [2.0]]), seed=0).close()
    assert by_name(sqlite_url)["durability"].level == "ok"
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    assert by_name(sqlite_url)["durability"].level == "alarm"


def test_a_clock_that_is_behind_what_is_on_record(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Experiment.create(store_url, "drinks", Problem([[1.0], [2.0]]), seed=0).close()
    assert by_name(store_url)["clock"].level == "ok"
    later = Store.now
    monkeypatch.setattr(Store, "now", lambda store: later(store) - 3600)
    check = by_name(store_url)["clock"]
    assert check.level == "warning"
    assert "3,6" in check.finding or "3,5" in check.finding


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database")
    (tmp_path / "folder.db").mkdir()
    for name, check in {
        "text.db": "tables",
        "folder.db": "reachable",
        "no/x.db": "reachable",
    }.items():
        found = list(by_name(f"sqlite:///{tmp_path}/{name}").values())
        assert [each.name for each in found if each.level == "alarm"] == [check]
        assert found[-1].name == check


def test_files_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    whole = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and whole(path, mode))
    assert "folder" in by_name(url)["reachable"].finding
    (tmp_path / "store.db").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: path == tmp_path and whole(path, mode))
    assert "read and written" in by_name(url)["reachable"].finding


def test_tables_of_other_versions(sqlite_url: str, tmp_path: Path) -> None:
    Experiment.create(sqlite_url, "drinks", Problem([[1.0], [2.0]]), seed=0).close()
    assert by_name(sqlite_url)["tables"].level == "ok"
    for version in ("0005", "9999"):
        connection = sqlite3.connect(tmp_path / "store.db")
        connection.execute(f"UPDATE bestarm_version SET version_num = '{version}'")
        connection.commit()
        connection.close()
        check = by_name(sqlite_url)["tables"]
        assert check.level == "alarm"
        assert version in check.finding


def test_a_damaged_file_is_an_alarm(sqlite_url: str, tmp_path: Path) -> None:
    Experiment.create(sqlite_url, "drinks", Problem([[1.0], [2.0]]), seed=0).close()
    content = bytearray((tmp_path / "store.db").read_bytes())
    content[100:4096] = b"\xff" * (4096 - 100)
    (tmp_path / "store.db").write_bytes(content)
    assert by_name(sqlite_url)["tables"].level == "alarm"


def test_damage_behind_tables_in_order_is_found(sqlite_url: str, tmp_path: Path) -> None:
    with Experiment.create(sqlite_url, "drinks", Problem([[1.0], [2.0]]), seed=0) as experiment:
        experiment.ask(2_000)
    file = tmp_path / "store.db"
    connection = sqlite3.connect(file)
    ((root,),) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'bestarm_assignments'"
    )
    connection.close()
    content = bytearray(file.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    file.write_bytes(content)
    found = by_name(sqlite_url)
    assert found["tables"].level == "ok"
    assert found["content"].level == "alarm"
    assert "damaged" in found["content"].finding
    assert "backup" in found["content"].action
    assert run(sqlite_url, code=1)[0].count("ALARM") == 1


def test_a_server_is_looked_at(postgres_url: str) -> None:
    found = by_name(postgres_url)
    assert list(found) == ["reachable", "tables", "durability"]
    assert {check.level for check in found.values()} == {"ok"}
    Experiment.create(postgres_url, "drinks", Problem([[1.0], [2.0]]), seed=0).close()
    assert list(by_name(postgres_url)) == [*found, "clock"]


def test_settings_of_a_database(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        for setting in ("synchronous_commit = off", "default_transaction_read_only = on"):
            connection.execute(f"ALTER DATABASE {name} SET {setting}".encode())
    found = by_name(postgres_url)
    assert found["durability"].level == "ok"  # our sessions wait for the disk all the same
    assert found["reachable"].level == "alarm"
    assert run(postgres_url, code=1)[0].count("ALARM") == 1


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
def test_durability(name: str) -> None:
    on = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
    assert database_checks._durability(on).level == "ok"
    assert name in database_checks._durability(on | {name: "off"}).finding


def test_a_database_of_no_encoding_works(postgres: Server) -> None:
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE no_encoding ENCODING 'SQL_ASCII' TEMPLATE template0 "
            "LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        url = postgres.url("no_encoding")
        try:
            found = by_name(url)
            problem = Problem([[1.0], [2.0]], source_labels=["thé", "☕"])
            Experiment.create(url, "naïve", problem, seed=0).close()
            with Experiment.open(url, "naïve") as experiment:
                assert experiment.problem.source_labels == ("thé", "☕")
                assert experiment.verify().sound
        finally:
            connection.execute("DROP DATABASE no_encoding WITH (FORCE)")
    assert {check.level for check in found.values()} == {"ok"}


@pytest.fixture
def pgbouncer() -> str:
    return need_found(find_pooler(), "PgBouncer", package="pgbouncer")


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_durability_holds_behind_a_pooler(
    postgres: Server, postgres_url: str, pgbouncer: str, mode: str
) -> None:
    name = name_of(postgres_url)
    run_sql(postgres_url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    with postgres.pooler(pgbouncer, name, mode=mode) as url:
        found = by_name(url)
    assert {check.level for check in found.values()} == {"ok"}


def test_a_pooler_without_transactions_is_an_alarm(
    postgres: Server, postgres_url: str, pgbouncer: str
) -> None:
    with postgres.pooler(pgbouncer, name_of(postgres_url), mode="statement") as url:
        (check,) = check_database(url)
    assert (check.name, check.level) == ("reachable", "alarm")
    assert "statement pooling mode" in check.finding


def test_rights_to_create() -> None:
    assert database_checks._may_write(read_only=False, create=False).level == "warning"


def test_a_server_that_is_not_there_is_an_alarm() -> None:
    (check,) = check_database("postgresql://nobody@127.0.0.1:1/none")
    assert (check.name, check.level) == ("reachable", "alarm")
    assert "127.0.0.1" in check.finding


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        check_database("nonsense")
    assert commands.refused("doctor", "--store", "nonsense").startswith("bestarm: `url`")


def test_the_command(tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = json.loads(run(sqlite_url, "--json")[0])
    assert report["level"] in {"ok", "warning"}
    assert [check["name"] for check in report["checks"]][-1] == "tables"
    assert "reachable" in run(sqlite_url)[0]
    report = json.loads(run(f"sqlite:///{tmp_path}/no/x.db", "--json", code=1)[0])
    assert report["level"] == "alarm"
    monkeypatch.setenv("BESTARM_STORE", f"sqlite:///{tmp_path}/no/x.db")
    commands.run("doctor", code=1)
