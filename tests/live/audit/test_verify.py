"""What could be changed in a store without the audit finding it? One test for each way tried."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chained_policies import create_chained
from clocks import Clock
from sqlalchemy import create_engine, text
from tampering import change, changed_copy, findings

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.errors import DamagedStoreError, InvalidInputError, ReplayError
from bestarm.live import draw, summaries
from bestarm.live.audit.verify import SHOWN
from bestarm.live.events import digest, event_hash, ids_in, ranges
from bestarm.live.store import ledger as sql_ledger
from bestarm.live.store.rows import as_data, canonical

DRINKS = Problem(np.eye(3), source_labels=["tea", "coffee", "water"], delta=0.1)
BOUNDS = {"bounds": [0, 1]}
KINDS: dict[str, dict[str, Any]] = {
    "open": {"policy": "anytime", "policy_options": BOUNDS},
    "closed": {"policy": "sp-bai", "policy_options": {"r1": 0.01, "r2": 0.01}},
    "fixed": {"policy": "ae", "policy_options": {"sigma": 0.5}},
}


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def run(
    experiment: Experiment, *, seed: int, rounds: int, means: tuple[float, ...] = (0.5, 0.5, 0.5)
) -> None:
    """Outcomes late, out of order, some never; ids lost with and without an outcome."""
    rng, out = random.Random(seed), list[int]()
    arms: dict[int, int] = {}
    for _ in range(rounds):
        if experiment.finished:
            return
        batch = experiment.ask(rng.randint(1, 40))
        arms |= dict(zip(batch.ids, batch.arms.tolist(), strict=True))
        out += batch.ids
        rng.shuffle(out)
        keep = rng.randint(0, 3)
        now, out = out[keep:], out[:keep]
        for number in now:
            if rng.random() < 0.05:
                experiment.fail(number, "no answer")
                if rng.random() < 0.3:
                    experiment.tell(number, 0.5)
            else:
                experiment.tell(number, float(rng.random() < means[arms[number]]))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One experiment of each kind of plan."""
    folder, paths = tmp_path_factory.mktemp("running"), dict[str, Path]()
    for kind, settings in KINDS.items():
        paths[kind] = folder / f"{kind}.db"
        given: dict[str, Any] = {"seed": 5, "lease": 1e6, "clock": Clock(step=0.25)} | settings
        with Experiment.create(url(paths[kind]), "offer", DRINKS, **given) as experiment:
            run(experiment, seed=1, rounds={"open": 12, "closed": 20, "fixed": 40}[kind])
            experiment.pause()
            experiment.resume()
            experiment.change_lease(2e6)
    return paths


def stopped(place: str) -> None:
    """An experiment with something of all that no summary covers.

    Phase 1 asks for 6 pulls, phase 2 for 30: ids 0 to 5 are summed up, 6 was lost and told late, 7
    was told, 8 lost, 9 told after the end, 10 given up after it, and 11 remains open.
    """
    with create_chained(place, kind="randomised", sizes=[6, 30], description="winds") as experiment:
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


def finished(place: str) -> None:
    """The policy ends it with the first 4: 6 was told by then, 7 lost, and 4 and 5 are open."""
    with create_chained(place, kind="open", sizes=[4], seed=0) as experiment:
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
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ended") / "store.db"
    stopped(url(path))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_nobody_touched_is_sound(running: dict[str, Path], kind: str) -> None:
    with Experiment.open(url(running[kind]), "offer") as experiment:
        report, status = experiment.verify(), experiment.status()
        assert report.findings == ()
        assert report.sound
        assert report.assignments == status.pulls
        assert report.outcomes == len(experiment.outcomes())
        assert report.events == len(experiment.events())
        assert min(report.phases, report.summaries) >= 2
        assert min(status.lost, status.late) > 0
        assert str(report).startswith("sound: ")
        assert experiment.replay().recommendation.target == experiment.recommendation().target


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_what_is_found_does_not_depend_on_the_pieces_read(
    running: dict[str, Path], tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_ledger, "_PIECE", size)
    assert findings(running["open"]) == ()
    reward = "UPDATE bestarm_outcomes SET reward = 1 - reward WHERE number = 40"
    (one, two) = findings(changed_copy(running["open"], tmp_path, reward))
    assert "an arm, an outcome, a forecast, a loss or a time was changed" in one
    assert "add up to" in two


