"""Experiments in a database: read in pieces, found by name, and as quick to use when large."""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from databases import run_sql, watch_statements
from sqlalchemy import Engine, event
from typer.testing import CliRunner

from bestarm import Experiment, Problem
from bestarm.cli.app import app
from bestarm.errors import (
    DamagedStoreError,
    ExperimentExistsError,
    InvalidInputError,
    UnknownExperimentError,
)
from bestarm.live.store import Store, listing
from bestarm.live.store import ledger as sql_ledger
from bestarm.live.store.rows import Request, UnitKey

PROBLEM = Problem(np.eye(2), source_labels=["tea", "coffee"])
COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "café 한") for form in ("NFC", "NFD"))


def create(url: str, name: str = "drinks", **settings: Any) -> Experiment:
    settings = {"policy_options": {"bounds": [0, 1]}, "seed": 0, **settings}
    return Experiment.create(url, name, PROBLEM, **settings)


@pytest.fixture
def drinks(sqlite_url: str) -> str:
    """The URL of a file with an experiment of 90 outcomes."""
    with create(sqlite_url) as experiment:
        for _ in range(3):
            experiment.tell_many({a.id: 0.5 for a in experiment.ask(30)})
    return sqlite_url


def edit(url: str, statement: str) -> None:
    """Change a SQLite file, as no bestarm would."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(statement)


# --- Pieces --------------------------------------------------------------------------------------


def test_pages_hold_all_there_is(drinks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Experiment.open(drinks, "drinks") as experiment:
        whole = experiment.events()
        assert len(whole) > 4
        for size in (1, 2, len(whole)):
            monkeypatch.setattr(sql_ledger, "_PAGE", size)
            assert experiment.events() == whole
            assert experiment.events(3) == whole[3:]


def test_rows_come_with_their_own_outcomes(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever pieces, where outcomes and losses are of some assignments alone."""
    with create(store_url, policy_options={"bounds": [0, 100]}) as experiment:
        experiment.ask(30)
        experiment.tell_many({number: float(number) for number in range(0, 30, 3)})
        experiment.fail_many([29, 1, 3 + 4])
        for size in (1, 4, 30, 1000):
            monkeypatch.setattr(sql_ledger, "_PIECE", size)
            with experiment.read() as snapshot:
                rows = np.concatenate(list(snapshot.rows(0, 30)))
            assert rows["id"].tolist() == list(range(30))
            told = ~np.isnan(rows["reward"])
            assert rows["reward"][told].tolist() == rows["id"][told].tolist() == [*range(0, 30, 3)]
            assert rows["id"][~np.isnan(rows["lost"])].tolist() == [1, 7, 29]
            assert np.isnan(rows["forecast"]).all()
            assert (np.isnan(rows["told"]) == ~told).all()


def test_progress_is_reported_piece_by_piece(
    drinks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_ledger, "_PIECE", 40)
    with Experiment.open(drinks, "drinks") as experiment:
        counts: list[tuple[int, int]] = []
        experiment.verify(progress=lambda *count: counts.append(count))
        assert counts == [(40, 90), (80, 90), (90, 90)]
        counts.clear()
        experiment.export(tmp_path / "out.csv", progress=lambda *count: counts.append(count))
        assert counts == [(0, 90), (40, 90), (80, 90), (90, 90)]


