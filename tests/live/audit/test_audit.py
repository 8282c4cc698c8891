"""What could be changed in a store without the audit finding it? One test for each way tried."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.errors import InvalidInputError, ReplayError
from bestarm.live import summaries
from bestarm.live.audit.verify import SHOWN, Audit
from bestarm.live.events import as_data, canonical, chained, digest
from bestarm.live.store.sql import ledger as sql_ledger

DRINKS = Problem(np.eye(3), source_labels=["tea", "coffee", "water"], delta=0.1)
BOUNDS = {"bounds": [0, 1]}


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


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


def make(folder: Path, name: str = "drinks", *, rounds: int = 20, **create: Any) -> Path:
    path = folder / "store.db"
    given: dict[str, Any] = {"seed": 5, "options": BOUNDS, "lease": 1e6} | create
    with Experiment.create(url(path), name, DRINKS, clock=Clock(), **given) as experiment:
        run(experiment, seed=1, rounds=rounds)
        experiment.pause()
        experiment.resume()
        experiment.change_lease(2e6)
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One experiment of each kind of plan."""
    folder = tmp_path_factory.mktemp
    fixed: dict[str, Any] = {"policy": "ae", "options": {"sigma": 0.5}, "rounds": 40}
    return {
        "open": make(folder("open")),
        "closed": make(folder("closed"), policy="sp-bai", options={"r1": 0.01, "r2": 0.01}),
        "fixed": make(folder("fixed"), **fixed),
    }


