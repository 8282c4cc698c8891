"""Every field of a stored experiment is changed once: the audit finds it, or a reason is given why
it need not. A column that is added must be decided upon here."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chained_policies import create_chained
from clocks import Clock
from tampering import findings

from bestarm import Experiment, Problem

CACHE = "a cache: the audit counts again itself, and no decision depends on it"
NO_DECISION = "no decision depends on it"
# As docs/guarantees.md and docs/threat-model.md list it.
CACHES = """
    outcomes early losses late refusals refused_values lowest highest last_told
    options phase planned open provisional pulls size limit first phase_outcomes phase_losses
    outstanding_before summary_end arrivals amendments settled_end oldest summaries last_time
    clock_setback spread spread_left
"""
NOT_COVERED = {f"experiments.{name}": CACHE for name in CACHES.split()} | {
    "experiments.archived": "for lists of experiments",
    "experiments.created": "for lists of experiments; the time in the first event is hashed",
    "losses.phase": "that of the assignment is drawn again",
    "losses.place": "the order of losses; a fixed plan shows it",
    "losses.reason": NO_DECISION,
    "refusals.experiment": NO_DECISION,
    "refusals.number": NO_DECISION,
    "refusals.reward": NO_DECISION,
    "refusals.at": NO_DECISION,
    "version.version_num": "checked when the file is opened",
}


def places(tables: dict[str, str]) -> list[str]:
    return [f"{table}.{column}" for table, columns in tables.items() for column in columns.split()]


COVERED_IN_WINDOWS = places(
    {
        "experiments": "window otherwise reports",
        "reports": "experiment number assignment reward told late",
        "outcomes": "reward told",
    }
)
COVERED_WITH_GUARDRAILS = places(
    {
        "experiments": "values",
        "plans": "values",
        "values": "experiment number assignment phase arm guardrail value told",
    }
)
COVERED = places(
    {
        "experiments": "id name description state lease assigned rounds events last_hash "
        "requests units unavailable changes planned_changes",
        "documents": "experiment document",
        "assignments": "experiment number round phase arm probability asked forecast",
        "units": "experiment round first size digest salt unit decision_point covariates",
        "outcomes": "experiment number reward told late",
        "losses": "experiment number at",
        "deferrals": "experiment number summary",
        "requests": "experiment name count first size phase",
        "plans": "experiment phase plan first round reports",
        "summaries": "experiment number phase first end late summary digest plain",
        "changes": "experiment number phase kind label reason features made_by at",
        "events": "experiment number at kind data hash",
    }
)


def create(path: Path, **given: Any) -> Experiment:
    url, sizes = f"sqlite:///{path}", [4, 2, 30, 4, 4, 4]
    return create_chained(url, kind="provisional", sizes=sizes, changes=True, **given)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two closed phases and an open one: something of everything that is on record.

    Phase 1 asks for 4 pulls. Of its 6 assignments, 1 is lost and told late, 2 and 3 are told, 4 is
    lost; it closes while 0 and 5 are outstanding. 0 is told under the next plan, 5 never. In phase
    3 options come and go, which ends it and two more. In phase 6 the experiment is stopped; 11 is
    told after that, and 12 is given up.
    """
    path = tmp_path_factory.mktemp("made") / "store.db"
    given: dict[str, Any] = {"lease": 1e6, "description": "of four winds", "forecaster": "own"}
    with create(path, **given) as experiment:

        def ask(count: int, request: str, **known: Any) -> None:
            forecasts = [0.125 * n - 0.25 for n in range(count)]
            assert len(experiment.ask(count, request_id=request, forecasts=forecasts, **known))

        ask(4, "first", covariates=[{"age": n + 0.5} for n in range(4)])
        experiment.fail(1, "gone")
        ask(2, "second", covariates=[{"age": 7, "country": "fr"}] * 2)
        experiment.tell(1, 0.5)
        experiment.tell_many({2: 0.25, 3: -0.5})
        experiment.fail(4, "gone")
        assert experiment.phase == 2
        names, known = ["ann", "zoe"], [{"age": 9}, {"age": 8}]
        experiment.ask(unit=names, decision_point=1, forecasts=[0.0, 0.5], covariates=known)
        experiment.ask(unit=names, decision_point=2, available=False)
        experiment.erase("ann")
        experiment.tell(0, 1.75)
        experiment.tell_many({6: 0.25, 7: 1.5})
        assert experiment.phase == 3
        ask(6, "fourth")
        experiment.tell(8, 0.5)
        experiment.fail_many([10, 9], "gone")
        experiment.tell(10, 0.75)
        experiment.add("up", features=[0.5, 0.5, 0.5, 0.25])
        experiment.retire("south", reason="too hot")
        experiment.add("down")
        ask(2, "fifth")
        experiment.pause()
        experiment.resume()
        experiment.change_lease(2e6)
        experiment.stop("enough")
        experiment.tell(11, 1.25)
        experiment.fail(12, "forgotten")
        assert 0 in set(experiment.assignments()["arm"])
        kinds = [event.kind for event in experiment.events()]
        assert {"closed", "answered", "late", "failed"} <= set(kinds)
    assert findings(path) == ()
    return path


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def columns(connection: sqlite3.Connection) -> dict[str, list[tuple[str, bool, bool]]]:
    """The columns of each table, whether they are part of its key, and whether one may be empty."""
    every = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        table.removeprefix("bestarm_"): [
            (column, bool(key), not needed)
            for _, column, _, needed, _, key in connection.execute(f"PRAGMA table_info({table})")
        ]
        for (table,) in every
    }