# --- Damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE bestarm_documents SET document = '{}'",
        "DELETE FROM bestarm_documents",
        "UPDATE bestarm_documents SET document = substr(document, 2)",
        "UPDATE bestarm_summaries SET summary = '{\"counts\": 3}'",
        "UPDATE bestarm_summaries SET summary = 'x'",
        "UPDATE bestarm_plans SET plan = 'null' WHERE phase = 1",
        "DELETE FROM bestarm_plans WHERE phase = 1",
    ],
)
def test_damage_is_one_sentence(drinks: str, damage: str) -> None:
    edit(drinks, damage)
    with pytest.raises(DamagedStoreError, match="cannot be read"):
        Experiment.open(drinks, "drinks").recommendation()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE bestarm_experiments SET planned = 'no'",
        "UPDATE bestarm_summaries SET late = 'no'",
        "UPDATE bestarm_assignments SET arm = 'tea' WHERE number = 7",
        "UPDATE bestarm_assignments SET round = 1.5 WHERE number = 7",
        "UPDATE bestarm_assignments SET forecast = x'00' WHERE number = 7",
        "UPDATE bestarm_outcomes SET reward = CAST(x'ff' AS TEXT) WHERE number = 7",
        "INSERT INTO bestarm_losses VALUES (1, 7, 1, 0, 'gone', 'yesterday')",
    ],
)
def test_a_column_takes_no_value_of_another_type(drinks: str, damage: str) -> None:
    """Whichever program writes: SQLite's tables are strict, as PostgreSQL's are."""
    with pytest.raises(sqlite3.IntegrityError, match="cannot store"):
        edit(drinks, damage)
    with Experiment.open(drinks, "drinks") as experiment:
        assert experiment.verify().sound


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("column", ["assignments SET forecast", "outcomes SET reward"])
def test_what_is_infinite_is_found(drinks: str, column: str) -> None:
    edit(drinks, f"UPDATE bestarm_{column} = 9e999 WHERE number = 7")
    with Experiment.open(drinks, "drinks") as experiment:
        findings = experiment.verify().findings
    assert any("a forecast" in each for each in findings)
    assert any("add up to" in each for each in findings)


def test_a_phase_is_not_closed_over_a_missing_assignment(drinks: str) -> None:
    with Experiment.open(drinks, "drinks") as experiment:
        batch = experiment.ask(experiment.status().remaining)
        edit(drinks, f"DELETE FROM bestarm_assignments WHERE number = {batch.ids[0]}")
        with pytest.raises(DamagedStoreError, match="missing"):
            experiment.tell_many({a.id: 0.5 for a in batch})


def test_an_outcome_without_its_assignment_is_found(store_url: str) -> None:
    with create(store_url) as experiment:
        experiment.tell(experiment.ask(2).ids[0], 1.0)
        ledger: Any = experiment.engine.ledger
        with ledger.store.transaction() as session:
            session.raw.execute("DELETE FROM bestarm_assignments WHERE number = 0")
        assert not experiment.verify().sound


# --- Lists and names -----------------------------------------------------------------------------


def test_a_list_is_read_in_parts(store_url: str) -> None:
    names = ["b", "a", "ü", "c", "d"]
    for name in names:
        create(store_url, name).close()
    whole = Experiment.list(store_url)
    assert [each.name for each in whole] == names  # oldest first
    assert Experiment.list(store_url, limit=2) == whole[:2]
    assert Experiment.list(store_url, limit=2, after="a") == whole[2:4]
    assert Experiment.list(store_url, after="ü") == whole[3:]
    assert Experiment.list(store_url, after="u\u0308") == whole[3:]
    assert Experiment.list(store_url, limit=9, after="d") == []
    with pytest.raises(UnknownExperimentError, match="no experiment 'x' to continue after"):
        Experiment.list(store_url, after="x")
    for name in ("a\0", "", "x" * 201):
        with pytest.raises(InvalidInputError, match="`after` must be a text of 1 to 200"):
            Experiment.list(store_url, after=name)
    with pytest.raises(InvalidInputError, match="`limit` must be a whole number"):
        Experiment.list(store_url, limit=0)


@pytest.mark.parametrize("search", ["äpf", "ÄPF", "Äpfel", "ΣΟΦ", "сбор"])
def test_a_file_is_searched_in_either_case_of_any_script(sqlite_url: str, search: str) -> None:
    with closing(Store(sqlite_url)) as store:
        for name in ("Äpfel σοφία СБОР", "Apfel"):
            Experiment.create(store, name, ["a", "b"], bounds=(0, 1))
        found, total = listing.search(store, search, first=0, limit=10)
    assert ([each.name for each in found], total) == (["Äpfel σοφία СБОР"], 1)


def test_a_list_says_what_has_changed(store_url: str) -> None:
    with create(store_url) as experiment:
        revisions = [experiment.revision]
        for do in (
            lambda: experiment.ask(3),
            lambda: experiment.tell(0, 1.0),
            lambda: experiment.fail(1),
            experiment.pause,
        ):
            do()
            (listed,) = Experiment.list(store_url)
            assert listed.revision == experiment.revision
            revisions.append(listed.revision)
    assert len(set(revisions)) == 5


