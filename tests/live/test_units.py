"""Units: the same one gets the same assignment again, counts once, and can be erased."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import workers_units
from chained_policies import create_chained
from databases import run_sql
from people import Echo
from tampering import change, changed_copy, findings
from workers_started import HANG_TIMEOUT, processes

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.errors import (
    ConflictingOutcomeError,
    ConflictingRequestError,
    InvalidInputError,
    ReplayError,
    StoreUnavailableError,
    UnknownAssignmentError,
)
from bestarm.live import Batch
from bestarm.live.ask import Ask
from bestarm.live.store import ledger as sql_ledger
from bestarm.live.store import session as sql_session
from bestarm.live.store.rows import UnitCounts, UnitKey, UnitRecord
from bestarm.live.store.session import SqliteSession

PROBLEM = Problem(np.eye(3), delta=0.1, source_labels=["old", "new", "video"])
OPENING = 8  # statements that only read, before the first request
UNITS = 6

Create = Callable[..., Experiment]


@pytest.fixture
def create(sqlite_url: str) -> Iterator[Create]:
    made = []

    def begin(url: str = sqlite_url, name: str = "offer", **given: Any) -> Experiment:
        settings: dict[str, Any] = {"bounds": (-2, 3), "seed": 1, **given}
        made.append(Experiment.create(url, name, PROBLEM, **settings))
        return made[-1]

    yield begin
    for experiment in made:
        experiment.close()


def in_memory() -> Experiment:
    return Experiment(AnytimeBAI(PROBLEM, bounds=(-2, 3)), seed=1)


def reopen(experiment: Experiment, **given: Any) -> Experiment:
    assert experiment.place is not None
    return Experiment.open(experiment.place, experiment.name, **given)


def file_of(experiment: Experiment) -> Path:
    return Path(str(experiment.place).removeprefix("sqlite:///"))


# --- the same assignment ------------------------------------------------------------------------


def test_the_same_unit_gets_the_same_assignment_and_counts_once(
    create: Create, store_url: str
) -> None:
    experiment = create(store_url)
    first = experiment.ask(unit="visitor-81", covariates={"age": 31})[0]
    experiment.ask(5)
    with reopen(experiment) as other:
        other.ask(unit="visitor-82")
        assert other.ask(unit="visitor-81", covariates={"age": 99})[0] == first
        assert other.ask(1, unit="visitor-81")[0] == first
    experiment.tell(unit="visitor-81", reward=1)
    assert experiment.ask(unit="visitor-81")[0] == first
    assert (first.unit, first.decision_point, first.covariates) == ("visitor-81", None, {"age": 31})
    assert experiment.status().pulls == 7
    assert experiment.verify().sound


def test_the_same_unit_gets_the_same_assignment_in_memory() -> None:
    experiment = in_memory()
    first = experiment.ask(unit=["a", "b"])
    assert [each.unit for each in first] == ["a", "b"]
    again = experiment.ask(unit=["b", "c", "a"])
    assert [again[0], again[2]] == [first[1], first[0]]
    assert list(again.ids) == [1, 2, 0]
    assert experiment.status().pulls == 3
    assert hash(again[1]) == hash(experiment.ask(unit="c")[0])


TYPED = "cafe\u0301", "caf\u00e9"  # in two forms of Unicode


def test_a_unit_is_the_same_however_its_letters_were_typed(create: Create) -> None:
    """Some programs send é as one character, and others as an e with an accent."""
    experiment = create()
    one, other = TYPED
    (given,) = experiment.ask(unit=one, decision_point=one, covariates={one: one})
    (again,) = experiment.ask(unit=other, decision_point=other, covariates={other: other})
    assert (again.id, again.unit, again.decision_point) == (given.id, other, other)
    assert given.covariates == {other: other}
    with pytest.raises(InvalidInputError, match="is there twice"):
        experiment.ask(unit=[one, other])
    table = pd.DataFrame({"unit": [one], "decision_point": [other], "reward": [1]})
    assert experiment.tell_many(table).recorded == 1
    assert experiment.tell(unit=other, decision_point=one, reward=1).repeated == 1
    assert experiment.erase(one) == 1
    assert experiment.verify().sound


def test_a_unit_has_one_assignment_per_decision_point(create: Create) -> None:
    experiment = create()
    points = ["2026-11-18 09:00", 7, np.int64(8), None]
    asked = [experiment.ask(unit="person-7", decision_point=point)[0] for point in points]  # type: ignore[arg-type]
    assert [each.id for each in asked] == [0, 1, 2, 3]
    assert [each.decision_point for each in asked] == ["2026-11-18 09:00", "7", "8", None]
    assert experiment.ask(unit="person-7", decision_point="7")[0] == asked[1]
    several = experiment.ask(unit=["person-7", 8], decision_point=7)
    assert list(several.ids) == [1, 4]
    assert experiment.ask(unit="8", decision_point=7)[0] == several[1]
    each = experiment.ask(unit=["person-7", "person-7"], decision_point=[7, 9])
    assert [each.id for each in each] == [1, 5]


def test_a_round_is_about_one_unit(sqlite_url: str) -> None:
    with create_chained(sqlite_url, kind="blocks", sizes=[8, 8, 8]) as experiment:
        batch = experiment.ask(unit=["a", "b"], covariates=[{"age": 1}, {"age": 2}])
        size = len(batch) // 2
        assert size > 1
        assert [each.unit for each in batch] == ["a"] * size + ["b"] * size
        assert [each.covariates for each in batch] == [{"age": 1}] * size + [{"age": 2}] * size
        again = experiment.ask(unit=["b", "c"])
        assert list(again)[:size] == list(batch)[size:]
        assert len(list(again.blocks())) == 2
        with pytest.raises(InvalidInputError, match=r"'a' has \d assignments, one per option"):
            experiment.tell(unit="a", reward=0.5)
        assert experiment.assignments()["unit"].tolist()[: 2 * size] == ["a"] * size + ["b"] * size
        assert experiment.verify().sound


def test_where_a_plan_ends_the_first_units_get_theirs(sqlite_url: str) -> None:
    """The others get theirs later, and nobody gets two."""
    with create_chained(sqlite_url, kind="randomised", sizes=[3, 5]) as experiment:
        known = [{"n": n} for n in range(5)]
        batch = experiment.ask(unit=list("abcde"), covariates=known)
        assert [each.unit for each in batch] == ["a", "b", "c"]
        assert batch.waiting == 3
        more = experiment.ask(unit=list("edcba"), covariates=known[::-1])
        assert [each.unit for each in more] == ["c", "b", "a"]
        assert more.waiting == 3
        experiment.tell_many(dict.fromkeys(batch.ids, 0.5))
        rest = experiment.ask(unit=list("edcba"), covariates=known[::-1])
        assert [(each.unit, each.id, each.phase) for each in rest] == [
            ("e", 3, 2),
            ("d", 4, 2),
            ("c", 2, 1),
            ("b", 1, 1),
            ("a", 0, 1),
        ]
        assert [each.covariates for each in rest] == known[::-1]
        assert "ids 0 to 4" in str(rest)
        assert experiment.verify().sound


def test_a_paused_experiment_still_knows_its_units(create: Create) -> None:
    experiment = create()
    [first] = experiment.ask(unit="a")
    experiment.pause()
    assert list(experiment.ask(unit=["b", "a"])) == [first]
    assert experiment.status().pulls == 1


def test_nobody_gets_an_assignment_of_the_experiment_after_its_end(create: Create) -> None:
    experiment = create()
    experiment.ask(unit="a")
    experiment.stop()
    for name in ("a", "b"):
        assert experiment.ask(unit=name).finished
    assert experiment.status().pulls == 1
    assert experiment.tell(unit="a", reward=1).late == 1


def test_two_processes_that_ask_for_a_unit_at_once_get_the_same(
    create: Create, store_url: str, pool: Executor
) -> None:
    experiment, units = create(store_url), 12
    ask = workers_units.ask_together
    one, other = (pool.submit(ask, store_url, "offer", units) for _ in range(2))
    assert one.result(HANG_TIMEOUT) == other.result(HANG_TIMEOUT)
    frame = experiment.assignments()
    assert frame["unit"].value_counts()["person-7"] == units
    assert not frame.duplicated(["unit", "decision_point"]).any()
    # Each visitor one, persons 0 to 5 two each, and person 7 one per decision point.
    assert len(frame) == units + 2 * 6 + units
    assert experiment.verify().sound


def test_two_calls_for_a_unit_in_one_transaction_get_the_same(
    create: Create, store_url: str
) -> None:
    for experiment in (create(store_url), in_memory()):
        calls = [
            Ask(len(names), [UnitKey(name) for name in names]) for names in ("a", "a", "ba", "b")
        ]
        answers = experiment.engine.commit(calls)
        assert [list(each.ids) for each in answers if isinstance(each, Batch)] == [
            [0],
            [0],
            [1, 0],
            [1],
        ]
        assert experiment.status().pulls == 2


def test_threads_that_ask_for_a_unit_at_once_get_the_same(create: Create) -> None:
    experiment = create()
    with ThreadPoolExecutor(8) as threads:
        names = [f"visitor-{number % 5}" for number in range(80)]
        found = list(threads.map(lambda name: experiment.ask(unit=name)[0], names))
    assert len({each.id for each in found}) == 5
    assert len({(each.unit, each.id) for each in found}) == 5
    assert experiment.status().pulls == 5


def test_who_asks_again_does_not_wait_for_those_who_write(create: Create) -> None:
    experiment = create()
    [first] = experiment.ask(unit="a")
    with (
        reopen(experiment) as other,
        ThreadPoolExecutor(1) as thread,
        other.engine.ledger.transaction(),
    ):
        again = thread.submit(experiment.ask, unit="a").result(HANG_TIMEOUT / 4)
    assert list(again) == [first]


@pytest.mark.parametrize("size", [1, 50])
def test_units_are_found_in_an_index(create: Create, size: int) -> None:
    with closing(sqlite3.connect(file_of(create()))) as connection:
        for statement in (sql_ledger._units_named(size), sql_ledger._ROUNDS_OF):
            text = str(statement.compile(dialect=SqliteSession.dialect))
            names = statement.compile(dialect=SqliteSession.dialect).params
            plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", dict.fromkeys(names, "1"))
            steps = [step for *_, step in plan.fetchall()]
            searches = [step for step in steps if "bestarm_units_named (experiment=? AND" in step]
            assert searches
            assert not any("SCAN" in step for step in steps)


def test_units_of_a_server_are_found_in_an_index(create: Create, postgres_url: str) -> None:
    experiment = create(postgres_url)
    experiment.ask(unit=[f"visitor-{number}" for number in range(5000)])
    run_sql(postgres_url, "ANALYZE bestarm_units")
    one = "experiment = 1 AND unit = 'visitor-{0}' AND decision_point = ''"
    some = " OR ".join(one.format(number) for number in range(50))
    for condition in (one.format(7), some, "experiment = 1 AND unit = 'visitor-8'"):
        plan = run_sql(postgres_url, f"EXPLAIN SELECT round FROM bestarm_units WHERE {condition}")
        text = "\n".join(line for (line,) in plan)
        assert "bestarm_units_named" in text
        assert "Seq Scan" not in text


def test_whoever_is_killed_as_it_asks_by_unit_doubles_nothing(sqlite_url: str) -> None:
    settings: dict[str, Any] = {"bounds": (-2, 3), "seed": 1}
    with Experiment.create(sqlite_url, "killed", PROBLEM, **settings) as experiment:
        kills, before = 0, list[Any]()
        while True:
            arguments = (sqlite_url, "killed", UNITS, OPENING + 3 * kills + 1)
            process = processes.Process(target=workers_units.ask_until, args=arguments)
            process.start()
            process.join(HANG_TIMEOUT)
            frame = experiment.assignments().reindex(columns=["id", "unit", "label"])
            stored = frame.to_numpy().tolist()
            assert stored[: len(before)] == before
            assert max(Counter(unit for _, unit, _ in stored).values(), default=1) == 1
            assert experiment.verify().sound
            before = stored
            if process.exitcode == 0:
                break
            assert process.exitcode == -9
            kills += 1
        assert kills > 5
        assert len(stored) == UNITS
        assert experiment.outcomes()["id"].tolist() == list(range(UNITS))
        with Experiment.create(sqlite_url, "uninterrupted", PROBLEM, **settings) as other:
            workers_units.visit(other, UNITS)
            assert other.assignments()[["id", "unit", "label"]].to_numpy().tolist() == stored


# --- telling ------------------------------------------------------------------------------------


def test_outcomes_are_told_by_unit(create: Create, store_url: str) -> None:
    experiment = create(store_url)
    experiment.ask(unit=["a", "b", "c"])
    experiment.ask(unit="a", decision_point=1)
    experiment.tell(unit="b", reward=True)
    assert experiment.tell(unit="b", reward=1).repeated == 1
    with pytest.raises(ConflictingOutcomeError, match="Assignment 1 was already told 1, now 0"):
        experiment.tell(unit="b", reward=0)
    table = pd.DataFrame({"unit": ["c", "a"], "reward": [0.25, 0.5]})
    assert experiment.tell_many(table).recorded == 2
    points = table.iloc[1:].assign(decision_point=[1], reward=0.75)
    assert experiment.tell_many(pd.concat([table, points])).recorded == 1
    told = experiment.outcomes().set_index("id")["reward"].to_dict()
    assert told == {0: 0.5, 1: 1.0, 2: 0.25, 3: 0.75}
    assert experiment.tell_many(table.iloc[:0]).recorded == 0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"unit": "z"}, UnknownAssignmentError, "Unit 'z' has no assignment."),
        (
            {"unit": "a", "decision_point": 2},
            UnknownAssignmentError,
            "Unit 'a' has no assignment at decision point '2'.",
        ),
        ({"unit": "a", "id": 0}, InvalidInputError, "needs the id of an assignment or its unit"),
        ({}, InvalidInputError, "needs the id of an assignment or its unit"),
        ({"id": 0, "decision_point": 1}, InvalidInputError, "`decision_point` is that of a unit"),
        ({"unit": 1.5}, InvalidInputError, "`unit` must be a text of 1 to 200 characters; got 1.5"),
        ({"unit": ""}, InvalidInputError, "`unit` must be a text"),
        ({"unit": "a\n"}, InvalidInputError, "`unit` must be a text"),
        ({"unit": True}, InvalidInputError, "`unit` must be a text"),
        ({"unit": "a", "decision_point": 1.5}, InvalidInputError, "`decision_point` must be"),
    ],
)
def test_outcomes_of_other_units_are_refused(
    given: dict[str, Any], error: type[Exception], message: str
) -> None:
    experiment = in_memory()
    experiment.ask(unit="a")
    with pytest.raises(error, match=message):
        experiment.tell(reward=1, **given)
    assert experiment.outcomes().empty


def test_a_table_with_an_unknown_unit_is_refused_as_a_whole() -> None:
    experiment = in_memory()
    experiment.ask(unit="a")
    with pytest.raises(UnknownAssignmentError):
        experiment.tell_many(pd.DataFrame({"unit": ["a", "z"], "reward": [1, 1]}))
    with pytest.raises(InvalidInputError, match="columns 'id' and 'reward'"):
        experiment.tell_many(pd.DataFrame({"unit": ["a"]}))
    assert experiment.outcomes().empty


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"unit": "a", "count": 2}, "count"),
        ({"unit": ["a", "b"], "count": 1}, "count"),
        ({"unit": ["a", "a"]}, "unit"),
        ({"unit": [1, "1"]}, "unit"),
        ({"unit": []}, "unit"),
        ({"unit": b"a"}, "unit"),
        ({"unit": {"a", "b"}}, "unit"),
        ({"unit": {"a": 1}}, "unit"),
        ({"unit": 0.5}, "unit"),
        ({"unit": ["a", None]}, "unit"),
        ({"unit": "x" * 201}, "unit"),
        ({"decision_point": 1}, "unit"),
        ({"unit": ["a", "b"], "decision_point": [1, 2, 3]}, "unit"),
        ({"unit": "a", "decision_point": 0.5}, "decision_point"),
        ({"unit": "a", "request_id": "first"}, "request_id"),
        ({"unit": "a", "covariates": [{"age": 1}] * 2}, "covariates"),
        ({"unit": "a", "forecasts": [1.0]}, "forecasts"),
    ],
)
def test_requests_for_units_that_cannot_be_are_refused(given: dict[str, Any], field: str) -> None:
    experiment = in_memory()
    with pytest.raises(InvalidInputError) as refused:
        experiment.ask(**given)
    assert refused.value.field == field
    assert refused.value.remedy
    assert experiment.status().pulls == 0


# --- what is kept -------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("forecaster", [None, "default"])
def test_exports_have_units_and_covariates(
    create: Create, tmp_path: Path, suffix: str, forecaster: str | None
) -> None:
    experiment = create(forecaster=forecaster)
    experiment.ask()
    experiment.ask(unit='p "7", é', decision_point="9:00", covariates={"age": 31})
    experiment.ask(covariates={"age": 32})
    experiment.ask(unit="gone", decision_point="9:00")
    experiment.tell(unit='p "7", é', decision_point="9:00", reward=0.5)
    experiment.erase("gone")
    read = pd.read_csv if suffix == ".csv" else pd.read_parquet
    path = tmp_path / f"all{suffix}"

    def columns(frame: pd.DataFrame, *names: str) -> list[list[Any]]:
        known = frame[list(names)].astype(object)
        return known.where(known.notna(), None).T.to_numpy().tolist()

    wanted = [
        [None, 'p "7", é', None, None],
        [None, "9:00", None, None],
    ]
    known = [None, {"age": 31}, {"age": 32}, None]
    for frame in (experiment.assignments(), (experiment.export(path), read(path))[1]):
        found = columns(frame, "unit", "decision_point", "covariates")
        assert [each and json.loads(each) for each in found[2]] == known
        assert found[:2] == wanted
        assert ("forecast" in frame) is (forecaster is not None)
    experiment.export(path, layout="mrt")
    frame = read(path)
    assert columns(frame, "person", "decision_point") == wanted
    assert frame["available"].tolist() == [1] * 4
    assert frame["probability"].between(0, 1).all()
    assert columns(frame, "outcome") == [[None, 0.5, None, None]]
    assert "unit" not in frame


def test_exports_in_pieces_have_the_units_of_their_rounds(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece may end within a round."""
    with create_chained(sqlite_url, kind="blocks", sizes=[12, 8]) as experiment:
        names = [f"p{number}" for number in range(5)]
        batch = experiment.ask(unit=names)
        monkeypatch.setattr(sql_ledger, "_PIECE", 4)
        monkeypatch.setattr(sql_ledger, "_PAGE", 2)
        experiment.export(tmp_path / "all.csv")
        frame = pd.read_csv(tmp_path / "all.csv")
        assert frame["unit"].tolist() == [each.unit for each in batch]
        assert experiment.verify().sound


