"""A store that was tampered with: whoever reads it ends, with one error that says what to do."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chained_policies import PROBLEM, Chained

from bestarm import Experiment
from bestarm.errors import DamagedStoreError
from bestarm.live.audit.chain import Audit


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


def make(path: Path, kind: str) -> None:
    """One phase of 12 pulls and its summary, a second that is open, losses in both; then the end,
    and something given up after it."""
    with Experiment.create(
        f"sqlite:///{path}",
        "trial",
        PROBLEM,
        policy="chained_policies:Chained",
        options={"kind": kind, "sizes": [12, 30]},
        lease=1e6,
        seed=4,
        clock=Clock(),
    ) as trial:
        trial.ask(12, request_id="first")
        trial.fail(3, "gone")
        trial.fail(5, "gone")
        while trial.phase == 1:
            trial.ask(2)
            out = trial.assignments().query("state == 'outstanding' and phase == 1")["id"]
            trial.tell_many((n, 0.5 * n) for n in out.tolist())
        last = trial.ask(8, request_id="second").ids
        trial.fail(last[0], "gone too")
        trial.fail(last[2], "gone too")
        trial.tell(last[1], 0.25)
        trial.stop("enough")
        trial.fail(last[3], "forgotten")
        assert trial.verify().findings == ()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    paths = {kind: folder / f"{kind}.db" for kind in ("randomised", "fixed", "open")}
    for kind, path in paths.items():
        make(path, kind)
    return paths


@pytest.fixture
def tampered(made: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    def change(kind: str, *statements: str) -> Path:
        path = Path(shutil.copy(made[kind], tmp_path / "copy.db"))
        connection = sqlite3.connect(path)
        for statement in statements:
            before = connection.total_changes
            connection.execute(statement)
            assert connection.total_changes > before, f"nothing was changed by {statement}"
        connection.commit()
        connection.close()
        return path

    return change


def opened(path: Path) -> Experiment:
    return Experiment.open(f"sqlite:///{path}", "trial")


def audit(path: Path) -> Audit:
    with opened(path) as trial:
        return trial.verify()


@pytest.mark.parametrize("kind", ["randomised", "fixed", "open"])
def test_a_counter_of_millions_of_millions_is_a_finding_and_no_long_wait(
    tampered: Callable[..., Path], kind: str, tmp_path: Path
) -> None:
    path = tampered(kind, "UPDATE bestarm_experiments SET given = 1000000000000")
    assert any("the counter says 1000000000000" in each for each in audit(path).findings)
    with opened(path) as trial:
        there = len(trial.assignments())
        assert 0 < there < 40
        assert trial.export(tmp_path / "all.csv") == there


def test_an_id_far_beyond_is_read_where_the_counter_allows_for_it(
    tampered: Callable[..., Path],
) -> None:
    path = tampered(
        "randomised",
        "INSERT INTO bestarm_assignments SELECT experiment, 1000000000000, phase, arm, "
        "probability, asked FROM bestarm_assignments WHERE number = 1",
        "UPDATE bestarm_experiments SET given = 1000000000001",
    )
    assert any("to 999999999999 are gone" in each for each in audit(path).findings)


def test_a_fixed_plan_of_any_size_is_a_finding(tampered: Callable[..., Path]) -> None:
    many = 10**14
    plan = (
        f'{{"counts":[{many},1,1,1],"most":null,"open":false,"phase":2,"pulls":{many + 3},'
        '"weights":null}'
    )
    path = tampered("fixed", f"UPDATE bestarm_phases SET plan = '{plan}' WHERE phase = 2")
    found = audit(path).findings
    assert any("The plan of phase 2 is not the one of event" in each for each in found), found


def test_an_event_that_names_more_ids_than_there_are(tampered: Callable[..., Path]) -> None:
    path = tampered(
        "randomised",
        "UPDATE bestarm_events SET data = '{\"ids\": [[0, 999999999999]]}' WHERE kind = 'failed'",
        "UPDATE bestarm_experiments SET given = 1000000000000",
    )
    assert any("What was given up after the end" in each for each in audit(path).findings)


UNREADABLE = {
    "an arm beyond the last": "UPDATE bestarm_assignments SET arm = 77 WHERE number = 16",
    "an arm before the first": "UPDATE bestarm_assignments SET arm = -1 WHERE number = 16",
    "a lost one of no arm": "UPDATE bestarm_assignments SET arm = 77 WHERE number = 3",
    "plans that are gone": "DELETE FROM bestarm_phases",
    "a plan under another phase": "UPDATE bestarm_phases SET phase = 7 WHERE phase = 2",
    "a plan of other arms": (
        "UPDATE bestarm_phases SET plan = '{\"counts\":null,\"most\":null,\"open\":false,"
        "\"phase\":2,\"pulls\":30,\"weights\":[0.5,0.5]}' WHERE phase = 2"
    ),
    "a summary of other arms": (
        "UPDATE bestarm_summaries SET summary = "
        "'{\"counts\":[6,6],\"sums\":[1.0,1.0],\"squares\":[1.0,1.0],\"missing\":[0,0]}'"
    ),
    "a loss of nobody": "DELETE FROM bestarm_assignments WHERE number = 3",
    "no time": "UPDATE bestarm_assignments SET asked = 1e300 WHERE number = 16",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("kind", ["randomised", "fixed", "open"])
@pytest.mark.parametrize("what", UNREADABLE)
def test_what_cannot_be_read_is_one_error_that_names_the_audit(
    tampered: Callable[..., Path], what: str, kind: str, tmp_path: Path
) -> None:
    """Whoever looks either sees something or is told; nobody meets an error of the inside."""
    path = tampered(kind, UNREADABLE[what])
    table = tmp_path / "all.csv"
    said: list[DamagedStoreError] = []
    with opened(path) as trial:
        for look in (
            trial.health,
            trial.assignments,
            trial.outcomes,
            lambda: trial.export(table),
            lambda: trial.export(table, layout="mrt", probabilities=True),
        ):
            try:
                look()
            except DamagedStoreError as error:
                said.append(error)
        report = trial.verify()
    assert all("bestarm experiment verify" in (error.remedy or "") for error in said)
    assert said or what == "a loss of nobody"  # only fixed plans pull it again
    assert not report.sound


EVERY = ("randomised", "fixed", "open")
LOST = "bestarm_losses"
HEAD = "bestarm_experiments"
BEYOND = {
    "the phase of a loss": (
        (f"UPDATE {LOST} SET phase = 2, place = 9 WHERE number = 5",),
        "assignment 5 is on record under phase 2, which is not its own",
    ),
    "the phase of a loss, to one that is not": (
        (f"UPDATE {LOST} SET phase = 9 WHERE number = 5",),
        "assignment 5 is on record under phase 9, which is not its own",
    ),
    "the place of a loss": (
        (f"UPDATE {LOST} SET place = 7 WHERE number = 5",),
        "has place 7 on record",
    ),
    "the places of two losses": (
        (
            f"UPDATE {LOST} SET place = -1 WHERE number = 3",
            f"UPDATE {LOST} SET place = 0 WHERE number = 5",
            f"UPDATE {LOST} SET place = 1 WHERE number = 3",
        ),
        "place after one that was later",
    ),
    "the reason of a loss after the end": (
        (f"UPDATE {LOST} SET reason = 'x' WHERE reason = 'forgotten'",),
        "another reason than logged",
    ),
    "the phase of a plan": (
        ("UPDATE bestarm_phases SET phase = 7 WHERE phase = 2",),
        "plan of phase 7",
    ),
    "the first id of a plan": (
        ("UPDATE bestarm_phases SET first = first + 1 WHERE phase = 2",),
        "The plan of phase 2 is not the one of event",
    ),
    "when it was created": ((f"UPDATE {HEAD} SET created = created - 1",), "The trial has another"),
    "when a request was made": (
        ("UPDATE bestarm_requests SET at = at + 0.25 WHERE name = 'second'",),
        "Request 'second' has another time",
    ),
    "the clock was not behind": ((f"UPDATE {HEAD} SET setback = -1",), "`setback`"),
    "the clock was behind for ever": ((f"UPDATE {HEAD} SET setback = 9e999",), "`setback`"),
    "the last time, earlier": ((f"UPDATE {HEAD} SET at = at - 1",), "`at`"),
    "the last time, never": ((f"UPDATE {HEAD} SET at = 9e999",), "`at`"),
    "the oldest, earlier": ((f"UPDATE {HEAD} SET oldest = oldest - 0.125",), "`oldest`"),
    "the oldest, later": ((f"UPDATE {HEAD} SET oldest = at",), "`oldest`"),
    "the oldest, none": ((f"UPDATE {HEAD} SET oldest = NULL",), "`oldest`"),
    "settled, lower": ((f"UPDATE {HEAD} SET settled = settled - 1",), "`settled`"),
    "settled, higher": ((f"UPDATE {HEAD} SET settled = settled + 1",), "`settled`"),
}


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("what", BEYOND)
def test_what_is_in_no_digest_is_held_against_what_is(
    tampered: Callable[..., Path], what: str, kind: str
) -> None:
    statements, finding = BEYOND[what]
    found = audit(tampered(kind, *statements)).findings
    assert any(finding in each for each in found), found
    assert all(each.endswith(".") for each in found)


def test_a_first_phase_that_is_open_is_held_against_its_event(tmp_path: Path) -> None:
    path = tmp_path / "trial.db"
    options = {"kind": "randomised", "sizes": [12]}
    with Experiment.create(
        f"sqlite:///{path}",
        "trial",
        PROBLEM,
        policy="chained_policies:Chained",
        options=options,
        seed=0,
    ) as trial:
        trial.ask(3)
        assert trial.verify().findings == ()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE bestarm_phases SET phase = 2")
    connection.commit()
    connection.close()
    assert any("it is one of phase 1" in each for each in audit(path).findings)


def test_a_clock_that_went_back_is_on_record(tmp_path: Path) -> None:
    """Times out of order are honest where the counter says by how much; with less they are not."""
    path, clock = tmp_path / "trial.db", Clock()
    options = {"kind": "randomised", "sizes": [12]}
    with Experiment.create(
        f"sqlite:///{path}",
        "trial",
        PROBLEM,
        policy="chained_policies:Chained",
        options=options,
        clock=clock,
        seed=0,
    ) as trial:
        trial.ask(3)
        trial.fail(1)
        clock.now -= 100.0
        trial.ask(3)
        trial.fail(0)
        assert trial.verify().findings == ()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE bestarm_experiments SET setback = 90.0")
    connection.commit()
    connection.close()
    (finding,) = audit(path).findings
    assert finding.startswith("The counter `setback` says 90; times on record go back by 9")


def test_memory_has_losses_as_a_file_has(tmp_path: Path) -> None:
    policy = Chained(PROBLEM, kind="fixed", sizes=(12,))
    create: dict[str, Any] = {
        "policy": "chained_policies:Chained",
        "options": {"kind": "fixed", "sizes": [12]},
        "seed": 0,
    }
    read = []
    for trial in (
        Experiment(policy, clock=Clock(), seed=0),
        Experiment.create(
            f"sqlite:///{tmp_path / 'trial.db'}", "trial", PROBLEM, clock=Clock(), **create
        ),
    ):
        trial.ask(12)
        trial.fail_many([7, 2], "gone")
        trial.fail(4, "gone too")
        with trial._ledger.reading() as books:
            read.append([*map(tuple, books.losses())])
            assert list(books.misdated()) == []
        trial.close()
    assert read[0] == read[1]
    assert [(number, place, why) for number, _, place, why, _ in read[0]] == [
        (7, 0, "gone"),
        (2, 1, "gone"),
        (4, 2, "gone too"),
    ]