@pytest.mark.parametrize("name", [COMPOSED, DECOMPOSED], ids=["composed", "decomposed"])
def test_two_encodings_of_a_name_are_one_experiment(store_url: str, name: str) -> None:
    assert COMPOSED != DECOMPOSED
    with create(store_url, name) as made:
        made.ask(3)
        assert made.name == COMPOSED
        assert made.verify().sound
    for encoding in (COMPOSED, DECOMPOSED):
        with pytest.raises(ExperimentExistsError, match="already"):
            create(store_url, encoding)
        with Experiment.open(store_url, encoding) as opened:
            assert opened.name == COMPOSED
            assert opened.status().pulls == 3
            assert opened.verify().sound
        result = CliRunner().invoke(app, ["experiment", "status", encoding, "--store", store_url])
        assert result.exit_code == 0, result.output
    assert [each.name for each in Experiment.list(store_url)] == [COMPOSED]


def test_names_and_texts_are_kept_whatever_the_encoding(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with create(postgres_url, "Größe") as experiment:
        ids = experiment.ask(1, request_id="été").ids
        assert experiment.ask(1, request_id="été").ids == ids
        experiment.fail(ids[0], "müde")
    monkeypatch.delenv("PGCLIENTENCODING")
    assert [each.name for each in Experiment.list(postgres_url)] == ["Größe"]
    rows = run_sql(postgres_url, "SELECT name, reason FROM bestarm_requests, bestarm_losses")
    assert rows == [("été", "müde")]


@pytest.mark.parametrize("name", [" a", "a ", "a\u00a0", "a\u200b", "a\u2003", "a\u3000"])
def test_invisible_spaces_are_refused(sqlite_url: str, name: str) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        create(sqlite_url, name)
    create(sqlite_url, "a").close()
    with pytest.raises(InvalidInputError):
        Experiment.open(sqlite_url, name)


def test_letters_that_only_look_alike_are_two_names(sqlite_url: str) -> None:
    create(sqlite_url, "\N{CYRILLIC CAPITAL LETTER A}").close()
    with pytest.raises(UnknownExperimentError):
        Experiment.open(sqlite_url, "A")


# --- Growth --------------------------------------------------------------------------------------


class Work:
    """What a database was asked to do: statements, and rows or SQLite's own steps."""

    def __init__(self) -> None:
        self.statements = self.steps = 0

    def on_connect(self, connection: Any, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_progress_handler(self.on_step, 1)

    def on_step(self) -> None:
        self.steps += 1

    def on_statement(self) -> None:
        self.statements += 1


@contextmanager
def counted() -> Iterator[Work]:
    work = Work()
    execute = psycopg.Cursor.execute

    def counting(self: psycopg.Cursor[Any], *arguments: Any, **settings: Any) -> Any:
        cursor = execute(self, *arguments, **settings)
        work.steps += max(0, self.rowcount)
        return cursor

    event.listen(Engine, "connect", work.on_connect)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", counting)
        end = watch_statements(work.on_statement)
        try:
            yield work
        finally:
            end()
            event.remove(Engine, "connect", work.on_connect)


CALLS: dict[str, Callable[[Experiment], object]] = {
    "status": lambda experiment: experiment.status(),
    "recommendation": lambda experiment: experiment.recommendation(),
    "ask": lambda experiment: experiment.ask(1),
    "tell": lambda experiment: experiment.tell(0, 0.5),
}


def build(url: str, outcomes: int) -> int:
    """An experiment of so many outcomes; returns how many summaries its policy was told."""
    with create(url, f"{outcomes}") as experiment:
        for _ in range(10):
            ids = experiment.ask(outcomes // 10).ids
            experiment.tell_many(dict.fromkeys(ids, 0.5))
        assert experiment.status().pulls == outcomes
        return sum(each.kind == "closed" for each in experiment.events())


def test_the_work_of_a_call_does_not_grow_with_the_outcomes(store_url: str) -> None:
    few, many = 500, 5_000
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
    for before in (100, 2_000):
        with counted() as work, create(store_url, f"{before}") as experiment:
            ids = np.asarray(experiment.ask(before + 50).ids)
            ledger: Any = experiment.engine.ledger
            with ledger.transaction() as tx:
                tx.add_deferrals(ids)
                tx.settle_deferrals(ids[:before], summary=0)
            experiment.tell(ids[-1], 0.5)
            with ledger.snapshot() as tx:
                start = work.steps + rows_visited(tx.session.raw)
                assert tx.arrivals().tolist() == [ids[-1]]
                visited.append(work.steps + rows_visited(tx.session.raw) - start)
            with ledger.transaction() as tx:
                start = work.steps + rows_visited(tx.session.raw)
                tx.settle_deferrals(ids[-1:], summary=1)
                settled.append(work.steps + rows_visited(tx.session.raw) - start)
    assert 0 < visited[1] <= visited[0] + 20
    assert 0 < settled[1] <= settled[0] + 100


def rows_visited(connection: Any) -> int:
    """The rows that PostgreSQL has looked at, whether it returned them or not."""
    if isinstance(connection, sqlite3.Connection):
        return 0
    visited = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))"
    found = connection.execute(f"{visited} FROM pg_stat_xact_user_tables").fetchone()
    return int(found[0])


def test_rows_of_new_tables_are_read_without_a_look_at_all_of_them_for_each(
    postgres_url: str,
) -> None:
    """PostgreSQL has no statistics of new tables, and joined them by comparing all pairs."""
    with create(postgres_url) as experiment:
        ids = experiment.ask(2_000).ids
        experiment.tell_many(dict.fromkeys(ids, 0.5))
        ledger: Any = experiment.engine.ledger
        with ledger.snapshot() as snapshot:
            start = rows_visited(snapshot.session.raw)
            assert sum(len(rows) for rows in snapshot.rows(0, 2_000)) == 2_000
            assert rows_visited(snapshot.session.raw) - start < 10_000


def test_statistics_older_than_an_experiment_make_no_call_look_at_all_pairs(
    postgres_url: str,
) -> None:
    """With statistics of other experiments alone PostgreSQL takes the new one for empty."""
    create(postgres_url, "older").close()
    many = "FROM generate_series(1, 20000) number"
    run_sql(
        postgres_url,
        f"INSERT INTO bestarm_assignments SELECT 1, number, number, 1, 0, 0.5, 0 {many}",
        f"INSERT INTO bestarm_outcomes SELECT 1, number, 0.5, 0, 0 {many}",
        f"INSERT INTO bestarm_losses SELECT 1, number, 1, number, 'failed', 0 {many}",
        f"INSERT INTO bestarm_deferrals SELECT 1, number, 0 {many}",
        f"INSERT INTO bestarm_requests SELECT 1, 'request ' || number, 1, number, 1, 1 {many}",
        f"INSERT INTO bestarm_units SELECT 1, number, number, 1, '', '', number, '' {many}",
        "VACUUM ANALYZE",
    )
    units = [f"unit {number}" for number in range(1_000)]
    with create(postgres_url) as experiment:
        ids = experiment.ask(1_000, unit=units).ids
        experiment.tell_many(dict.fromkeys(ids[:800], 0.5))
        ledger: Any = experiment.engine.ledger
        with ledger.transaction() as tx:
            tx.add_losses(ids[800:900], reason="failed", at=0.0)
            tx.head.losses = 100
            tx.add(*(Request(f"request {number}", 1, number, 1, 1) for number in range(1_000)))
            keys = [UnitKey(unit, "") for unit in units[:100]]
            for read, found, most in (
                (lambda: tx.outstanding(0, 1_000), ids[900:], 3_000),
                (lambda: [tx.first_outstanding(0, 1_000)], ids[900:901], 3_000),
                (tx.arrivals, ids[800:900], 500),
                (lambda: tx.lost_arms(1, 0, 100), tx.rows_of(np.array(ids[800:900]))["arm"], 500),
                (lambda: [tx.request("request 7").number], [7], 10),
                (lambda: tx.units_named(keys), keys, 200),
            ):
                start = rows_visited(tx.session.raw)
                assert sorted(read()) == sorted(found)
                assert rows_visited(tx.session.raw) - start <= most
