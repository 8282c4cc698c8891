"""What a page shows of an experiment is what the library knows, and costs what happened since."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import accumulate
from threading import Event
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem
from bestarm.errors import InvalidInputError
from bestarm.live import Experiment
from bestarm.live.store.rows import SummaryRecord
from bestarm.live.values import Checks
from bestarm.live.watch.overview import Overview, Watch, from_evidence, overview
from bestarm.policies.policy import Look
from bestarm.records import Plan

LABELS = ["tea", "coffee", "<script>alert(1)</script>", "a \"b\" 'c' \\ü🙂"]
MEANS = np.array([0.2, 0.5, 0.3, 0.35])
BOUNDED = {"bounds": [0, 1]}


def rewards(arms: np.ndarray, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    drift = 0.2 * np.sin(ids / 60)
    return np.asarray(rng.random(len(arms)) < MEANS[arms] + 0.1 + drift, dtype=float)


def drive(experiment: Experiment, pulls: int, *, batch: int = 40, lose: float = 0.0) -> None:
    """Ask and tell so many, the last ones of every batch first, some of them never."""
    rng = np.random.default_rng(experiment.status().pulls)
    for _ in range(pulls // batch):
        given = experiment.ask(batch)
        if not len(given) or not given.experiment:
            return
        ids = np.array(given.ids)
        told = rewards(given.arms, ids, rng)
        kept = rng.random(len(ids)) >= lose
        experiment.fail_many(ids[~kept].tolist())
        experiment.tell_many(zip(ids[kept][::-1].tolist(), told[kept][::-1].tolist(), strict=True))


@pytest.fixture
def problem() -> Problem:
    return Problem(np.eye(4), delta=0.05, source_labels=LABELS)


@pytest.fixture
def experiment(sqlite_url: str, problem: Problem) -> Iterator[Experiment]:
    with Experiment.create(
        sqlite_url, "café / 1".replace("/", "-"), problem, policy_options=BOUNDED, seed=0
    ) as made:
        yield made


def plain(seen: Overview) -> dict[str, Any]:
    """As values that can be compared."""
    read: dict[str, Any] = json.loads(json.dumps(asdict(seen), default=str))
    return read


def test_every_number_is_the_librarys(experiment: Experiment) -> None:
    drive(experiment, 400, lose=0.05)
    seen, recommendation, status = (
        overview(experiment),
        experiment.recommendation(),
        experiment.status(),
    )
    assert [each.target for each in seen.leaderboard if each.status == "leads"] == [
        recommendation.target
    ]
    left = {each.target for each in seen.leaderboard if each.status != "out"}
    assert left == set(recommendation.active)
    known = experiment.inspect(lambda policy, _: policy.intervals())  # type: ignore[attr-defined]
    values = experiment.inspect(lambda policy, _: policy.evidence())  # type: ignore[attr-defined]
    rates = experiment.inspect(lambda policy, _: policy.rates())
    assert rates is not None
    assert (seen.rated, seen.unit.percent) == (rates.rounds, True)
    assert seen.outcomes_used == int(experiment.outcomes()["id"].lt(seen.used).sum())
    for each in seen.leaderboard:
        assert each.behind == pytest.approx(known.estimate[each.target])
        assert each.low == pytest.approx(known.low[each.target])
        assert each.high == pytest.approx(known.high[each.target])
        share = math.log(values[each.target]) / math.log(20 / 0.91)  # 9 % of δ are for changes
        expected = 1 if each.status == "out" else min(max(share, 0), 1)
        assert each.evidence == pytest.approx(expected)
    frame = experiment.assignments().merge(
        experiment.outcomes()[["id", "reward"]], on="id", how="left"
    )
    frame = frame[frame["id"] < seen.used]  # what the policy was told of
    assert seen.used == recommendation.pulls
    phases, counts = np.unique(frame["phase"], return_counts=True)
    for row in seen.allocation:
        mine = frame[frame["arm"] == row.arm]
        told = mine[mine["reward"].notna()]
        assert (row.drawn, row.answered) == (len(mine), len(told))
        [option] = [each for each in seen.leaderboard if each.arm == row.arm]
        assert option.pulls == len(told)
        assert option.rate == pytest.approx(rates.estimate[option.target])
        assert option.rate_low == pytest.approx(rates.low[option.target])
        assert option.rate_high == pytest.approx(rates.high[option.target])
        assert option.raw_mean == pytest.approx(told["reward"].mean())
        planned = sum(
            weight(experiment, phase, row.arm) * count
            for phase, count in zip(phases.tolist(), counts.tolist(), strict=True)
        )
        assert row.planned == pytest.approx(planned)
    assert (seen.head.assigned, seen.head.losses) == (status.pulls, status.lost)
    assert seen.head.losses > 0
    possible = f"{len(recommendation.active)} of 4 options are still possible."
    assert seen.verdict == f"No winner yet: ‘{recommendation.label}’ leads, {possible}"
    assert Watch(experiment).headline() == f"No winner yet: {possible}"
    assert seen.proven
    assert seen.recommendation.assumptions == recommendation.assumptions


def weight(experiment: Experiment, phase: int, arm: int) -> float:
    plan = experiment.inspect(lambda _, snapshot: snapshot.plan(phase).plan)
    assert plan.weights is not None
    return float(plan.weights[arm])


def test_following_shows_what_a_first_look_shows(experiment: Experiment, sqlite_url: str) -> None:
    watch = Watch(experiment)
    for _ in range(12):
        drive(experiment, 120, lose=0.02)
        seen = watch.overview()
    with Experiment.open(sqlite_url, experiment.name) as other:
        assert lasting(overview(other)) == lasting(seen)


def lasting(seen: Overview) -> dict[str, Any]:
    """What does not depend on when or by whom one looks: health is asked now and then, pace falls,
    and whoever creates an experiment may import more than who opens it."""
    spec = replace(seen.spec, allowed=None)
    return plain(replace(seen, spec=spec, health=Checks(), pace=None, hours=None))


def test_answers_that_come_after_their_plan_was_closed(experiment: Experiment) -> None:
    rng = np.random.default_rng(5)
    waiting: list[tuple[int, float]] = []
    for _ in range(6):
        given = experiment.ask(100)  # more than the plan asks for
        told = rewards(given.arms, np.array(given.ids), rng).tolist()
        waiting += zip(given.ids, told, strict=True)
        experiment.tell_many(waiting[:70])
        overview(experiment)
        experiment.tell_many(waiting[70:])
        waiting = []
    assert sum(event.kind == "answered" for event in experiment.events()) >= 5
    seen = overview(experiment)
    known = experiment.inspect(lambda policy, _: policy.intervals())  # type: ignore[attr-defined]
    assert seen.used == experiment.recommendation().pulls == 600
    for each in seen.leaderboard:
        assert each.low == pytest.approx(known.low[each.target])
    assert sum(row.planned for row in seen.allocation) == pytest.approx(600)


def test_table_and_log_name_the_phase_whose_outcomes_dropped_an_option(sqlite_url: str) -> None:
    """Outcomes that come late drop it while a later phase is open; all places name theirs."""
    late: list[int] = []
    with Experiment.create(sqlite_url, "late", ["old", "new"], bounds=(0, 1), seed=0) as experiment:
        watch = Watch(experiment)
        for _ in range(10):
            given = experiment.ask(30)
            late += [each.id for each in given if each.label == "old"]
            experiment.tell_many((each.id, 1) for each in given if each.label == "new")
            watch.overview()
        assert experiment.phase > 5
        experiment.tell_many(dict.fromkeys(late, 0))
        events = list(experiment.events())
        kinds = [event.kind for event in events]
        dropped = events[kinds.index("eliminated")]
        before = events[: dropped.number]
        open_phase = max(event.data["phase"] for event in before if event.kind == "planned")
        assert kinds[dropped.number - 1] == "answered"
        assert dropped.data["phase"] < open_phase
        for seen in (watch.overview(), overview(experiment)):
            [old] = [each for each in seen.leaderboard if each.label == "old"]
            assert old.status == "out"
            [out] = [each for each in seen.story if each.event.kind == "eliminated"]
            assert out.words == "‘old’ is ruled out."
            assert out.event == dropped


def test_an_option_without_an_outcome_does_not_lead(sqlite_url: str) -> None:
    with Experiment.create(sqlite_url, "lost", ["old", "new"], bounds=(0, 1), seed=0) as experiment:
        for each in experiment.ask(20):
            if each.label == "old":
                experiment.fail(each.id)
            else:
                experiment.tell(each.id, 0)
        seen, recommendation = overview(experiment), experiment.recommendation()
        status = experiment.to_frame()["status"].tolist()
    assert seen.outcomes_used
    assert seen.verdict == "No winner yet: 2 of 2 options are still possible."
    assert {each.status for each in seen.leaderboard} == {"in"}
    assert status == ["possible", "possible"]
    assert "'old' leads" not in recommendation.statement
    assert str(recommendation).startswith("no leader yet: the outcomes that would show one")


@pytest.mark.parametrize("seed", [1, 4])  # the two that are left look far apart, or close
def test_phases_of_a_budget_are_shown_without_a_forecast(sqlite_url: str, seed: int) -> None:
    """Sequential halving compares means alone, and drops the worse half whatever they are."""
    with Experiment.create(
        sqlite_url,
        "halving",
        ["old", "new", "odd"],
        policy="sequential-halving",
        policy_options={"budget": 40},
        seed=seed,
    ) as experiment:
        phases = set()
        while not experiment.finished:
            seen = overview(experiment)
            assert seen.forecast is not None
            assert (seen.forecast.expected, seen.forecast.high) == (None, None)
            assert seen.forecast.low == seen.head.remaining
            phases.add(seen.head.phase)
            experiment.tell_many([(each.id, each.arm) for each in experiment.ask(10)])
        assert len(phases) > 1
        assert overview(experiment).leaderboard[0].label == "odd"


def test_it_follows_to_the_winner(experiment: Experiment) -> None:
    while not experiment.finished:
        drive(experiment, 400)
    seen, recommendation = overview(experiment), experiment.recommendation()
    assert recommendation.final
    assert seen.leaderboard[0].label == recommendation.label == "coffee"
    assert seen.leaderboard[0].status == "best"
    pulls = f"{recommendation.pulls:,}"
    assert seen.verdict == f"‘coffee’ is the best of 4 options, at 95 % after {pulls} assignments."
    assert Watch(experiment).headline() == seen.verdict
    assert seen.forecast is None
    assert seen.health == experiment.health()
    assert {each.status for each in seen.leaderboard[1:]} == {"out"}
    # Every line of one that was dropped ends where its evidence is enough.
    for line in seen.timeline.evidence[1:]:
        assert line.out
        assert line.y[-1] is not None
        assert line.y[-1] >= 1
        assert all(y is not None and y < 1 for y in line.y[:-1])


def test_what_the_policy_knows_is_computed_once_for_each_step(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many options that takes seconds, whoever looks how often."""
    computed: list[int] = []
    look = AnytimeBAI.look

    def counted(policy: AnytimeBAI) -> Look | None:
        computed.append(len(computed))
        return look(policy)

    monkeypatch.setattr(AnytimeBAI, "look", counted)
    drive(experiment, 400)
    watch = Watch(experiment)
    first, often = watch.overview(), len(computed)
    assert lasting(watch.overview()) == lasting(first)
    experiment.tell_many(dict.fromkeys(experiment.ask(3).ids, 0.5))  # no phase closes
    seen = watch.overview()
    assert (seen.head.revision, len(computed)) == (experiment.revision, often)
    assert seen.head.revision != first.head.revision
    drive(experiment, 80)
    assert watch.overview().recommendation.pulls > first.recommendation.pulls
    assert len(computed) > often
    assert lasting(watch.overview()) == lasting(overview(experiment))