# `test_tampering.py` changes every field; here are the sentences of findings, and rows that are
# gone or never were.
OPEN, EVERY = ("open",), tuple(KINDS)
FIRST = "number = (SELECT min(number) FROM bestarm_deferrals WHERE summary >= 0)"
WHILE_RUNNING = [
    ("UPDATE bestarm_outcomes SET reward = 0.25 WHERE number = 30", "changed since", EVERY),
    ("DELETE FROM bestarm_outcomes WHERE number = 30", "neither told nor lost", EVERY),
    ("UPDATE bestarm_outcomes SET late = 1 WHERE number = 30", "flagged as late", EVERY),
    ("UPDATE bestarm_outcomes SET late = 0 WHERE late = 1", "is not flagged", EVERY),
    ("UPDATE bestarm_assignments SET arm = 77 WHERE number = 17", "has arm 77", EVERY),
    ("UPDATE bestarm_assignments SET probability = 0.4 WHERE number = 8", "probability", EVERY),
    ("UPDATE bestarm_assignments SET phase = phase + 1 WHERE number = 9", "another", EVERY),
    ("DELETE FROM bestarm_assignments WHERE number = 11", "11 to 11 are missing", EVERY),
    ("DELETE FROM bestarm_losses WHERE place = 0 AND phase = 1", "neither told nor lost", OPEN),
    ("DELETE FROM bestarm_losses WHERE place = 0", "", ("fixed",)),
    ("INSERT INTO bestarm_losses SELECT 1, 2, 1, 999, 'x', 1e6", "summary 0 has them", EVERY),
    ("UPDATE bestarm_plans SET plan = '{}' WHERE phase = 2", "cannot be read", OPEN),
    ("UPDATE bestarm_plans SET first = first + 1 WHERE phase = 2", "plan of phase 2", EVERY),
    ("DELETE FROM bestarm_plans WHERE phase = 2", "plan", EVERY),
    ("UPDATE bestarm_summaries SET digest = 'x' WHERE number = 1", "Summary 1 is not", OPEN),
    (
        'UPDATE bestarm_summaries SET "end" = "end" - 1 WHERE number = 0',
        "; the one before ends at",
        EVERY,
    ),
    ("DELETE FROM bestarm_summaries WHERE number = 1", "summary", EVERY),
    (f"DELETE FROM bestarm_deferrals WHERE {FIRST}", "not all are as summary", OPEN),
    (f"UPDATE bestarm_deferrals SET summary = 9999 WHERE {FIRST}", "Summary 9999", OPEN),
    (
        "INSERT INTO bestarm_deferrals SELECT 1, min(number), -1 FROM bestarm_outcomes"
        " WHERE number NOT IN (SELECT number FROM bestarm_deferrals)",
        "not all are as summary 0",
        OPEN,
    ),
    ("UPDATE bestarm_events SET data = '[NaN]' WHERE number = 1", "The record of event 1", OPEN),
    ("UPDATE bestarm_events SET kind = 'changed' WHERE kind = 'paused'", "hash", OPEN),
    ("DELETE FROM bestarm_events WHERE number = 2", "events between are missing", OPEN),
    (
        "DELETE FROM bestarm_events WHERE number = (SELECT max(number) FROM bestarm_events)",
        "cut short",
        OPEN,
    ),
    ("UPDATE bestarm_experiments SET state = 'stopped'", "By the log the state is running", OPEN),
    (
        "UPDATE bestarm_documents SET document = replace(document, '0.1', '0.2')",
        "the problem, the policy",
        OPEN,
    ),
    (
        "UPDATE bestarm_documents SET document = replace(document, '\"seed\":5', '\"seed\":6')",
        "its seed differs",
        OPEN,
    ),
]