def test_without_units_exports_are_as_they_were(create: Create, tmp_path: Path) -> None:
    experiment = create()
    experiment.ask(3)
    experiment.export(tmp_path / "all.csv")
    assert "unit" not in pd.read_csv(tmp_path / "all.csv")
    experiment.export(tmp_path / "all.csv", layout="mrt")
    assert pd.read_csv(tmp_path / "all.csv")["decision_point"].tolist() == [1, 2, 3]


def test_covariates_of_a_named_request_are_given_again(create: Create) -> None:
    experiment = create()
    known = [{"age": 1}, {"age": 2}]
    for _ in range(2):
        batch = experiment.ask(2, request_id="first", covariates=known)
        assert [each.covariates for each in batch] == known
    assert experiment.verify().sound


# --- availability -------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_unavailable_decision_point_is_on_record_without_a_draw(
    create: Create, store_url: str, tmp_path: Path, suffix: str
) -> None:
    read = pd.read_csv if suffix == ".csv" else pd.read_parquet
    for place, experiment in enumerate((create(store_url), in_memory())):
        experiment.ask(unit=["ann", "zoe"], decision_point="9:00")
        for _ in range(2):
            known = [{"drives": True}, {}]
            given: dict[str, Any] = {"decision_point": "13:00", "covariates": known}
            assert not experiment.ask(unit=["ann", "bob"], **given, available=False)
        experiment.ask(unit="zoe", decision_point="13:00")
        experiment.ask(unit="zoe", decision_point="18:00", available=False)
        assert experiment.status().pulls == 3
        assert [event.kind for event in experiment.events()].count("unavailable") == 2
        path = tmp_path / f"{place}{suffix}"
        assert experiment.export(path, layout="mrt", probabilities=True) == 6
        frame = read(path)
        assert frame["person"].tolist() == ["ann", "zoe", "ann", "bob", "zoe", "zoe"]
        assert frame["decision_point"].tolist() == ["9:00"] * 2 + ["13:00"] * 3 + ["18:00"]
        assert frame["available"].tolist() == [1, 1, 0, 0, 1, 0]
        drawn = frame["available"] == 1
        assert frame["id"][drawn].tolist() == [0, 1, 2]
        for name in ("id", "phase", "arm", "label", "probability", "probability_old"):
            assert (frame[name].notna() == drawn).all()
        assert (frame["state"] == "unavailable").tolist() == (~drawn).tolist()
        assert frame["drives"].tolist()[2] == 1
        assert len(experiment.assignments()) == experiment.export(path) == 3
        assert experiment.verify().sound