@pytest.fixture
def copy(kept: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda kind: Path(shutil.copy(kept[kind], tmp_path / "copy.db"))


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        before = connection.total_changes
        connection.execute(statement)
        assert connection.total_changes > before, f"nothing was changed by {statement}"
    connection.commit()
    connection.close()


def verify(path: Path) -> Audit:
    with Experiment.open(url(path), "drinks") as experiment:
        return experiment.verify()


@pytest.mark.parametrize("kind", ["open", "closed", "fixed"])
def test_books_that_nobody_touched_are_sound(kept: dict[str, Path], kind: str) -> None:
    with Experiment.open(url(kept[kind]), "drinks") as experiment:
        report, status = experiment.verify(), experiment.status()
        assert report.findings == ()
        assert report.sound
        assert report.assignments == status.pulls
        assert report.outcomes == len(experiment.outcomes())
        assert report.events == len(experiment.events())
        assert report.phases >= 2
        assert report.summaries >= 2
        assert status.lost
        assert status.late
        assert str(report).startswith("sound: ")
        assert experiment.replay().recommendation.target == experiment.recommendation().target


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_what_is_found_does_not_depend_on_the_pieces_read(
    copy: Callable[[str], Path], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy("open")
    monkeypatch.setattr(sql_ledger, "_PIECE", size)
    assert verify(path).sound
    change(path, "UPDATE bestarm_outcomes SET reward = 1 - reward WHERE number = 100")
    (one, two) = verify(path).findings
    assert "an arm, an outcome, a forecast, a loss or a time was changed" in one
    assert "add up to" in two


EVERY = ("open", "closed", "fixed")
TAMPERED = [
    ("UPDATE bestarm_outcomes SET reward = 0.25 WHERE number = 30", "changed since", EVERY),
    ("UPDATE bestarm_outcomes SET reward = 1e-9 + reward WHERE number = 3", "changed", EVERY),
    ("DELETE FROM bestarm_outcomes WHERE number = 30", "neither told nor lost", EVERY),
    ("UPDATE bestarm_outcomes SET late = 1 WHERE number = 30", "flagged as late", EVERY),
    ("UPDATE bestarm_outcomes SET late = 0 WHERE late = 1", "is not flagged", EVERY),
    ("UPDATE bestarm_assignments SET arm = (arm + 1) % 3 WHERE number = 17", "draw gives", EVERY),
    ("UPDATE bestarm_assignments SET arm = 77 WHERE number = 17", "has arm 77", EVERY),
    ("UPDATE bestarm_assignments SET probability = 0.4 WHERE number = 8", "probability", EVERY),
    ("UPDATE bestarm_assignments SET phase = phase + 1 WHERE number = 9", "another", EVERY),
    ("DELETE FROM bestarm_assignments WHERE number = 11", "11 to 11 are missing", EVERY),
    (
        "DELETE FROM bestarm_losses WHERE place = 0 AND phase = 1",
        "neither told nor lost",
        ("open",),
    ),
    ("DELETE FROM bestarm_losses WHERE place = 0", "", ("open", "fixed")),
    ("INSERT INTO bestarm_losses SELECT 1, 2, 1, 999, 'x', 1e6", "summary 0 has them", EVERY),
    ("UPDATE bestarm_outcomes SET told = told + 1 WHERE number = 3", "a time", EVERY),
    ("UPDATE bestarm_assignments SET asked = asked - 1 WHERE number = 3", "a time", EVERY),
    (
        "UPDATE bestarm_plans SET plan = replace(plan, '\"pulls\":', '\"pulls\":1')"
        " WHERE phase = 1",
        "phase 1",
        EVERY,
    ),
    ("UPDATE bestarm_plans SET plan = '{}' WHERE phase = 2", "cannot be read", EVERY),
    ("UPDATE bestarm_plans SET first = first + 1 WHERE phase = 2", "plan of phase 2", EVERY),
    ("DELETE FROM bestarm_plans WHERE phase = 2", "plan", EVERY),
    (
        "UPDATE bestarm_summaries SET summary = replace(summary, '\"sums\":[', '\"sums\":[1')"
        " WHERE number = 0",
        "Summary 0 is not",
        EVERY,
    ),
    ("UPDATE bestarm_summaries SET digest = 'x' WHERE number = 1", "Summary 1 is not", EVERY),
    ('UPDATE bestarm_summaries SET "end" = "end" - 1 WHERE number = 0', "Summary 1", EVERY),
    ("DELETE FROM bestarm_summaries WHERE number = 1", "summary", EVERY),
    ("UPDATE bestarm_events SET data = '{\"phase\":1}' WHERE number = 1", "Event 1 (", EVERY),
    ("UPDATE bestarm_events SET data = '[NaN]' WHERE number = 1", "The record of event 1", EVERY),
    ("UPDATE bestarm_events SET data = 'nonsense' WHERE number = 1", "event 1 ", EVERY),
    ("UPDATE bestarm_events SET at = at + 1 WHERE number = 2", "Event 2 (", EVERY),
    ("UPDATE bestarm_events SET kind = 'changed' WHERE kind = 'paused'", "hash", EVERY),
    ("DELETE FROM bestarm_events WHERE number = 2", "events between are missing", EVERY),
    (
        "DELETE FROM bestarm_events WHERE number = (SELECT max(number) FROM bestarm_events)",
        "cut short",
        EVERY,
    ),
    ("UPDATE bestarm_experiments SET last_hash = 'x'", "written again", EVERY),
    ("UPDATE bestarm_experiments SET events = events + 1", "cut short", EVERY),
    ("UPDATE bestarm_experiments SET assigned = assigned - 1", "the counter says", EVERY),
    ("UPDATE bestarm_experiments SET name = 'drinks' || ' 2'", "its name differs", EVERY),
    (
        "UPDATE bestarm_documents SET document = replace(document, '0.1', '0.2')",
        "the problem, the policy",
        EVERY,
    ),
    (
        "UPDATE bestarm_documents SET document = replace(document, '\"seed\":5', '\"seed\":6')",
        "its seed differs",
        EVERY,
    ),
]
FIRST = "number = (SELECT min(number) FROM bestarm_deferrals WHERE summary >= 0)"
TAMPERED += [
    (f"DELETE FROM bestarm_deferrals WHERE {FIRST}", "not all are as summary", ("open",)),
    (f"UPDATE bestarm_deferrals SET summary = -1 WHERE {FIRST}", "add up to", ("open",)),
    (f"UPDATE bestarm_deferrals SET summary = 9999 WHERE {FIRST}", "Summary 9999", ("open",)),
    (
        "INSERT INTO bestarm_deferrals SELECT 1, min(number), -1 FROM bestarm_outcomes"
        " WHERE number NOT IN (SELECT number FROM bestarm_deferrals)",
        "not all are as summary 0",
        ("open",),
    ),
]
TAMPERED += [
    ("UPDATE bestarm_experiments SET state = 'stopped'", "By the log the state is running", EVERY),
    ("UPDATE bestarm_experiments SET lease = lease + 1", "By the log the lease is", EVERY),
]


@pytest.mark.parametrize(
    ("statement", "finding", "kind"),
    [(statement, finding, kind) for statement, finding, kinds in TAMPERED for kind in kinds],
)
def test_every_change_is_found(
    copy: Callable[[str], Path], statement: str, finding: str, kind: str
) -> None:
    path = copy(kind)
    change(path, statement)
    (listed,) = Experiment.list(url(path))
    with Experiment.open(url(path), listed.name) as experiment:
        report = experiment.verify()
    assert not report.sound
    assert finding in "\n".join(report.findings), report.findings
    assert all(each.endswith(".") for each in report.findings)


def test_a_log_written_again_in_full_is_found_by_its_last_hash(copy: Callable[[str], Path]) -> None:
    path = copy("open")
    connection, tip = sqlite3.connect(path), ""
    rows = connection.execute("SELECT number, at, kind, data FROM bestarm_events ORDER BY number")
    for number, at, kind, text in rows.fetchall():
        data = json.loads(text)
        moved = at - 0.125 if kind == "paused" else at
        tip = chained(number, moved, kind, data, tip)
        values = (moved, tip, number)
        connection.execute("UPDATE bestarm_events SET at=?, hash=? WHERE number=?", values)
    connection.commit()
    connection.close()
    (finding,) = verify(path).findings
    assert "last event is not the one kept" in finding


def test_an_outcome_changed_with_all_that_rests_on_it_leaves_only_the_last_hash(
    copy: Callable[[str], Path],
) -> None:
    """Who may write anywhere can make all agree but what was noted elsewhere: the last hash."""
    path = copy("open")
    with Experiment.open(url(path), "drinks") as experiment:
        before = experiment.events()[-1].hash
    change(path, "UPDATE bestarm_outcomes SET reward = 1 - reward WHERE number = 5")
    assert not verify(path).sound
    with Experiment.open(url(path), "drinks") as experiment, experiment.read() as books:
        (entry, *_) = books.summaries()
        plan = books.plan(1).plan
        later, _ = books.deferrals()
        summary, rows, _ = summaries.total(
            books.answers(entry.first, entry.end),
            plan,
            first=entry.first,
            pending=later[later < entry.end],
        )
    connection, tip = sqlite3.connect(path), ""
    written = as_data(summary)
    connection.execute(
        "UPDATE bestarm_summaries SET summary=?, digest=? WHERE number=0",
        (canonical(written), rows),
    )
    found = connection.execute("SELECT number, at, kind, data FROM bestarm_events ORDER BY number")
    for number, at, kind, text in found.fetchall():
        data = json.loads(text)
        if kind == "closed" and data["phase"] == 1:
            data |= {"summary": digest(written), "rows": rows}
        tip = chained(number, at, kind, data, tip)
        connection.execute(
            "UPDATE bestarm_events SET data=?, hash=? WHERE number=?",
            (canonical(data), tip, number),
        )
    connection.execute("UPDATE bestarm_experiments SET last_hash=?", (tip,))
    connection.commit()
    connection.close()
    assert verify(path).sound
    assert tip != before
    with Experiment.open(url(path), "drinks") as experiment:
        # The plans that followed do not follow from what is there now.
        # (The first phase was learned from when its late outcomes were in.)
        assert experiment.replay().remarks[0].phase == 3


def test_many_findings_of_one_kind_are_counted_not_listed(copy: Callable[[str], Path]) -> None:
    path = copy("open")
    change(path, "UPDATE bestarm_assignments SET probability = 0.123")
    report = verify(path)
    assert len(report.findings) <= SHOWN + 2
    assert "more findings of this kind (probability)" in report.findings[-1]
    assert str(report).startswith("NOT SOUND")


def test_an_experiment_in_memory_is_verified_too_but_cannot_be_replayed() -> None:
    experiment = Experiment(AnytimeBAI(DRINKS, bounds=(0, 1)), seed=3, clock=Clock())
    run(experiment, seed=2, rounds=15)
    assert experiment.verify().findings == ()
    with pytest.raises(InvalidInputError, match="cannot be replayed"):
        experiment.replay()
    experiment._ledger._rows["arm"][4] += 1  # type: ignore[attr-defined]
    assert not experiment.verify().sound


@pytest.mark.parametrize("stop", [True, False])
def test_an_experiment_that_ended_is_replayed_to_its_end(tmp_path: Path, stop: bool) -> None:
    path = tmp_path / "store.db"
    with Experiment.create(url(path), "drinks", DRINKS, options=BOUNDS, seed=2) as experiment:
        run(experiment, seed=3, rounds=1 if stop else 500, means=(1.0, 0.0, 0.0))
        if stop:
            experiment.ask(7)
            experiment.stop("enough")
            experiment.tell_many(
                (n, 1.0)
                for n in experiment.assignments().query("state == 'outstanding'")["id"].tolist()
            )
        assert experiment.verify().findings == ()
        said = experiment.replay().recommendation
        assert said.reason == ("stopped" if stop else "identified")
        assert said.final is not stop
        assert str(said) == str(experiment.recommendation())


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("finished", "target", 1),
        ("finished", "error_bound", 0.001),
        ("eliminated", "targets", [0]),
    ],
)
def test_a_log_that_says_otherwise_is_a_loud_error(
    tmp_path: Path, kind: str, key: str, value: object
) -> None:
    path = tmp_path / "store.db"
    with Experiment.create(url(path), "drinks", DRINKS, options=BOUNDS, seed=0) as experiment:
        run(experiment, seed=3, rounds=500, means=(1.0, 0.0, 0.0))
    connection = sqlite3.connect(path)
    (number, text), *_ = connection.execute(
        "SELECT number, data FROM bestarm_events WHERE kind = ?", (kind,)
    ).fetchall()
    data = json.loads(text) | {key: value}
    connection.execute("UPDATE bestarm_events SET data=? WHERE number=?", (canonical(data), number))
    connection.commit()
    connection.close()
    with (
        Experiment.open(url(path), "drinks") as experiment,
        pytest.raises(ReplayError, match="in the log"),
    ):
        experiment.replay()


def test_memory_stays_flat(tmp_path: Path) -> None:
    """Ten times the rows, not ten times the memory: pieces are read one after the other."""
    import tracemalloc  # noqa: PLC0415

    def peak(rows: int) -> int:
        path = tmp_path / f"{rows}.db"
        options = {"max_pulls": 10**6, **BOUNDS}
        with Experiment.create(url(path), "drinks", DRINKS, options=options, seed=0) as experiment:
            batch = experiment.ask(rows)
            experiment.tell_many((n, 0.5) for n in batch.ids)
            tracemalloc.start()
            assert experiment.verify().sound
            size = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return size

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql_ledger, "_PIECE", 500)
        assert peak(20_000) < 2 * peak(2_000)