@pytest.mark.parametrize(
    ("statement", "finding", "kind"),
    [(statement, finding, kind) for statement, finding, kinds in WHILE_RUNNING for kind in kinds],
)
def test_every_change_is_found(
    running: dict[str, Path], tmp_path: Path, statement: str, finding: str, kind: str
) -> None:
    found = findings(changed_copy(running[kind], tmp_path, statement))
    assert found
    assert finding in "\n".join(found), found


AT_THE_END, REQUESTS = "not as they were at the end", "requests up to"
BEYOND_SUMMARIES = {
    "an outcome": ("UPDATE bestarm_outcomes SET reward = 0.5 WHERE number = 7", AT_THE_END),
    "a loss that is gone": ("DELETE FROM bestarm_losses WHERE number = 8", AT_THE_END),
    "an outcome told after the end": (
        "UPDATE bestarm_outcomes SET reward = 1.5 WHERE number = 9",
        "not those of event",
    ),
    "a late outcome that is gone": ("DELETE FROM bestarm_outcomes WHERE number = 9", "or removed"),
    "what was given up after the end": (
        "UPDATE bestarm_losses SET at = at - 1 WHERE number = 10",
        "given up after the end",
    ),
    "a request before others that is gone": (
        "DELETE FROM bestarm_requests WHERE name = 'first'",
        REQUESTS,
    ),
    "a request that is gone": ("DELETE FROM bestarm_requests WHERE name = 'third'", REQUESTS),
    "a request that never was": (
        "INSERT INTO bestarm_requests SELECT experiment, 'new', 1, 40, 1, 1 "
        "FROM bestarm_requests WHERE name = 'third'",
        "requests on record, the counter says",
    ),
    "an outcome told after the end that no event knows of": (
        "INSERT INTO bestarm_outcomes SELECT experiment, 11, 0.5, told, 1 "
        "FROM bestarm_outcomes WHERE number = 9",
        "outcomes flagged as late, but 2 in the log",
    ),
    "an assignment beyond the last": (
        "INSERT INTO bestarm_assignments SELECT experiment, 12, 12, phase, arm, probability, "
        "asked, NULL FROM bestarm_assignments WHERE number = 11",
        "the counter says 12",
    ),
    "a loss after the end that no event knows of": (
        "INSERT INTO bestarm_losses SELECT experiment, 11, phase, 99, reason, at "
        "FROM bestarm_losses WHERE number = 10",
        AT_THE_END,
    ),
    "a counter of millions of millions": (
        "UPDATE bestarm_experiments SET assigned = 1000000000000",
        "the counter says 1000000000000",
    ),
}


@pytest.mark.parametrize("what", BEYOND_SUMMARIES)
def test_every_change_beyond_the_summaries_is_found(ended: Path, tmp_path: Path, what: str) -> None:
    statement, finding = BEYOND_SUMMARIES[what]
    found = findings(changed_copy(ended, tmp_path, statement))
    assert any(finding in each for each in found), found


def test_an_assignment_drawn_after_the_end_is_found(ended: Path, tmp_path: Path) -> None:
    """It is the one that the seed would have drawn next, and the counter says that it was."""
    with Experiment.open(url(ended), "offer") as experiment, experiment.read() as snapshot:
        weights = snapshot.plan(2).plan.weights
        assert weights is not None
        arm = draw(experiment.seed, 12, weights)
    path = changed_copy(
        ended,
        tmp_path,
        "INSERT INTO bestarm_assignments SELECT experiment, 12, 12, phase, "
        f"{arm}, {float(weights[arm])!r}, asked, NULL "
        "FROM bestarm_assignments WHERE number = 11",
        "UPDATE bestarm_experiments SET assigned = assigned + 1, rounds = rounds + 1",
    )
    (finding,) = findings(path)
    assert "Assignments 6 to 11 are not as they were at the end" in finding