def changed(value: Any, *, flag: bool = False, step: int = 1) -> Iterator[Any]:
    """Other values for a field, each different in the least that there is."""
    if flag or isinstance(value, bool):
        yield type(value)(not value)
    elif value is None:
        yield 0.5
    elif isinstance(value, int):
        yield value + step
    elif isinstance(value, float):
        yield math.nextafter(value, math.inf)
    elif value.startswith("{"):
        for other in changed_leaves(json.loads(value)):
            yield json.dumps(other, separators=(",", ":"))
    else:
        yield value + "x"


def changed_leaves(value: Any) -> Iterator[Any]:
    """A JSON value with one number or text in it changed; of lists, the first and the last."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from ({**value, key: other} for other in changed_leaves(part))
    elif isinstance(value, list):
        if value:
            yield from ([other, *value[1:]] for other in changed_leaves(value[0]))
            yield from ([*value[:-1], other] for other in changed_leaves(value[-1]))
    else:
        yield from changed(value)


def test_every_column_is_decided_upon(path: Path) -> None:
    with closing(connect(path)) as connection:
        tables = columns(connection).items()
    names_of = {table: names for table, names in tables if table != "sqlite_sequence"}
    there = {f"{table}.{column}" for table, names in names_of.items() for column, *_ in names}
    covered = {*COVERED, *COVERED_IN_WINDOWS, *COVERED_WITH_GUARDRAILS}
    assert there == {*covered, *NOT_COVERED}
    assert not covered & {*NOT_COVERED}


@pytest.fixture(scope="module")
def windowed_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outcomes with a window: told early, corrected, told by nobody, and told too late."""
    path, clock = tmp_path_factory.mktemp("made") / "store.db", Clock(step=0.5)
    with create(path, window=100.0, otherwise=0, clock=clock) as experiment:
        experiment.ask(4)
        experiment.tell(1, 1.0)
        experiment.tell_many({2: 1.0, 3: 0.5})
        experiment.tell(2, 0.25)
        clock.now += 100.0
        experiment.tell(0, 1.0)
        assert experiment.phase == 2
        experiment.ask(2)
        experiment.tell(5, 1.0)
        clock.now += 100.0
        experiment.expire()
        assert experiment.phase == 3
        experiment.ask(2)
        experiment.tell(6, 1.0)
        experiment.stop()
        experiment.tell_many({6: 0.5, 7: 0.75})
    assert findings(path) == ()
    return path


@pytest.mark.parametrize("place", COVERED_IN_WINDOWS)
def test_a_changed_report_is_found(windowed_path: Path, place: str) -> None:
    check_every_row(windowed_path, place)


def test_a_removed_report_is_found(windowed_path: Path) -> None:
    with closing(connect(windowed_path)) as connection:
        every = connection.execute("SELECT * FROM bestarm_reports").fetchall()
        assert len(every) == 9
        for row in every:
            connection.execute("DELETE FROM bestarm_reports WHERE number = ?", [row[1]])
            assert findings(windowed_path), row
            connection.execute("INSERT INTO bestarm_reports VALUES (?, ?, ?, ?, ?, ?)", row)
    assert findings(windowed_path) == ()


@pytest.mark.parametrize(
    ("change", "back", "found"),
    [
        (
            "INSERT INTO bestarm_losses VALUES (1, 6, 3, 0, 'gone', 1800000300.0)",
            "DELETE FROM bestarm_losses",
            "Assignment 6 was reported in time, and is lost.",
        ),
    ],
)
def test_a_report_that_cannot_be_is_found(
    windowed_path: Path, change: str, back: str, found: str
) -> None:
    with closing(connect(windowed_path)) as connection:
        connection.execute(change)
        with Experiment.open(f"sqlite:///{windowed_path}", "offer") as experiment:
            assert any(found in each for each in experiment.verify().findings)
        connection.execute(back)
    assert findings(windowed_path) == ()


