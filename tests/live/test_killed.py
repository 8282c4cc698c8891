"""Workers are killed at any instant, many times over: what was acknowledged is there, once.

What is proved is read from the tables themselves, not through the code that wrote them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import workers_killed
from people import OPTIONS, rows_of
from people import PROBLEM as DRINKS
from sqlalchemy import Connection, create_engine, select
from workers_killed import (
    LEASE,
    LEAST,
    PROBLEM,
    Level,
    ask_with_covariates,
    change_options,
    read,
    reward,
    settings,
)
from workers_started import HANG_TIMEOUT, processes

from bestarm import Problem
from bestarm.live import Experiment, draw
from bestarm.live.store import Store
from bestarm.live.store import schema as s
from bestarm.live.store.rows import as_data
from bestarm.policies import Policy
from bestarm.policies.registry import make_policy, policies
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary, round_robin

WORKERS, KILLS = 3, 12
BEFORE, AFTER = 9, 10  # requests with forecasts made before anybody is killed, and in all
OPENING = 13  # statements that only read, before the first request
WINDOW_KILLS, REPORTING, CALLS = 3, 2, 60  # kills of two processes, each after so many reports


def test_nothing_is_lost_or_given_twice_when_workers_are_killed(
    store_url: str, tmp_path: Path
) -> None:
    random, seeds = Random(5), iter(range(10**6))

    def start(worker: int) -> BaseProcess:
        arguments = (store_url, tmp_path, f"worker {worker}", next(seeds))
        process = processes.Process(target=workers_killed.work, args=arguments)
        process.start()
        return process

    running = [start(worker) for worker in range(WORKERS)]
    try:
        for _ in range(KILLS):
            time.sleep(random.expovariate(1 / 0.1))
            victim = random.randrange(WORKERS)
            running[victim].kill()
            running[victim].join(HANG_TIMEOUT)
            assert running[victim].exitcode == -9
            if random.random() < 0.3:
                time.sleep(1.5 * LEASE)  # what it held is lost before it is back
            running[victim] = start(victim)
        (tmp_path / "enough").touch()
        for process in running:
            process.join(HANG_TIMEOUT)
            assert process.exitcode == 0
    finally:
        for process in running:
            process.kill()
    assert prove(store_url, tmp_path) >= LEAST


@pytest.mark.parametrize(("turn", "step"), [(0, 1), (4, 2)])
def test_whoever_is_killed_before_any_statement_can_be_followed(
    turn: int, step: int, sqlite_url: str, tmp_path: Path
) -> None:
    climb(sqlite_url, tmp_path, turn, step)


def test_whoever_is_killed_before_any_statement_to_a_server_can_be_followed(
    postgres_url: str, tmp_path: Path
) -> None:
    climb(postgres_url, tmp_path, 4, step=7)


def kill_until_done(work: Callable[[int], tuple[Any, ...]]) -> int:
    """How many workers kill themselves, each of them given how many did before, until one ends."""
    kills = 0
    while True:
        target, *arguments = work(kills)
        process = processes.Process(target=target, args=tuple(arguments))
        process.start()
        process.join(HANG_TIMEOUT)
        if process.exitcode == 0:
            return kills
        assert process.exitcode == -9
        kills += 1


def climb(url: str, folder: Path, turn: int, step: int) -> None:
    """Kill the first at its first statement, the next a little later, until one comes through.

    The tables are there: `tests/live/store/test_schema.py` kills those who make them.
    """
    store = Store(url)
    store.prepare()
    store.close()
    kills = kill_until_done(
        lambda kills: (workers_killed.work_until, url, folder, "worker", turn, 1 + step * kills)
    )
    assert step * kills > 50  # statements
    prove(url, folder)


def test_guardrails_retire_once_whoever_is_killed(sqlite_url: str, tmp_path: Path) -> None:
    """Every acknowledged value is there once, and the retirement with its finding."""
    diary, rounds, step = tmp_path / "diary", 14, 11
    rails = {"refund": {"bounds": [0, 1], "worse_by": 0.05, "action": "retire"}}
    options = {"control": "tea", "changes": True, "bounds": [0, 1]}
    Experiment.create(
        sqlite_url, "guarded", PROBLEM, policy_options=options, guardrails=rails, seed=4
    ).close()
    kills = kill_until_done(
        lambda kills: (
            workers_killed.guard_until,
            sqlite_url,
            diary,
            rounds,
            OPENING + step * kills,
        )
    )
    assert kills > 8
    with Experiment.open(sqlite_url, "guarded") as experiment:
        kinds = Counter(event.kind for event in experiment.events())
        assert (kinds["guardrail"], kinds["retired"]) == (1, 1)
        frame = experiment.outcomes()
        assert len(frame) == 10 * rounds
        arms = experiment.assignments()["arm"]
        assert (frame["refund"] == (arms == 2)).all()
        assert experiment.verify().sound
        experiment.replay()


def forecasts_of(experiment: Experiment) -> list[Any]:
    return list(rows_of(experiment)[["forecast", "covariates"]].itertuples(index=False, name=None))


def test_forecasts_stay_whatever_statement_a_worker_is_killed_before(
    sqlite_url: str,
) -> None:
    settings: dict[str, Any] = {"policy_options": OPTIONS, "seed": 1, "forecaster": Level()}
    with Experiment.create(sqlite_url, "killed", DRINKS, **settings) as experiment:
        ask_with_covariates(experiment, 0, BEFORE)
        stored, kills = forecasts_of(experiment), 0
        while True:
            arguments = (sqlite_url, "killed", BEFORE, AFTER, OPENING + kills + 1)
            process = processes.Process(target=workers_killed.forecast_until, args=arguments)
            process.start()
            process.join(HANG_TIMEOUT)
            before, stored = stored, forecasts_of(experiment)
            assert stored[: len(before)] == before
            if process.exitcode == 0:
                break
            assert process.exitcode == -9
            kills += 1
        assert kills > 5
        assert experiment.outcomes()["id"].tolist() == list(range(2 * AFTER))
        assert experiment.verify().sound
    settings["forecaster"] = Level()
    with Experiment.create(sqlite_url, "uninterrupted", DRINKS, **settings) as experiment:
        ask_with_covariates(experiment, 0, AFTER)
        assert forecasts_of(experiment) == stored
        assert len({forecast for forecast, _ in stored}) > AFTER


def test_acknowledged_reports_survive_kills(store_url: str, tmp_path: Path) -> None:
    """What is told within a window is on record, and counts."""
    problem = Problem(np.eye(3), source_labels=["old", "new", "video"], delta=1e-9)
    limits = {"window": 0.2, "otherwise": 0.25}
    Experiment.create(store_url, "shop", problem, bounds=(0, 1), seed=3, **limits).close()  # type: ignore[arg-type]
    files = [tmp_path / f"{n}.txt" for n in range(REPORTING)]
    for kill in range(WINDOW_KILLS):
        before = [len(acknowledged_in(file)) for file in files]
        workers = list[BaseProcess]()
        for file in files:
            arguments = (store_url, file, f"{kill} {file.name}")
            workers.append(processes.Process(target=workers_killed.report, args=arguments))
            workers[-1].start()
        while any(len(acknowledged_in(f)) < n + CALLS for f, n in zip(files, before, strict=True)):
            assert all(worker.is_alive() for worker in workers)
            time.sleep(0.01)
        for worker in workers:
            worker.kill()
            worker.join(HANG_TIMEOUT)
    with Experiment.open(store_url, "shop") as experiment:
        while experiment.status().outstanding:
            time.sleep(0.05)
            experiment.expire()
        reports, outcomes = experiment.reports(), experiment.outcomes()
        assert experiment.verify().findings == ()
        experiment.replay()
    columns = zip(reports["id"], reports["reward"], reports["late"], strict=True)
    known = Counter((int(number), float(to), bool(late)) for number, to, late in columns)
    acknowledged = Counter(line for file in files for line in acknowledged_in(file))
    assert not acknowledged - known
    # A process that is killed may have one call that was carried out and not acknowledged.
    assert (known - acknowledged).total() <= WINDOW_KILLS * REPORTING
    in_order = reports[["id", "reward", "late"]].to_numpy().tolist()
    last = {number: to for number, to, late in in_order if not late}
    for number, counted in zip(outcomes["id"], outcomes["reward"], strict=True):
        assert counted == last.get(number, 0.25)
    assert len(outcomes) > len(last) > 0


@pytest.mark.parametrize("kind", ["provisional", "open"])
def test_options_come_and_go_whoever_is_killed(kind: str, sqlite_url: str, tmp_path: Path) -> None:
    change_and_climb(sqlite_url, tmp_path / "done.txt", kind, step=5)


def test_options_on_a_server_come_and_go_whoever_is_killed(
    postgres_url: str, tmp_path: Path
) -> None:
    change_and_climb(postgres_url, tmp_path / "done.txt", "provisional", step=9)


def change_and_climb(url: str, done: Path, kind: str, step: int) -> None:
    """Each is killed a little later than the one before, until one comes through.

    After every kill what was acknowledged is there, and the record is sound; in the end it is that
    of somebody whom nobody killed.
    """
    given: dict[str, Any] = {"policy": "changing_policies:Even", "seed": 3}
    given["policy_options"] = {"kind": kind, "sizes": [8] * 12}
    problem, kills = Problem(["old", "new", "video", "quiz"]), 0
    with Experiment.create(url, "killed", problem, **given) as experiment:
        while True:
            arguments = (url, "killed", done, 1 + step * kills)
            process = processes.Process(target=workers_killed.change_until, args=arguments)
            process.start()
            process.join(HANG_TIMEOUT)
            with experiment.read() as snapshot:
                changes = [f"{each.kind} {each.label}" for each in snapshot.changes()]
            lines = done.read_text().splitlines() if done.exists() else []
            acknowledged = list(dict.fromkeys(lines))
            assert changes[: len(acknowledged)] == acknowledged
            assert len(changes) <= len(acknowledged) + 1
            assert experiment.verify().findings == ()
            if process.exitcode == 0:
                break
            assert process.exitcode == -9
            kills += 1
        assert step * kills > 50  # statements
        assert len(acknowledged) == 4
        experiment.replay()
        with Experiment.create(url, "uninterrupted", problem, **given) as other:
            change_options(other)
            assert record(experiment) == record(other)


def record(experiment: Experiment) -> list[Any]:
    """What is on record, without times."""
    with experiment.read() as snapshot:
        rows = [row for piece in snapshot.rows(0, snapshot.head.assigned) for row in piece]
        names = ("id", "phase", "arm", "probability", "reward", "late")
        return [
            [[str(row[name]) for name in names] for row in rows],
            [as_data(each.plan) for each in snapshot.plans()],
            [(each.phase, each.late, as_data(each.summary)) for each in snapshot.summaries()],
            [(each.phase, each.kind, each.label) for each in snapshot.changes()],
            [each.kind for each in snapshot.events()],
        ]


def acknowledged_in(file: Path) -> list[tuple[int, float, bool]]:
    """What was acknowledged; the last line may be cut."""
    text = file.read_text() if file.exists() else ""
    parts = [line.split() for line in text.split("\n")[:-1]]
    return [(int(number), float(to), late == "1") for number, to, late in parts]


def prove(url: str, folder: Path) -> int:
    """Check each experiment of a store against itself, the diaries and an uninterrupted run."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in read(path)]
    engine = create_engine(str(url).replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        names = dict(connection.execute(select(s.experiments.c.name, s.experiments.c.id)).all())
        assert set(names) == {f"experiment {line['turn']}" for line in lines}
        for name, experiment in names.items():
            turn = int(name.split()[1])
            tables = Tables(connection, experiment)
            tables.check(turn, [line for line in lines if line["turn"] == turn])
            with Experiment.open(url, name) as opened:
                assert opened.state == "finished"
                found = plain(opened.recommendation())
            assert found == plain(tables.replayed(settings(turn)).recommend())
            if not tables.phases[0]["plan"]["open"]:
                assert found == plain(uninterrupted(turn, tables).recommendation())
    engine.dispose()
    return len(names)


class Tables:
    """All there is on one experiment, in plain values."""

    def __init__(self, connection: Connection, experiment: int) -> None:
        def rows(table: Any, order: str) -> list[dict[str, Any]]:
            wanted = select(table).where(table.c.experiment == experiment).order_by(table.c[order])
            return [dict(row) for row in connection.execute(wanted).mappings()]

        wanted = select(s.experiments).where(s.experiments.c.id == experiment)
        self.head = dict(connection.execute(wanted).mappings().one())
        self.assignments = rows(s.assignments, "number")
        self.outcomes = {row["number"]: row for row in rows(s.outcomes, "number")}
        self.losses = rows(s.losses, "place")
        self.requests = rows(s.requests, "first")
        self.phases = rows(s.plans, "phase")
        self.entries = rows(s.summaries, "number")
        self.events = rows(s.events, "number")
        self.deferred = {row["number"]: row["summary"] for row in rows(s.deferrals, "number")}
        for phase in self.phases:
            phase["plan"] = json.loads(phase["plan"])
        self.lost = {row["number"] for row in self.losses}

    def check(self, turn: int, lines: list[dict[str, Any]]) -> None:
        """Raise unless all is as it was acknowledged, and as it must be."""
        self._check_assignments(lines)
        self._check_outcomes(lines)
        self._check_phases(turn)
        self._check_entries()
        self._check_log()

    def _check_assignments(self, lines: list[dict[str, Any]]) -> None:
        given = len(self.assignments)
        assert [row["number"] for row in self.assignments] == list(range(given))
        assert self.head["assigned"] == given
        # The requests share out all ids among themselves, and were made by one worker each.
        ends = [row["first"] + row["size"] for row in self.requests]
        assert [row["first"] for row in self.requests] == [0, *ends[:-1]]
        assert ends[-1] == given
        asked = {line["asking"]: line["count"] for line in lines if "asking" in line}
        assert len(asked) == sum("asking" in line for line in lines)
        for row in self.requests:
            assert asked[row["name"]] == row["count"] >= row["size"]
        made = {row["name"]: row for row in self.requests}
        for line in lines:
            if "given" in line and line["ids"]:
                row = made[line["given"]]
                ids = list(range(row["first"], row["first"] + row["size"]))
                assert line["ids"] == ids
                assert line["arms"] == [self.assignments[number]["arm"] for number in ids]

    def _check_outcomes(self, lines: list[dict[str, Any]]) -> None:
        told = [(number, value) for line in lines for number, value in line.get("told", ())]
        for number, value in told:
            assert self.outcomes[number]["reward"] == value
        (end,) = (event["at"] for event in self.events if event["kind"] == "finished")
        for number, row in self.outcomes.items():
            assert row["reward"] == reward(number, self.assignments[number]["arm"])
            over = row["told"] >= end
            assert bool(row["late"]) == (number in self.lost or over)
        assert len(self.lost) == len(self.losses) == self.head["losses"]
        late = sum(row["late"] for row in self.outcomes.values())
        assert (self.head["late"], self.head["outcomes"]) == (late, len(self.outcomes) - late)

    def _check_phases(self, turn: int) -> None:
        assert [row["phase"] for row in self.phases] == list(range(1, len(self.phases) + 1))
        firsts = [row["first"] for row in self.phases]
        assert [row["place"] for row in self.losses] == list(range(len(self.losses)))
        for row, end in zip(self.phases, [*firsts[1:], len(self.assignments)], strict=True):
            phase, plan, first = row["phase"], row["plan"], row["first"]
            members = self.assignments[first:end]
            assert all(each["phase"] == phase for each in members)
            losses = [each for each in self.losses if each["phase"] == phase]
            arms = [each["arm"] for each in members]
            if not plan["open"] and (phase < len(self.phases) or self.head["state"] == "finished"):
                assert len(members) == plan["pulls"] + len(losses)
                kept = [each["number"] for each in members if each["number"] not in self.lost]
                assert all(number in self.outcomes for number in kept)
            if plan["counts"] is not None:
                again = [self.assignments[each["number"]]["arm"] for each in losses]
                assert arms == [*round_robin(np.array(plan["counts"])), *again][: len(arms)]
                assert all(each["probability"] == 1 for each in members)
            else:
                weights = plan["weights"]
                assert arms == [draw(turn, each["number"], weights) for each in members]
                assert [each["probability"] for each in members] == [weights[arm] for arm in arms]

    def _check_entries(self) -> None:
        closing = [row for row in self.entries if not self._amends(row)]
        ends = [row["end"] for row in closing]
        assert [row["first"] for row in closing] == [0, *ends[:-1]]
        assert self.head["summary_end"] == ends[-1] <= len(self.assignments)
        for row in self.entries:
            assert json.loads(row["summary"]) == as_data(self._summary(row))
        numbers = {row["number"] for row in self.entries if self._amends(row)}
        assert numbers == set(self.deferred.values()) - {-1}

    def _amends(self, entry: dict[str, Any]) -> bool:
        provisional = self.phases[entry["phase"] - 1]["plan"]["provisional"]
        return bool(entry["late"] and provisional)

    def _summary(self, entry: dict[str, Any]) -> Summary:
        """The totals of an entry, counted again one by one in order of id."""
        arms = PROBLEM.arms
        counts, missing, pending = np.zeros((3, arms), dtype=np.int64)
        sums, squares, cubes, least, largest = np.zeros((5, arms))
        plan = self.phases[entry["phase"] - 1]["plan"]
        center = plan["center"]
        for row in self.assignments[entry["first"] : entry["end"]]:
            number, arm = row["number"], row["arm"]
            if self._amends(entry) and self.deferred.get(number) != entry["number"]:
                continue
            if number in self.deferred and not self._amends(entry):
                pending[arm] += 1
            elif number in self.lost:
                missing[arm] += plan["open"]
            else:
                value = self.outcomes[number]["reward"] - center
                counts[arm] += 1
                sums[arm] += value
                squares[arm] += value * value
                cubes[arm] += value * value * value
                least[arm] = min(value, least[arm]) if counts[arm] > 1 else value
                largest[arm] = max(value, largest[arm]) if counts[arm] > 1 else value
        known = counts, sums, squares, missing, pending, center
        return Summary(*known, least, largest, cubes=cubes)

    def _check_log(self) -> None:
        tip = ""
        for number, row in enumerate(self.events):
            assert row["number"] == number
            whole = [number, row["at"], row["kind"], json.loads(row["data"]), tip]
            text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
            tip = hashlib.sha256(text.encode()).hexdigest()
            assert row["hash"] == tip
        assert (self.head["last_hash"], self.head["events"]) == (tip, len(self.events))
        kinds = Counter(row["kind"] for row in self.events)
        assert kinds["created"] == kinds["finished"] == 1
        assert kinds["planned"] == len(self.phases)
        assert kinds["closed"] + kinds["answered"] == len(self.entries)

    def replayed(self, made_with: dict[str, Any]) -> Policy:
        """A policy told the entries, counted again from the outcomes."""
        policy = make(made_with)
        phase = 1  # of the plan that was out then
        for row in self.entries:
            plan = self.phases[phase - 1]["plan"]
            policy.adopt(read_plan(plan))
            phase = phase if row["late"] else row["phase"] + 1
            if row["late"]:
                policy.amend(self._summary(row), phase=row["phase"])
            else:
                policy.update(self._summary(row))
        return policy


def read_plan(data: dict[str, Any]) -> Plan:
    values: dict[str, Any] = {n: np.array(v) if isinstance(v, list) else v for n, v in data.items()}
    return Plan(**values)


def make(made_with: dict[str, Any]) -> Policy:
    options = {
        n: tuple(v) if isinstance(v, list) else v for n, v in made_with["policy_options"].items()
    }
    method = policies()[made_with["policy"]].method
    policy: Policy = make_policy(partial(method, **options), PROBLEM, seed=made_with["seed"])
    return policy


def uninterrupted(turn: int, tables: Tables) -> Experiment:
    """The experiment in memory, one call after the other, with the same outcomes and losses."""
    experiment = Experiment(make(settings(turn)), seed=turn)
    for phase in tables.phases:
        given = list(experiment.ask(10**6))
        for row in tables.losses:
            if row["phase"] == phase["phase"]:
                experiment.fail(row["number"])
                given += experiment.ask(10**6)
        assert [each.phase for each in given] == [phase["phase"]] * len(given)
        for each in given:
            row = tables.assignments[each.id]
            assert (each.arm, each.probability) == (row["arm"], row["probability"])
            if each.id in tables.outcomes:
                experiment.tell(each.id, tables.outcomes[each.id]["reward"])
    assert experiment.finished
    logged = [(row["kind"], json.loads(row["data"])) for row in tables.events[1:]]
    logged = [each for each in logged if each[0] != "changed"]  # its lease
    mine = [(each.kind, each.data) for each in experiment.events(1)]
    assert untimed(mine) == untimed(logged)
    return experiment


def untimed(events: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Events without what hangs on when something was asked for or told, and by whom."""
    apart = {"rows", "told", "rest", "waiting"}
    return [
        (kind, {name: value for name, value in data.items() if name not in apart})
        for kind, data in events
        if kind != "late"
    ]


def plain(recommendation: Recommendation) -> object:
    """A recommendation in values that are equal only if every bit is.

    Without the certified gaps of designs, which a record of plans does not hold.
    """
    trace = tuple(replace(phase, gap=None) for phase in recommendation.trace)
    values = asdict(replace(recommendation, trace=trace))
    return json.loads(json.dumps(values, default=lambda value: value.tolist()))