def test_an_id_far_beyond_is_read_where_the_counter_allows_for_it(
    ended: Path, tmp_path: Path
) -> None:
    path = changed_copy(
        ended,
        tmp_path,
        "INSERT INTO bestarm_assignments SELECT experiment, 1000000000000, round, phase, arm, "
        "probability, asked, NULL FROM bestarm_assignments WHERE number = 1",
        "UPDATE bestarm_experiments SET assigned = 1000000000001",
    )
    assert any("to 999999999999 are missing" in each for each in findings(path))
    with Experiment.open(url(path), "offer") as experiment:
        assert len(experiment.assignments()) == 13
        assert experiment.export(tmp_path / "all.csv") == 13


@pytest.mark.parametrize("data", ["[1]", '{"ids": 3}', '{"ids": [[0, 99999999999999]]}', "{}"])
def test_an_event_that_makes_no_sense_is_a_finding(ended: Path, tmp_path: Path, data: str) -> None:
    path = changed_copy(
        ended,
        tmp_path,
        f"UPDATE bestarm_events SET data = '{data}' WHERE kind IN ('late', 'failed')",
        "UPDATE bestarm_experiments SET assigned = 1000000000000",
    )
    # What follows one that cannot be read is not read.
    wrong = "cannot be read" if data == "[1]" else "does not have the hash"
    assert any(wrong in each for each in findings(path))
    change(path, f"UPDATE bestarm_events SET data = '{data}' WHERE kind IN ('stopped', 'created')")
    assert findings(path)


