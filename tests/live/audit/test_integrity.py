"""What no summary covers is under the log as well: ends, late outcomes, times, requests, strays."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from chained_policies import PROBLEM, Chained
from sqlalchemy import create_engine, text

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.live import draw
from bestarm.live.audit.verify import Audit
from bestarm.live.events import ids_in, ranges

DRINKS = Problem(np.eye(3), source_labels=["tea", "coffee", "water"])


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


def stopped(url: str, name: str = "offer") -> None:
    """An experiment with something of all that no summary covers.

    Phase 1 asks for 6 pulls, phase 2 for 30: ids 0 to 5 are summed up, 6 was lost and told late, 7
    was told, 8 lost, 9 told after the end, 10 given up after it, and 11 remains open.
    """
    options = {"kind": "randomised", "sizes": [6, 30]}
    with Experiment.create(
        url,
        name,
        PROBLEM,
        policy="chained_policies:Chained",
        options=options,
        seed=4,
        description="of four winds",
        clock=Clock(),
    ) as experiment:
        experiment.ask(4, request_id="first")
        experiment.ask(2, request_id="second")
        experiment.tell_many({n: 0.25 * n for n in range(6)})
        experiment.ask(6, request_id="third")
        experiment.fail_many([6, 8], "gone")
        experiment.tell(6, 0.5)
        experiment.tell(7, 0.75)
        experiment.stop("enough")
        experiment.tell(9, 1.25)
        experiment.fail(10, "forgotten")
        assert experiment.phase == 2
        assert experiment.verify().findings == ()
        assert experiment.replay().recommendation.reason == "stopped"


def finished(url: str, name: str = "offer") -> None:
    """The policy ends it with the first 4: 6 was told by then, 7 lost, and 4 and 5 are open."""
    options = {"kind": "open", "sizes": [4]}
    with Experiment.create(
        url,
        name,
        PROBLEM,
        policy="chained_policies:Chained",
        options=options,
        clock=Clock(),
        seed=0,
    ) as experiment:
        assert len(experiment.ask(8)) == 8
        experiment.tell(6, 0.5)
        experiment.fail(7)
        experiment.tell_many({n: 0.25 * n for n in range(4)})
        assert experiment.state == "finished"
        experiment.fail(5)
        experiment.tell(4, 2.0)
        assert experiment.verify().findings == ()
        experiment.replay()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "store.db"
    stopped(f"sqlite:///{path}")
    return path


def audit(url: str) -> Audit:
    with Experiment.open(url, "offer") as experiment:
        return experiment.verify()


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    before = connection.total_changes
    connection.execute(statement)
    assert connection.total_changes > before
    connection.commit()
    connection.close()


TAMPERED = {
    "an outcome that no summary covers": (
        "UPDATE bestarm_outcomes SET reward = 0.5 WHERE number = 7",
        "not as they were at the end",
    ),
    "when it was told": (
        "UPDATE bestarm_outcomes SET told = told - 1 WHERE number = 7",
        "not as they were at the end",
    ),
    "when one without an outcome was given out": (
        "UPDATE bestarm_assignments SET asked = asked - 1 WHERE number = 11",
        "not as they were at the end",
    ),
    "when an outcome was lost": (
        "UPDATE bestarm_losses SET at = at - 1 WHERE number = 8",
        "not as they were at the end",
    ),
    "when a summed-up outcome was told": (
        "UPDATE bestarm_outcomes SET told = told - 1 WHERE number = 3",
        "Of assignments 0 to 5",
    ),
    "when a summed-up one was given out": (
        "UPDATE bestarm_assignments SET asked = asked - 1 WHERE number = 0",
        "Of assignments 0 to 5",
    ),
    "a late outcome": (
        "UPDATE bestarm_outcomes SET reward = 0.75 WHERE number = 6",
        "not those of event",
    ),
    "when a late outcome was told": (
        "UPDATE bestarm_outcomes SET told = told - 1 WHERE number = 6",
        "not those of event",
    ),
    "an outcome told after the end": (
        "UPDATE bestarm_outcomes SET reward = 1.5 WHERE number = 9",
        "not those of event",
    ),
    "an outcome told after the end, made one in time": (
        "UPDATE bestarm_outcomes SET late = 0 WHERE number = 9",
        "not as they were at the end",
    ),
    "an outcome told in time and summed up, made a late one": (
        "UPDATE bestarm_outcomes SET late = 1 WHERE number = 3",
        "Assignment 3 was told in time",
    ),
    "a late outcome that is gone": ("DELETE FROM bestarm_outcomes WHERE number = 9", "or removed"),
    "what was given up after the end": (
        "UPDATE bestarm_losses SET at = at - 1 WHERE number = 10",
        "given up after the end",
    ),
    "a loss that is gone": (
        "DELETE FROM bestarm_losses WHERE number = 8",
        "not as they were at the end",
    ),
    "the name of a request": (
        "UPDATE bestarm_requests SET name = 'other' WHERE name = 'second'",
        "requests up to event",
    ),
    "what a request was given": (
        "UPDATE bestarm_requests SET size = 1 WHERE name = 'second'",
        "requests up to event",
    ),
    "the name of a request before others": (
        "UPDATE bestarm_requests SET name = 'other' WHERE name = 'first'",
        "requests up to event",
    ),
    "how many a request before others asked for": (
        "UPDATE bestarm_requests SET count = count + 1 WHERE name = 'first'",
        "requests up to event",
    ),
    "a request before others that is gone": (
        "DELETE FROM bestarm_requests WHERE name = 'first'",
        "requests up to event",
    ),
    "a request that is gone": (
        "DELETE FROM bestarm_requests WHERE name = 'third'",
        "requests up to event",
    ),
    "a request that never was": (
        "INSERT INTO bestarm_requests SELECT experiment, 'new', 1, 40, 1, 1 "
        "FROM bestarm_requests WHERE name = 'third'",
        "nobody sent",
    ),
    "the description": ("UPDATE bestarm_experiments SET description = 'x'", "description differs"),
    "an outcome told after the end that no event knows of": (
        "INSERT INTO bestarm_outcomes SELECT experiment, 11, 0.5, told, 1 "
        "FROM bestarm_outcomes WHERE number = 9",
        "outcomes flagged as late, but 2 in the log",
    ),
    "an assignment beyond the last": (
        "INSERT INTO bestarm_assignments SELECT experiment, 12, 12, phase, arm, probability, "
        "asked, NULL, NULL FROM bestarm_assignments WHERE number = 11",
        "the counter says 12",
    ),
    "a loss after the end that no event knows of": (
        "INSERT INTO bestarm_losses SELECT experiment, 11, phase, 99, reason, at "
        "FROM bestarm_losses WHERE number = 10",
        "not as they were at the end",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_every_change_beyond_the_summaries_is_found(made: Path, tmp_path: Path, what: str) -> None:
    path = Path(shutil.copy(made, tmp_path / "copy.db"))
    statement, finding = TAMPERED[what]
    change(path, statement)
    found = audit(f"sqlite:///{path}").findings
    assert any(finding in each for each in found), found
    assert all(each.endswith(".") for each in found)


def test_an_assignment_drawn_after_the_end_is_found(made: Path, tmp_path: Path) -> None:
    """It is the one that the seed would have drawn next, and the counter says that it was."""
    path = Path(shutil.copy(made, tmp_path / "copy.db"))
    with Experiment.open(f"sqlite:///{path}", "offer") as experiment:
        with experiment.read() as snapshot:
            weights = snapshot.plan(2).plan.weights
        assert weights is not None
        arm = draw(experiment.seed, 12, weights)
    change(
        path,
        "INSERT INTO bestarm_assignments SELECT experiment, 12, 12, phase, "
        f"{arm}, {float(weights[arm])!r}, asked, NULL, NULL "
        "FROM bestarm_assignments WHERE number = 11",
    )
    change(path, "UPDATE bestarm_experiments SET assigned = assigned + 1, rounds = rounds + 1")
    (finding,) = audit(f"sqlite:///{path}").findings
    assert "Assignments 6 to 11 are not as they were at the end" in finding


@pytest.mark.parametrize("make", [stopped, finished])
def test_on_every_store(store_url: str, make: object) -> None:
    assert callable(make)
    make(store_url)
    engine = create_engine(store_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        last = "SELECT max(number) FROM bestarm_outcomes WHERE late = 0"
        told = f"UPDATE bestarm_outcomes SET reward = reward + 0.125 WHERE number = ({last})"
        assert connection.execute(text(told)).rowcount == 1
    engine.dispose()
    (finding,) = audit(store_url).findings
    assert "not as they were at the end" in finding


def test_in_memory_too() -> None:
    experiment = Experiment(AnytimeBAI(DRINKS, bounds=(0, 1)), seed=1, clock=Clock())
    experiment.ask(9, request_id="all")
    experiment.tell_many({0: 1.0, 1: 0.0, 4: 1.0})
    experiment.stop()
    experiment.tell(5, 1.0)
    experiment.fail(6)
    assert experiment.verify().findings == ()
    experiment._ledger._rows["reward"][4] = 0.5  # type: ignore[attr-defined]
    (finding,) = experiment.verify().findings
    assert "not as they were at the end" in finding


def test_an_ordinary_outcome_is_no_event() -> None:
    """The log grows with phases, not with outcomes."""
    experiment = Experiment(
        Chained(PROBLEM, kind="randomised", sizes=(500,)), clock=Clock(), seed=0
    )
    before = len(experiment.events())
    for number in experiment.ask(499, request_id="many").ids:
        experiment.tell(number, 0.5)
    assert len(experiment.events()) == before
    experiment.fail(experiment.ask(1).ids[0])
    assert len(experiment.events()) == before


def test_late_outcomes_of_one_call_are_one_event_that_names_them() -> None:
    experiment = Experiment(AnytimeBAI(DRINKS, bounds=(0, 1)), seed=1, clock=Clock())
    experiment.ask(2000)
    experiment.stop()
    experiment.tell_many([(n, 0.5) for n in (7, 3, 4, 5, 1900)])
    experiment.tell_many([(n, 0.5) for n in (7, 3)])  # known: nothing is recorded
    *_, end, late = experiment.events()
    assert (end.kind, late.kind) == ("stopped", "late")
    assert late.data["ids"] == [[3, 6], [7, 8], [1900, 1901]]
    assert ids_in(late.data["ids"]).tolist() == [3, 4, 5, 7, 1900]
    experiment.fail_many([1, 0])
    assert experiment.events()[-1].data["ids"] == [[0, 2]]
    assert ranges(np.empty(0, dtype=np.int64)) == []
    assert experiment.verify().findings == ()


@pytest.mark.parametrize("data", ["[1]", '{"ids": 3}', '{"ids": [[0, 99999999999999]]}', "{}"])
def test_an_event_that_makes_no_sense_is_a_finding(made: Path, tmp_path: Path, data: str) -> None:
    path = Path(shutil.copy(made, tmp_path / "copy.db"))
    change(path, f"UPDATE bestarm_events SET data = '{data}' WHERE kind IN ('late', 'failed')")
    found = audit(f"sqlite:///{path}").findings
    if data == "[1]":  # what follows is not read
        assert any("cannot be read" in each for each in found)
    else:
        assert any("does not have the hash" in each for each in found)
    change(path, f"UPDATE bestarm_events SET data = '{data}' WHERE kind IN ('stopped', 'created')")
    assert not audit(f"sqlite:///{path}").sound