def test_availability_stands(create: Create) -> None:
    experiment = create()
    experiment.ask(unit="ann", decision_point=1)
    experiment.ask(unit="ann", decision_point=2, available=False)
    with pytest.raises(ConflictingRequestError, match="'ann' was available, and has assignment 0"):
        experiment.ask(unit=["bob", "ann"], decision_point=1, available=False)
    with pytest.raises(ConflictingRequestError, match=r"'ann' was not available at .* '2'"):
        experiment.ask(unit=["bob", "ann"], decision_point=2)
    with pytest.raises(UnknownAssignmentError, match=r"'ann' has no assignment at .* '2'"):
        experiment.tell(unit="ann", decision_point=2, reward=1)
    for given in ({}, {"unit": "ann"}):
        with pytest.raises(InvalidInputError, match="at a decision point, and these are not named"):
            experiment.ask(**given, available=False)  # type: ignore[arg-type]
    assert experiment.status().pulls == 1
    experiment.stop()
    last = len(experiment.events())
    assert not experiment.ask(unit="bob", decision_point=2, available=False)
    assert len(experiment.events()) == last
    assert experiment.verify().sound


def test_an_unavailable_decision_point_needs_no_forecast(create: Create) -> None:
    """And it does not wait: neither for outcomes nor for the end of a pause."""
    experiment = create(forecaster="own", policy="bernstein")
    experiment.pause()
    assert not experiment.ask(unit="ann", decision_point=1, available=False)
    with experiment.read() as snapshot:
        assert snapshot.head.unavailable == 1
        assert snapshot.unit_counts() == UnitCounts()