@pytest.mark.parametrize("number", [-1, 2**62 + 1, 2**63 - 1])
@pytest.mark.parametrize("about", ["0", "5"])
def test_an_added_report_is_found_whatever_its_number(
    windowed_path: Path, number: int, about: str
) -> None:
    """It is read by its assignment: an outcome that has yet to enter would be that one."""
    check_added(windowed_path, "reports", "number", number, f"assignment = {about}")


@pytest.fixture(scope="module")
def guarded_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Values of a guardrail, told with outcomes and later: those told after the end are counted."""
    path = tmp_path_factory.mktemp("made") / "store.db"
    rails = {"refund": {"bounds": [0, 1], "worse_by": 0.1, "action": "alert"}}
    with Experiment.create(
        f"sqlite:///{path}",
        "offer",
        Problem(["old", "new"]),
        bounds=(0, 1),
        policy_options={"control": "old"},
        guardrails=rails,
    ) as experiment:
        while experiment.phase < 3:
            [each] = experiment.ask()
            experiment.tell(each.id, 1)
            if each.id % 2:
                experiment.tell(each.id, refund=0.5)
        experiment.tell(0, refund=0.25)
        experiment.stop()
    assert findings(path) == ()
    return path


@pytest.mark.parametrize("place", COVERED_WITH_GUARDRAILS)
def test_a_changed_value_of_a_guardrail_is_found(guarded_path: Path, place: str) -> None:
    check_every_row(guarded_path, place)


def test_a_removed_value_of_a_guardrail_is_found(guarded_path: Path) -> None:
    with closing(connect(guarded_path)) as connection:
        every = connection.execute("SELECT * FROM bestarm_values").fetchall()
        for row in every:
            connection.execute("DELETE FROM bestarm_values WHERE number = ?", [row[1]])
            assert findings(guarded_path), row
            connection.execute(f"INSERT INTO bestarm_values VALUES ({'?, ' * 7}?)", row)
    assert findings(guarded_path) == ()


@pytest.mark.parametrize("number", [-1, 2**62 + 1, 2**63 - 1])
def test_an_added_value_of_a_guardrail_is_found_whatever_its_number(
    guarded_path: Path, number: int
) -> None:
    given = {"assignment": 2}  # which has none: another could not be told
    check_added(guarded_path, "values", "number", number, "number = 0", **given)


@pytest.mark.parametrize("number", [-1, 2**62 + 1, 2**63 - 1])
def test_an_added_request_is_found_whatever_its_number(path: Path, number: int) -> None:
    """Who asks by its name would be given the same assignments as another."""
    check_added(path, "requests", "first", number, "first = 0", name="forged")


@pytest.mark.parametrize("number", [-1000, 2**62 + 1, 2**63 - 1])
def test_an_added_unit_is_found_whatever_its_number(path: Path, number: int) -> None:
    """It would share the assignment of another."""
    check_added(path, "units", "round", number, "unit = 'zoe' AND size > 0", decision_point="7")


def check_added(path: Path, table: str, key: str, number: int, of: str, **changed: object) -> None:
    """A copy of a row under a number that no record has is found."""
    with closing(connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute(f"SELECT * FROM bestarm_{table} WHERE {of}").fetchone())
        row |= {key: number} | changed
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        text = f"INSERT INTO bestarm_{table} ({names}) VALUES ({marks})"
        connection.execute(text, list(row.values()))
        found = findings(path)
        connection.execute(f"DELETE FROM bestarm_{table} WHERE {key} = ?", [number])
    assert any("on record, the counter says" in each for each in found), found
    assert findings(path) == ()


@pytest.mark.parametrize("place", COVERED)
def test_a_changed_field_is_found(path: Path, place: str) -> None:
    check_every_row(path, place)


def check_every_row(path: Path, place: str) -> None:
    """Change a field in any row, one at a time."""
    table, column = place.split(".")
    with closing(connect(path)) as connection:
        keys = [name for name, key, _ in columns(connection)[table] if key]
        unique = [*keys, "assignment"]
        optional = [name for name, _, optional in columns(connection)[table] if optional]
        statement = f'UPDATE bestarm_{table} SET "{column}" = ? WHERE '
        statement += " AND ".join(f"{key} = ?" for key in keys)
        names = ", ".join([*keys, f'"{column}"'])
        rows = connection.execute(f"SELECT {names} FROM bestarm_{table}").fetchall()
        assert rows
        for *row, value in rows:
            # A key becomes one that no row has.
            others = changed(value, flag=column == "late", step=1000 if column in unique else 1)
            gone = [None] if column in optional and value is not None else []
            for other in [*others, *gone]:
                key = dict(zip(keys, row, strict=True))
                connection.execute(statement, [other, *key.values()])
                found = findings(path, name=other if place == "experiments.name" else "offer")
                if column in keys:
                    key[column] = other
                connection.execute(statement, [value, *key.values()])
                assert found, f"{table} {row}: {column} is {other!r} instead of {value!r}"
    assert findings(path) == ()