@pytest.mark.parametrize("make", [stopped, finished])
def test_on_every_store(store_url: str, make: Any) -> None:
    make(store_url)
    engine = create_engine(store_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        last = "SELECT max(number) FROM bestarm_outcomes WHERE late = 0"
        told = f"UPDATE bestarm_outcomes SET reward = reward + 0.125 WHERE number = ({last})"
        assert connection.execute(text(told)).rowcount == 1
    engine.dispose()
    with Experiment.open(store_url, "offer") as experiment:
        (finding,) = experiment.verify().findings
    assert AT_THE_END in finding


def test_an_experiment_in_memory_is_verified_too_but_cannot_be_replayed() -> None:
    policy = AnytimeBAI(DRINKS, bounds=(0, 1))
    experiment = Experiment(policy, seed=3, clock=Clock(step=0.25))
    run(experiment, seed=2, rounds=15)
    number = experiment.ask(3).ids[0]
    experiment.tell(number, 1.0)
    experiment.stop()
    experiment.tell(number + 1, 1.0)
    experiment.fail(number + 2)
    assert experiment.verify().findings == ()
    with pytest.raises(InvalidInputError, match="cannot be replayed"):
        experiment.replay()
    with experiment.engine.ledger.store.transaction() as session:
        session.raw.execute(f"UPDATE bestarm_outcomes SET reward = 0.5 WHERE number = {number}")
    (finding,) = experiment.verify().findings
    assert AT_THE_END in finding
    with experiment.engine.ledger.store.transaction() as session:
        session.raw.execute("UPDATE bestarm_assignments SET arm = (arm + 1) % 2 WHERE number = 4")
    assert "draw gives" in "".join(experiment.verify().findings)


# --- who may write anywhere ---------------------------------------------------------------------


def rewrite_events(path: Path, changed: Any) -> str:
    """Write the log again with other times or data, each hash anew; return the last."""
    last = ""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT number, at, kind, data FROM bestarm_events")
        for number, at, kind, written in sorted(rows.fetchall()):
            at, data = changed(kind, at, json.loads(written))  # noqa: PLW2901
            last = event_hash(number, at, kind, data, last)
            values = (at, canonical(data), last, number)
            connection.execute(
                "UPDATE bestarm_events SET at=?, data=?, hash=? WHERE number=?", values
            )
    return last


def test_a_log_written_again_in_full_is_found_by_its_last_hash(
    running: dict[str, Path], tmp_path: Path
) -> None:
    path = Path(shutil.copy(running["open"], tmp_path / "copy.db"))
    rewrite_events(path, lambda kind, at, data: (at - 0.125 * (kind == "paused"), data))
    (finding,) = findings(path)
    assert "last event is not the one kept" in finding


def test_an_outcome_changed_with_all_that_rests_on_it_leaves_only_the_last_hash(
    running: dict[str, Path], tmp_path: Path
) -> None:
    """Who may write anywhere can make all agree but what was noted elsewhere: the last hash."""
    reward = "UPDATE bestarm_outcomes SET reward = 1 - reward WHERE number = 5"
    path = changed_copy(running["open"], tmp_path, reward)
    assert findings(path)
    with Experiment.open(url(path), "offer") as experiment, experiment.read() as snapshot:
        before = snapshot.head.last_hash
        (record, *_) = snapshot.summaries()
        later, _ = snapshot.deferrals()
        summary, rows, _ = summaries.total(
            snapshot.answers(record.first, record.end),
            snapshot.plan(1).plan,
            first=record.first,
            pending=later[later < record.end],
        )
    written = as_data(summary)

    def changed(kind: str, at: float, data: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        first = kind == "closed" and data["phase"] == 1
        return at, data | {"summary": digest(written), "rows": rows} if first else data

    last = rewrite_events(path, changed)
    change(
        path,
        f"UPDATE bestarm_summaries SET summary='{canonical(written)}', digest='{rows}'"
        " WHERE number=0",
        f"UPDATE bestarm_experiments SET last_hash='{last}'",
    )
    assert findings(path) == ()
    assert last != before
    with Experiment.open(url(path), "offer") as experiment:
        # The plans that followed do not follow from what is there now.
        # (The first phase was learned from when its late outcomes were in.)
        assert experiment.replay().remarks[0].phase == 4


@pytest.mark.parametrize("stop", [True, False])
def test_an_experiment_that_ended_is_replayed_to_its_end(sqlite_url: str, stop: bool) -> None:
    with Experiment.create(
        sqlite_url, "offer", DRINKS, policy_options=BOUNDS, seed=2
    ) as experiment:
        run(experiment, seed=3, rounds=1 if stop else 500, means=(1.0, 0.0, 0.0))
        if stop:
            experiment.ask(7)
            experiment.stop("enough")
            outstanding = experiment.assignments().query("state == 'outstanding'")["id"]
            experiment.tell_many(dict.fromkeys(outstanding.tolist(), 1.0))
        assert experiment.verify().findings == ()
        recommendation = experiment.replay().recommendation
        assert recommendation.reason == ("stopped" if stop else "identified")
        assert recommendation.final is not stop
        assert str(recommendation) == str(experiment.recommendation())


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decided") / "store.db"
    with Experiment.create(url(path), "offer", DRINKS, policy_options=BOUNDS, seed=0) as experiment:
        run(experiment, seed=3, rounds=500, means=(1.0, 0.0, 0.0))
    return path


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("finished", {"target": 1}),
        ("finished", {"error_bound": 0.001}),
        ("eliminated", {"targets": [0]}),
    ],
)
def test_a_log_that_says_otherwise_is_a_loud_error(
    decided: Path, tmp_path: Path, kind: str, other: dict[str, object]
) -> None:
    path = Path(shutil.copy(decided, tmp_path / "copy.db"))
    rewrite_events(path, lambda found, at, data: (at, data | other if found == kind else data))
    with (
        Experiment.open(url(path), "offer") as experiment,
        pytest.raises(ReplayError, match="in the log"),
    ):
        experiment.replay()