def test_erasing_a_unit_covers_where_it_was_not_available(create: Create, store_url: str) -> None:
    for experiment in (create(store_url), in_memory()):
        experiment.ask(unit=["ann", "bob"], decision_point=1, available=False)
        experiment.ask(unit="ann", decision_point=2)
        assert experiment.erase("ann") == 2
        with experiment.read() as snapshot:
            assert [each.unit for each in snapshot.records(UnitRecord, -9, 9)] == [
                "bob",
                None,
                None,
            ]
        assert experiment.verify().sound
        assert not experiment.ask(unit="ann", decision_point=1, available=False)
        assert experiment.verify().sound


def test_a_decision_point_that_nobody_recorded_is_found(create: Create, tmp_path: Path) -> None:
    experiment = create()
    experiment.ask(unit=["ann", "bob"], decision_point=1, available=False)
    copied = "SELECT experiment, -3, first, size, digest, salt, 'zoe', decision_point, covariates "
    for statement, finding in (
        ("UPDATE bestarm_units SET unit = 'zoe' WHERE round = -1", "unavailable decision point 1"),
        (
            "UPDATE bestarm_units SET first = 1 WHERE round = -2",
            "The units that were not available",
        ),
        ("DELETE FROM bestarm_units WHERE round = -2", "The units that were not available"),
        (
            f"INSERT INTO bestarm_units {copied} FROM bestarm_units WHERE round = -1",
            "There are 3 units on record",
        ),
    ):
        experiment.close()
        copy = changed_copy(file_of(experiment), tmp_path, statement)
        assert finding in " ".join(findings(copy))


