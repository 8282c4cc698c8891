"""A store that was tampered with: whoever reads it ends, with one error that says what to do."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from chained_policies import PROBLEM

from bestarm import Experiment
from bestarm.errors import DamagedStoreError
from bestarm.live.audit.verify import Audit


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
        "offer",
        PROBLEM,
        policy="chained_policies:Chained",
        options={"kind": kind, "sizes": [12, 30]},
        lease=1e6,
        seed=4,
        clock=Clock(),
    ) as experiment:
        experiment.ask(12, request_id="first")
        experiment.fail(3, "gone")
        experiment.fail(5, "gone")
        while experiment.phase == 1:
            experiment.ask(2)
            out = experiment.assignments().query("state == 'outstanding' and phase == 1")["id"]
            experiment.tell_many((n, 0.5 * n) for n in out.tolist())
        last = experiment.ask(8, request_id="second").ids
        experiment.fail(last[0], "gone too")
        experiment.fail(last[2], "gone too")
        experiment.tell(last[1], 0.25)
        experiment.stop("enough")
        experiment.fail(last[3], "forgotten")
        assert experiment.verify().findings == ()


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
    return Experiment.open(f"sqlite:///{path}", "offer")


def audit(path: Path) -> Audit:
    with opened(path) as experiment:
        return experiment.verify()


@pytest.mark.parametrize("kind", ["randomised", "fixed", "open"])
def test_a_counter_of_millions_of_millions_is_a_finding_and_no_long_wait(
    tampered: Callable[..., Path], kind: str, tmp_path: Path
) -> None:
    path = tampered(kind, "UPDATE bestarm_experiments SET assigned = 1000000000000")
    assert any("the counter says 1000000000000" in each for each in audit(path).findings)
    with opened(path) as experiment:
        there = len(experiment.assignments())
        assert 0 < there < 40
        assert experiment.export(tmp_path / "all.csv") == there


def test_an_id_far_beyond_is_read_where_the_counter_allows_for_it(
    tampered: Callable[..., Path],
) -> None:
    path = tampered(
        "randomised",
        "INSERT INTO bestarm_assignments SELECT experiment, 1000000000000, round, phase, arm, "
        "probability, asked, NULL, NULL FROM bestarm_assignments WHERE number = 1",
        "UPDATE bestarm_experiments SET assigned = 1000000000001",
    )
    assert any("to 999999999999 are missing" in each for each in audit(path).findings)


def test_a_fixed_plan_of_any_size_is_a_finding(tampered: Callable[..., Path]) -> None:
    many = 10**14
    plan = (
        f'{{"center":0.0,"counts":[{many},1,1,1],"extremes":false,"forecasts":null,'
        '"most":null,"open":false,"phase":2,'
        f'"provisional":false,"pulls":{many + 3},"weights":null}}'
    )
    path = tampered("fixed", f"UPDATE bestarm_plans SET plan = '{plan}' WHERE phase = 2")
    found = audit(path).findings
    assert any("The plan of phase 2 is not the one of event" in each for each in found), found


def test_an_event_that_names_more_ids_than_there_are(tampered: Callable[..., Path]) -> None:
    path = tampered(
        "randomised",
        "UPDATE bestarm_events SET data = '{\"ids\": [[0, 999999999999]]}' WHERE kind = 'failed'",
        "UPDATE bestarm_experiments SET assigned = 1000000000000",
    )
    assert any("does not have the hash" in each for each in audit(path).findings)


UNREADABLE = {
    "an arm beyond the last": "UPDATE bestarm_assignments SET arm = 77 WHERE number = 16",
    "an arm before the first": "UPDATE bestarm_assignments SET arm = -1 WHERE number = 16",
    "a lost one of no arm": "UPDATE bestarm_assignments SET arm = 77 WHERE number = 3",
    "plans that are gone": "DELETE FROM bestarm_plans",
    "a plan under another phase": "UPDATE bestarm_plans SET phase = 7 WHERE phase = 2",
    "a plan of other arms": (
        "UPDATE bestarm_plans SET plan = '{\"center\":0.0,\"provisional\":false,"
        "\"counts\":null,\"most\":null,\"open\":false,\"phase\":2,\"pulls\":30,"
        "\"weights\":[0.5,0.5]}' WHERE phase = 2"
    ),
    "a summary of other arms": (
        "UPDATE bestarm_summaries SET summary = "
        "'{\"counts\":[6,6],\"sums\":[1.0,1.0],\"squares\":[1.0,1.0],\"missing\":[0,0],"
        "\"pending\":[0,0],\"center\":0.0}'"
    ),
    "a loss of nobody": "DELETE FROM bestarm_assignments WHERE number = 3",
    "an outcome's flag that is a text": "UPDATE bestarm_outcomes SET late = 'no'",
    "a summary's flag that is a text": "UPDATE bestarm_summaries SET late = 'no'",
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
    with opened(path) as experiment:
        for look in (
            experiment.health,
            experiment.assignments,
            experiment.outcomes,
            lambda: experiment.export(table),
            lambda: experiment.export(table, layout="mrt", probabilities=True),
        ):
            try:
                look()
            except DamagedStoreError as error:
                said.append(error)
        report = experiment.verify()
    assert all("Experiment.verify" in (error.remedy or "") for error in said)
    assert said or what == "a loss of nobody"  # only fixed plans pull it again
    assert not report.sound


EVERY = ("randomised", "fixed", "open")
BEYOND = {
    "the phase of a plan": (
        "UPDATE bestarm_plans SET phase = 7 WHERE phase = 2",
        "plan of phase 7",
    ),
    "the first id of a plan": (
        "UPDATE bestarm_plans SET first = first + 1 WHERE phase = 2",
        "The plan of phase 2 is not the one of event",
    ),
}


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("what", BEYOND)
def test_what_is_in_no_digest_is_held_against_what_is(
    tampered: Callable[..., Path], what: str, kind: str
) -> None:
    statement, finding = BEYOND[what]
    found = audit(tampered(kind, statement)).findings
    assert any(finding in each for each in found), found
    assert all(each.endswith(".") for each in found)


def test_a_first_phase_that_is_open_is_held_against_its_event(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    options = {"kind": "randomised", "sizes": [12]}
    with Experiment.create(
        f"sqlite:///{path}",
        "offer",
        PROBLEM,
        policy="chained_policies:Chained",
        options=options,
        seed=0,
    ) as experiment:
        experiment.ask(3)
        assert experiment.verify().findings == ()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE bestarm_plans SET phase = 2")
    connection.commit()
    connection.close()
    assert any("it is one of phase 1" in each for each in audit(path).findings)