# --- what cannot be read ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_losses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One phase of 12 pulls and its summary, a second that is open, losses in both; the end."""
    folder, paths = tmp_path_factory.mktemp("losses"), dict[str, Path]()
    for kind in ("randomised", "fixed", "open"):
        paths[kind] = folder / f"{kind}.db"
        with create_chained(url(paths[kind]), kind=kind, sizes=[12, 30]) as experiment:
            experiment.ask(12)
            experiment.fail_many([3, 5], "gone")
            while experiment.phase == 1:
                experiment.ask(2)
                out = experiment.assignments().query("state == 'outstanding' and phase == 1")["id"]
                experiment.tell_many((n, 0.5 * n) for n in out.tolist())
            last = experiment.ask(8).ids
            experiment.fail_many([last[0], last[2]], "gone too")
            experiment.tell(last[1], 0.25)
            experiment.stop("enough")
            assert experiment.verify().findings == ()
    return paths


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
    "no time": "UPDATE bestarm_assignments SET asked = 1e300 WHERE number = 16",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("kind", ["randomised", "fixed", "open"])
@pytest.mark.parametrize("what", UNREADABLE)
def test_what_cannot_be_read_is_one_error_that_names_the_audit(
    with_losses: dict[str, Path], what: str, kind: str, tmp_path: Path
) -> None:
    """Whoever looks either sees something or is told; nobody meets an error of the inside."""
    path = changed_copy(with_losses[kind], tmp_path, UNREADABLE[what])
    table = tmp_path / "all.csv"
    errors: list[DamagedStoreError] = []
    with Experiment.open(url(path), "offer") as experiment:
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
                errors.append(error)
        assert not experiment.verify().sound
    assert all("Experiment.verify" in (error.remedy or "") for error in errors)
    assert errors or what == "a loss of nobody"  # only fixed plans pull it again


def test_a_fixed_plan_of_any_size_is_a_finding(
    with_losses: dict[str, Path], tmp_path: Path
) -> None:
    many = 10**14
    plan = (
        f'{{"center":0.0,"counts":[{many},1,1,1],"extremes":false,"forecasts":null,'
        '"most":null,"open":false,"phase":2,'
        f'"provisional":false,"pulls":{many + 3},"weights":null}}'
    )
    statement = f"UPDATE bestarm_plans SET plan = '{plan}' WHERE phase = 2"
    found = findings(changed_copy(with_losses["fixed"], tmp_path, statement))
    assert any("The plan of phase 2 is not the one of event" in each for each in found), found


# --- the log and the report ---------------------------------------------------------------------


def test_many_findings_of_one_kind_are_counted_not_listed(
    running: dict[str, Path], tmp_path: Path
) -> None:
    statement = "UPDATE bestarm_assignments SET probability = 0.123"
    path = changed_copy(running["open"], tmp_path, statement)
    with Experiment.open(url(path), "offer") as experiment:
        report = experiment.verify()
    assert len(report.findings) <= SHOWN + 2
    assert "more findings of this kind (probability)" in report.findings[-1]
    assert str(report).startswith("NOT SOUND")


def test_late_outcomes_of_one_call_are_one_event_that_names_them() -> None:
    experiment = Experiment(AnytimeBAI(DRINKS, bounds=(0, 1)), seed=1, clock=Clock(step=0.5))
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


def test_memory_stays_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the rows, not ten times the memory: pieces are read one after the other."""
    monkeypatch.setattr(sql_ledger, "_PIECE", 250)

    def peak(rows: int) -> int:
        options = {"max_pulls": 10**6, **BOUNDS}
        place = url(tmp_path / f"{rows}.db")
        with Experiment.create(
            place, "offer", DRINKS, policy_options=options, seed=0
        ) as experiment:
            experiment.tell_many((n, 0.5) for n in experiment.ask(rows).ids)
            tracemalloc.start()
            assert experiment.verify().sound
            size = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return size

    assert peak(10_000) < 2 * peak(1_000)