def test_single_outcomes_are_never_read(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive(experiment, 1000)
    watch = Watch(experiment)
    watch.overview()
    drive(experiment, 200)
    monkeypatch.setattr(Experiment, "health", lambda _: ())
    snapshot: Any = experiment.inspect(lambda _, found: type(found))
    read: list[tuple[str, int]] = []
    for name in ("rows", "answers", "outstanding"):
        monkeypatch.setattr(snapshot, name, None)
    summaries = snapshot.summaries

    def counted(self: Any, start: int = 0) -> Iterator[SummaryRecord]:
        read.append(("summaries", start))
        yield from summaries(self, start)

    monkeypatch.setattr(snapshot, "summaries", counted)
    watch.overview()
    watch.overview()
    assert all(start > 10 for _, start in read), "summaries that are known were read again"


def test_phases_of_an_elimination_policy(sqlite_url: str, problem: Problem) -> None:
    with Experiment.create(sqlite_url, "phases", problem, policy="sp-bai", seed=0) as experiment:
        first = overview(experiment)
        assert first.timeline.kind == "none"
        assert first.forecast is not None
        assert first.forecast.low == experiment.status().remaining
        rng = np.random.default_rng(1)
        while experiment.phase < 3 and not experiment.finished:
            given = experiment.ask(5000)
            told = 0.3 * MEANS[given.arms] + 0.2 * rng.standard_normal(len(given))
            experiment.tell_many(zip(given.ids, told.tolist(), strict=True))
        seen, recommendation = overview(experiment), experiment.recommendation()
        trace = recommendation.trace
        assert not seen.proven
        assert "no error probability is proven" in seen.reliability
        assert seen.timeline.kind == "phases"
        assert seen.decided is None
        assert seen.forecast is None or seen.forecast.basis.startswith("This phase as planned")
        sums = accumulate(each.pulls for each in trace)
        pulls = dict(zip((each.phase for each in trace), sums, strict=True))
        for option, line in zip(seen.leaderboard, seen.timeline.lines, strict=True):
            there = [phase for phase in trace if option.target in phase.active]
            place = there[-1].active.index(option.target)
            assert option.behind == pytest.approx(there[-1].contrasts[place])
            assert option.radius == pytest.approx(there[-1].radii[place])
            assert line.x == tuple(pulls[phase.phase] for phase in there)
        plain(seen)


def test_a_policy_that_keeps_no_record_can_be_seen(sqlite_url: str, problem: Problem) -> None:
    with Experiment.create(sqlite_url, "lucb", problem, policy="lucb", seed=0) as experiment:
        drive(experiment, 200)
        seen = overview(experiment)
        assert seen.timeline.kind == "none"
        assert plain(seen)["leaderboard"][0]["behind"] is None


def test_options_that_are_no_arms(sqlite_url: str) -> None:
    problem = Problem(
        np.eye(3), [[1, 1, 0], [0, 1, 1]], source_labels=["x", "y", "z"], target_labels=["p", "q"]
    )
    with Experiment.create(
        sqlite_url, "targets", problem, policy_options=BOUNDED, seed=0
    ) as experiment:
        drive(experiment, 400)
        seen = overview(experiment)
        assert [each.pulls for each in seen.leaderboard] == [None, None]
        assert {line.label for line in seen.baseline.raw} == {"x", "y", "z"}


def test_several_winners_and_a_tolerance(sqlite_url: str, problem: Problem) -> None:
    options = {**BOUNDED, "top": 2, "tolerance": 0.3}
    with Experiment.create(
        sqlite_url, "several", problem, policy_options=options, seed=0
    ) as experiment:
        while not experiment.finished:
            drive(experiment, 400)
        seen, recommendation = overview(experiment), experiment.recommendation()
        names = [problem.target_labels[target] for target in recommendation.chosen]
        assert seen.verdict.startswith(
            f"‘{names[0]}’ and ‘{names[1]}’ are within 30 points of the 2 best"
        )
        assert Watch(experiment).headline() == seen.verdict
        assert [each.target for each in seen.leaderboard[:2]] == list(recommendation.chosen)
        last = [line.y[-1] for line in seen.timeline.evidence if line.out]
        assert all(value is not None and value >= 1 for value in last)


def test_states_in_words(experiment: Experiment, sqlite_url: str, problem: Problem) -> None:
    drive(experiment, 120)
    experiment.pause()
    assert overview(experiment).verdict.startswith("Paused, no winner yet: ‘")
    assert Watch(experiment).headline().startswith("Paused, no winner yet: ")
    experiment.stop("<b>enough</b>")
    seen = overview(experiment)
    assert seen.verdict.startswith("Stopped by hand, without a winner: ‘")
    assert Watch(experiment).headline().startswith("Stopped by hand, without a winner: ")
    assert seen.forecast is None
    assert seen.story[0].words == "Stopped by hand: <b>enough</b>"
    capped = {**BOUNDED, "max_pulls": 80}
    with Experiment.create(sqlite_url, "capped", problem, policy_options=capped, seed=0) as short:
        assert overview(short).forecast is None
        drive(short, 40)
        forecast = overview(short).forecast
        assert forecast is not None
        assert forecast.high is not None
        assert forecast.high <= 40
        drive(short, 80)
        assert short.finished
        start = "Ended at its limit of assignments, without a winner: ‘"
        assert overview(short).verdict.startswith(start)
        assert Watch(short).headline().startswith(start)


def test_data_that_contradict_what_was_declared(sqlite_url: str, problem: Problem) -> None:
    declared = Problem(np.eye(4), noise=0.1, baseline=0.1)
    with Experiment.create(sqlite_url, "scales", declared, seed=0) as experiment:
        given = experiment.ask(60)
        experiment.tell_many([(number, 50.0) for number in given.ids])
        seen = overview(experiment)
        assert not seen.proven
        assert experiment.recommendation().statement in seen.contradictions
        assert "nothing is proven" in seen.reliability
        assert seen.verdict.endswith("contradict the declared scales, so nothing is proven.")
        levels = {check.name: check.level for check in seen.health}
        assert levels["range"] == "alarm"
        assert seen.health == experiment.health()
    with Experiment.create(
        sqlite_url, "bounds", problem, policy_options=BOUNDED, seed=0
    ) as experiment:
        experiment.ask(5)
        with pytest.raises(InvalidInputError):
            experiment.tell(0, 7.0)
        seen = overview(experiment)
        assert seen.proven  # it was refused, and is reported
        assert "refused" in seen.contradictions[0]


def test_an_experiment_in_memory_cannot_be_watched(problem: Problem) -> None:
    with pytest.raises(InvalidInputError, match="cannot be watched"):
        overview(Experiment(AnytimeBAI(problem, bounds=(0, 1)), seed=0))


def test_nothing_is_forecast_from_evidence_that_starts_anew_after_a_change(
    experiment: Experiment,
) -> None:
    drive(experiment, 400)
    assert overview(experiment).forecast is not None
    experiment.retire(LABELS[2], reason="refunds")
    assert overview(experiment).forecast is None


@pytest.mark.parametrize("evidence", [-0.5, 0.0, 1.0, 2.5])
def test_forecasts_are_quantiles_of_the_walk_they_assume(evidence: float) -> None:
    # Drawn instead of integrated: z = √(2gn) known up to a normal deviate, then a first passage.
    # 200 000 draws: a share is off by 0.005 in one of 10⁵ tests; the grid adds 0.01.
    level, pulls, rng = math.log(20), 1000, np.random.default_rng(7)
    score = math.sqrt(2 * max(evidence + 1, 0.1)) + rng.standard_normal(200_000)
    growth = np.square(score) / (2 * pulls)
    lacking = level - evidence
    passed = rng.wald(lacking / growth, lacking**2 / (2 * growth))
    passed[score <= 0] = math.inf
    found = from_evidence(pulls, evidence, level)
    for share, value in ((0.2, found.low), (0.5, found.expected), (0.8, found.high)):
        if value is None:
            assert np.mean(passed <= 300 * pulls) < share + 0.015
        else:
            assert np.mean(passed <= value) == pytest.approx(share, abs=0.015)


def test_many_options_are_all_on_the_board(sqlite_url: str) -> None:
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((300, 3)))
    with Experiment.create(
        sqlite_url, "many", problem, policy_options={"bounds": [-9, 9]}, seed=0
    ) as experiment:
        given = experiment.ask(200)
        experiment.tell_many([(number, 0.5) for number in given.ids])
        seen = overview(experiment)
        assert len(seen.leaderboard) == 300
        assert len(seen.timeline.lines) < 50
        assert sorted(each.target for each in seen.leaderboard) == list(range(300))
        assert replace(seen, name="x").name == "x"


def test_a_glance_does_not_wait_for_a_policy(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive(experiment, 400)
    watch = Watch(experiment)
    expected = watch.headline()
    thinking, enough = Event(), Event()
    plan = AnytimeBAI.plan

    def slowly(policy: AnytimeBAI) -> Plan | None:
        thinking.set()
        assert enough.wait(120)
        return plan(policy)

    monkeypatch.setattr(AnytimeBAI, "plan", slowly)
    with ThreadPoolExecutor(2) as pool:
        seen = pool.submit(watch.overview)
        try:
            assert thinking.wait(120)
            assert pool.submit(watch.headline).result(timeout=120) == expected
            assert not seen.done()
        finally:
            enough.set()
        assert seen.result(timeout=120).head.state == "running"