# --- erasure ------------------------------------------------------------------------------------

SECRET = "zoe-quartermain-1984"


def bytes_of(experiment: Experiment) -> bytes:
    path = file_of(experiment)
    files = [path, *path.parent.glob(f"{path.name}-*")]
    return b"".join(file.read_bytes() for file in files)


def test_an_erased_unit_is_gone_from_the_file(create: Create) -> None:
    """Whatever came before and after it, and whoever else has the file open."""
    experiment = create()
    known = {"name": SECRET[::-1]}
    for number in range(300):
        experiment.ask(unit=f"visitor-{number * 7919 % 1000}")
        if number % 50 == 0:
            point = f"{number} o'clock {SECRET}"
            experiment.ask(unit=SECRET, decision_point=point, covariates=known)
    with reopen(experiment) as other:
        other.ask(unit=[f"late-{number}" for number in range(100)])
        assert bytes_of(experiment).count(SECRET.encode()) >= 6
        assert experiment.erase(SECRET) == 6
        for secret in (SECRET, SECRET[::-1]):
            assert secret.encode() not in bytes_of(experiment)
        assert other.verify().sound
        assert other.ask(unit="visitor-0")[0].id == 0


def test_a_unit_is_erased_while_a_step_of_another_version_is_pending(
    create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the policy that began the experiment can take that step."""
    experiment = create()
    experiment.ask(unit=SECRET)
    others = experiment.ask(experiment.status().remaining)
    experiment.tell(unit=SECRET, reward=0.5)
    monkeypatch.setattr(AnytimeBAI, "version", AnytimeBAI.version + 1)
    with reopen(experiment) as other:
        with pytest.raises(ReplayError):
            other.tell_many(dict.fromkeys(others.ids, 0.5))
        assert SECRET.encode() in bytes_of(other)
        assert other.erase(SECRET) == 1
        assert SECRET.encode() not in bytes_of(other)
        with pytest.raises(UnknownAssignmentError):
            other.erase(SECRET)
        assert other.verify().sound


def test_a_log_that_is_read_all_the_time_is_not_passed_over(
    create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_session, "BUSY_TIMEOUT", 0.01)
    experiment = create()
    experiment.ask(unit=SECRET)
    with reopen(experiment) as other:
        with other.read(), pytest.raises(StoreUnavailableError, match="still has it"):
            experiment.erase(SECRET)
        assert SECRET.encode() in bytes_of(experiment)
        with pytest.raises(UnknownAssignmentError):
            experiment.erase(SECRET)
        assert SECRET.encode() not in bytes_of(experiment)
        assert len(experiment.verify().erased) == 1


def test_erasing_breaks_nothing(create: Create, store_url: str) -> None:
    experiment = create(store_url)
    names = [f"visitor-{number}" for number in range(40)]
    batch = experiment.ask(unit=names, covariates=[{"age": number} for number in range(40)])
    experiment.tell_many({each.id: 0.1 * each.arm for each in batch if each.id % 8})
    for name in ("visitor-5", "visitor-8"):  # told, and outstanding
        experiment.erase(name)
    with reopen(experiment) as other:
        audit = other.verify()
        assert audit.sound
        assert len(audit.erased) == 2
        assert "2 units erased, the last 20" in str(audit)
        assert [event.data for event in other.events() if event.kind == "erased"] == [
            {"ids": [[5, 6]]},
            {"ids": [[8, 9]]},
        ]
        for name in ("visitor-5", "visitor-8"):
            with pytest.raises(UnknownAssignmentError):
                other.tell(unit=name, reward=0)
        assert other.ask(unit="visitor-5")[0].id == 40  # a new one
        assert other.outcomes()["id"].tolist().count(5) == 1
        other.fail(8)
        assert other.tell(16, 0.5).recorded
        assert other.verify().sound
        other.replay()


def test_an_erased_round_leaves_all_its_options(sqlite_url: str) -> None:
    with create_chained(sqlite_url, kind="blocks", sizes=[12, 8]) as experiment:
        batch = experiment.ask(unit=["a", "b", "c"])
        size = len(batch) // 3
        experiment.erase("b")
        assert experiment.events()[-1].data == {"ids": [[size, 2 * size]]}
        assert experiment.assignments()["unit"].isna().sum() == size
        assert experiment.verify().sound


def test_an_unknown_unit_cannot_be_erased(create: Create) -> None:
    experiment = create()
    experiment.ask(unit="a", decision_point=1)
    before = experiment.revision
    for name in ("b", "A", "a "):
        with pytest.raises(UnknownAssignmentError, match="has no assignment"):
            experiment.erase(name)
    with pytest.raises(InvalidInputError, match="`unit` must be a text"):
        experiment.erase(None)  # type: ignore[arg-type]
    assert experiment.revision == before


def test_a_forecaster_leaves_out_what_was_erased(create: Create) -> None:
    """It may need covariates, and there are none any more."""

    class Needy(Echo):
        def forecast(self, number: int, moment: Any, covariates: Any) -> float:
            assert covariates is not None or number == 0  # which tries it out
            return super().forecast(number, moment, covariates)

    experiment = create(forecaster=Needy())
    for number in range(6):
        experiment.ask(unit=f"p{number}", covariates={"x": 0.1 * number})
    experiment.tell_many({1: 0.5, 2: 0.5, 3: 0.5})
    experiment.erase("p2")
    experiment.erase("p4")
    again = Needy()
    with reopen(experiment, forecaster=again) as other:
        other.ask(unit="p6", covariates={"x": 0.6})
        other.tell(unit="p5", reward=0.25)
        assert [each[1] for each in again.heard if each[0] == "forecast"] == [0, 1, 3, 5, 6]
        assert [each[1] for each in again.heard if each[0] == "learn"] == [1, 3, 5]
        assert other.verify().sound


def test_a_new_unit_has_its_own_forecast_whoever_came_before(create: Create) -> None:
    experiment = create(forecaster=Echo(), policy="bernstein")
    experiment.ask(unit="a", covariates={"x": 0.1})
    experiment.ask(unit=["a", "b"], covariates=[{"x": 0.5}, {"x": 0.7}])
    own = create(name="own", forecaster="own", policy="bernstein")
    own.ask(unit="a", forecasts=[0.1])
    own.ask(unit=["a", "b"], forecasts=[0.5, 0.7])
    assert own.ask(unit="a")[0].id == 0  # without a forecast, as none is made
    for each in (experiment, own):
        assert each.assignments()["forecast"].tolist() == pytest.approx([0.1, 0.7])


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("SET unit = 'x' WHERE round = 1", "What is known of assignment 1 is not"),
        ("SET decision_point = 'x' WHERE round = 1", "What is known of assignment 1 is not"),
        ("SET covariates = '{}' WHERE round = 1", "What is known of assignment 1 is not"),
        ("SET salt = NULL WHERE round = 1", "What is known of assignment 1 is not"),
        ("SET first = 2, size = 2 WHERE round = 1", "The units up to event"),
        (
            "SET salt = NULL, unit = NULL, decision_point = NULL, covariates = NULL WHERE round=1",
            "What was known of assignment 1 is gone, and the log does not say",
        ),
        (
            "SET salt = 'x', unit = 'gone', decision_point = '' WHERE round = 2",
            "What was known of assignment 2 is on record, and the log says",
        ),
    ],
)
def test_a_changed_unit_is_found(create: Create, statement: str, found: str) -> None:
    experiment = create()
    experiment.ask(unit=["a", "b", "gone"], covariates=[{"age": 1}] * 3)
    experiment.erase("gone")
    experiment.stop()
    experiment.close()
    change(file_of(experiment), f"UPDATE bestarm_units {statement}")
    assert any(found in each for each in findings(file_of(experiment)))


def test_a_removed_or_added_unit_is_found(create: Create) -> None:
    experiment = create()
    experiment.ask(unit=["a", "b"])
    experiment.ask()
    experiment.close()
    path = file_of(experiment)
    change(path, "DELETE FROM bestarm_units WHERE round = 1")
    assert findings(path)
    change(
        path,
        "INSERT INTO bestarm_units SELECT experiment, 2, 2, 1, digest, salt, 'c', '', NULL "
        "FROM bestarm_units WHERE round = 0",
    )
    assert findings(path)


# --- health -------------------------------------------------------------------------------------


def units_check(experiment: Experiment) -> Any:
    return next((each for each in experiment.health() if each.name == "units"), None)


def test_a_unit_with_far_more_decision_points_is_reported(create: Create) -> None:
    experiment = create()
    assert units_check(experiment) is None
    experiment.ask(unit=["a", "b", "c"], decision_point=0)
    for point in range(19):
        experiment.ask(unit="robot", decision_point=point)
    assert units_check(experiment).level == "ok"
    experiment.ask(unit="robot", decision_point="once more")
    check = units_check(experiment)
    assert check.level == "warning"
    assert check.finding == (
        "One unit has 20 decision points, others 1 on average (its last is round 22)."
    )
    experiment.ask(unit=["a", "b", "c"] * 2, decision_point=[1, 1, 1, 2, 2, 2])
    assert units_check(experiment).level == "ok"  # others have 3 each
