"""What is read back: the same in whatever pieces, and a sentence where it is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from bestarm import Experiment, Problem
from bestarm.errors import DamagedStoreError, InvalidInputError, UnknownExperimentError
from bestarm.live import summaries
from bestarm.live.events import as_data, canonical
from bestarm.live.store.contract import ANSWER, Rows
from bestarm.live.store.sql import ledger as sql_ledger
from bestarm.records import Plan

PROBLEM = Problem(np.eye(2), source_labels=["tea", "coffee"])


def pieces(size: int) -> Iterator[Rows]:
    """Answers, a few at a time."""
    rng = np.random.default_rng(0)
    answers = np.zeros(101, dtype=ANSWER)
    answers["arm"] = rng.integers(2, size=101)
    answers["reward"] = rng.normal(size=101) * 10.0 ** rng.integers(-8, 8, size=101)
    answers["reward"][::7] = np.nan
    answers["forecast"] = rng.normal(size=101) * 10.0 ** rng.integers(-8, 8, size=101)
    return (answers[start : start + size] for start in range(0, 101, size))


def test_totals_and_their_digest_do_not_depend_on_the_pieces_read() -> None:
    plan = Plan.randomised([0.5, 0.5], 90, phase=1, open=True)

    def total(size: int) -> tuple[object, ...]:
        pending = np.array([0, 6, 7, 100])
        summary, digest, plain = summaries.total(pieces(size), plan, first=0, pending=pending)
        assert summary.pending.sum() == len(pending)
        assert plain is not None
        return digest, canonical(as_data(summary)), canonical(as_data(plain))

    assert total(1) == total(7) == total(1000)


def make(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    with Experiment.create(
        url, "drinks", PROBLEM, options={"bounds": [0, 1]}, seed=0
    ) as experiment:
        for _ in range(3):
            experiment.tell_many({a.id: 0.5 for a in experiment.ask(30)})
    return url


def test_pages_hold_all_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Experiment.open(make(tmp_path), "drinks") as experiment:
        whole = experiment.events()
        assert len(whole) > 4
        for size in (1, 2, len(whole)):
            monkeypatch.setattr(sql_ledger, "_PAGE", size)
            assert experiment.events() == whole
            assert experiment.events(3) == whole[3:]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE bestarm_documents SET document = '{}'",
        "DELETE FROM bestarm_documents",
        "UPDATE bestarm_documents SET document = substr(document, 2)",
        "UPDATE bestarm_experiments SET planned = 'no'",
        "UPDATE bestarm_summaries SET late = 'no'",
        "UPDATE bestarm_summaries SET summary = '{\"counts\": 3}'",
        "UPDATE bestarm_summaries SET summary = 'x'",
        "UPDATE bestarm_plans SET plan = 'null' WHERE phase = 1",
        "DELETE FROM bestarm_plans WHERE phase = 1",
    ],
)
def test_damage_is_one_sentence(tmp_path: Path, damage: str) -> None:
    url = make(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute(damage)
    connection.close()
    with pytest.raises(DamagedStoreError, match="cannot be read"):
        Experiment.open(url, "drinks").recommendation()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE bestarm_assignments SET arm = 'tea' WHERE number = 7",
        "UPDATE bestarm_assignments SET round = 1.5 WHERE number = 7",
        "UPDATE bestarm_assignments SET forecast = x'00' WHERE number = 7",
        "UPDATE bestarm_outcomes SET reward = CAST(x'ff' AS TEXT) WHERE number = 7",
        "INSERT INTO bestarm_losses VALUES (1, 7, 1, 0, 'gone', 'yesterday')",
    ],
)
def test_what_is_not_a_number_is_one_sentence(tmp_path: Path, damage: str) -> None:
    url = make(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute(damage)
    connection.close()
    with Experiment.open(url, "drinks") as experiment:
        with pytest.raises(DamagedStoreError, match="cannot be read"):
            experiment.outcomes()
        assert any("cannot be read" in each for each in experiment.verify().findings)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("column", ["assignments SET forecast", "outcomes SET reward"])
def test_what_is_infinite_is_found(tmp_path: Path, column: str) -> None:
    url = make(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute(f"UPDATE bestarm_{column} = 9e999 WHERE number = 7")
    connection.close()
    with Experiment.open(url, "drinks") as experiment:
        found = experiment.verify().findings
    assert any("a forecast" in each for each in found)
    assert any("add up to" in each for each in found)


def test_rows_come_with_their_own_outcomes(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever pieces, where outcomes and losses are of some assignments alone."""
    with Experiment.create(store_url, "t", PROBLEM, options={"bounds": [0, 100]}) as experiment:
        experiment.ask(30)
        experiment.tell_many({number: float(number) for number in range(0, 30, 3)})
        experiment.fail_many([29, 1, 3 + 4])
        for size in (1, 4, 30, 1000):
            monkeypatch.setattr(sql_ledger, "_PIECE", size)
            with experiment.read() as books:
                rows = np.concatenate(list(books.rows(0, 30)))
            assert rows["id"].tolist() == list(range(30))
            told = ~np.isnan(rows["reward"])
            assert rows["reward"][told].tolist() == rows["id"][told].tolist() == [*range(0, 30, 3)]
            assert rows["id"][~np.isnan(rows["lost"])].tolist() == [1, 7, 29]
            assert np.isnan(rows["forecast"]).all()
            assert (np.isnan(rows["told"]) == ~told).all()


def test_who_waits_is_told_how_much_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_ledger, "_PIECE", 40)
    with Experiment.open(make(tmp_path), "drinks") as experiment:
        seen: list[tuple[int, int]] = []
        experiment.verify(progress=lambda *count: seen.append(count))
        assert seen == [(40, 90), (80, 90), (90, 90)]
        seen.clear()
        experiment.export(tmp_path / "out.csv", progress=lambda *count: seen.append(count))
        assert seen == [(0, 90), (40, 90), (80, 90), (90, 90)]


def test_a_phase_is_not_closed_over_a_missing_assignment(tmp_path: Path) -> None:
    url = make(tmp_path)
    with Experiment.open(url, "drinks") as experiment:
        left = experiment.status().remaining
        batch = experiment.ask(left)
        with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
            connection.execute("DELETE FROM bestarm_assignments WHERE number = ?", [batch.ids[0]])
        connection.close()
        with pytest.raises(DamagedStoreError, match="missing"):
            experiment.tell_many({a.id: 0.5 for a in batch})


def test_to_look_makes_no_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none.db"
    assert Experiment.list(url) == []
    with pytest.raises(UnknownExperimentError, match="holds none"):
        Experiment.open(url, "drinks")
    assert not list(tmp_path.iterdir())


def test_a_list_is_read_in_parts(store_url: str) -> None:
    names = ["b", "a", "ü", "c", "d"]
    for name in names:
        Experiment.create(store_url, name, Problem(np.eye(2))).close()
    whole = Experiment.list(store_url)
    assert [each.name for each in whole] == names  # oldest first
    assert Experiment.list(store_url, limit=2) == whole[:2]
    assert Experiment.list(store_url, limit=2, after="a") == whole[2:4]
    assert Experiment.list(store_url, after="ü") == whole[3:]
    assert Experiment.list(store_url, limit=9, after="d") == []
    with pytest.raises(UnknownExperimentError, match="no experiment 'x' to continue after"):
        Experiment.list(store_url, after="x")
    with pytest.raises(InvalidInputError, match="`limit` must be a whole number"):
        Experiment.list(store_url, limit=0)


def test_a_list_says_what_has_changed(store_url: str) -> None:
    with Experiment.create(store_url, "t", Problem(np.eye(2))) as experiment:
        seen = [experiment.revision]
        for do in (
            lambda: experiment.ask(3),
            lambda: experiment.tell(0, 1.0),
            lambda: experiment.fail(1),
            experiment.pause,
        ):
            do()
            (listed,) = Experiment.list(store_url)
            assert listed.revision == experiment.revision
            seen.append(listed.revision)
    assert len(set(seen)) == 5


def test_to_list_after_nothing_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnknownExperimentError, match="to continue after"):
        Experiment.list(f"sqlite:///{tmp_path}/none.db", after="x")
    assert not list(tmp_path.iterdir())
