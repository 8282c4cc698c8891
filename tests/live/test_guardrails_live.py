"""Guardrails of live experiments: values, findings, their record, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clocks import Clock

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.errors import (
    ConflictingOutcomeError,
    InvalidInputError,
    ReplayError,
    UnknownAssignmentError,
)
from bestarm.live.store.ledger import Transaction
from bestarm.live.store.rows import GuardrailValue
from bestarm.live.tell import end_guardrail_windows
from bestarm.live.values import Receipt

LABELS = ["old", "new", "bold"]
REFUND = {"bounds": [0, 1], "worse_by": 0.05, "alpha": 0.05, "action": "alert"}
RATES = np.array([0.1, 0.1, 0.6])  # of refunds


def create(path: Path, name: str = "shop", **given: Any) -> Experiment:
    settings: dict[str, Any] = {
        "bounds": (0, 1),
        "policy_options": {"control": "old", "max_pulls": 5000},
        "guardrails": {"refund": REFUND},
        "seed": 3,
    }
    problem = Problem(given.pop("labels", LABELS))
    return Experiment.create(f"sqlite:///{path}", name, problem, **settings | given)


def in_memory(**given: Any) -> Experiment:
    policy = AnytimeBAI(Problem(LABELS), bounds=(0, 1), control="old", max_pulls=5000)
    return Experiment(policy, seed=3, guardrails={"refund": REFUND}, **given)


@pytest.fixture(params=["memory", "sqlite"])
def experiment(request: pytest.FixtureRequest, tmp_path: Path) -> Experiment:
    return in_memory() if request.param == "memory" else create(tmp_path / "store.db")


def serve(
    experiment: Experiment,
    count: int,
    seed: int = 0,
    tell: Callable[[int, float, float], object] | None = None,
) -> None:
    """Have so many assignments made, with outcomes that are all alike, and refunds."""
    rng = np.random.default_rng(seed)
    for _ in range(0, count, 20):
        for each in experiment.ask(20):
            reward, refund = float(rng.random() < 0.5), float(rng.random() < RATES[each.arm])
            if tell is None:
                experiment.tell(each.id, reward, refund=refund)
            else:
                tell(each.id, reward, refund)


def found(experiment: Experiment) -> list[tuple[str, str]]:
    events = [event for event in experiment.events() if event.kind == "guardrail"]
    return [(event.data["guardrail"], event.data["label"]) for event in events]


# --- findings -------------------------------------------------------------------------------------


def test_an_option_that_is_worse_is_alerted_once(experiment: Experiment) -> None:
    serve(experiment, 600)
    assert found(experiment) == [("refund", "bold")]
    rows = {row.label: row for row in experiment.guardrails()}
    assert rows["bold"].state == "worse"
    assert rows["bold"].low is not None
    assert rows["bold"].low > REFUND["worse_by"]  # type: ignore[operator]
    assert rows["new"].state in {"unclear", "fine"}
    assert "old" not in rows
    assert experiment.verify().sound


def test_values_told_late_are_found_with_the_next_plan(experiment: Experiment) -> None:
    later: list[tuple[int, float]] = []

    def without(number: int, reward: float, refund: float) -> None:
        later.append((number, refund))
        experiment.tell(number, reward)

    serve(experiment, 600, tell=without)
    assert found(experiment) == []
    experiment.tell_many([(number, {"refund": refund}) for number, refund in later])
    assert found(experiment) == []  # until a phase closes
    serve(experiment, 200, seed=1, tell=without)
    assert found(experiment) == [("refund", "bold")]
    assert experiment.verify().sound


def test_the_main_decision_never_depends_on_alerts(tmp_path: Path) -> None:
    with create(tmp_path / "store.db") as one, create(tmp_path / "store.db", "other") as other:
        serve(one, 600)
        serve(other, 600, tell=lambda number, reward, refund: other.tell(number, reward))
        with one.read() as here, other.read() as there:
            plans = [[each.plan.shares.tolist() for each in of.plans()] for of in (here, there)]
        assert plans[0] == plans[1]
        assert found(one)
        assert not found(other)


def test_who_opens_it_finds_the_same(tmp_path: Path) -> None:
    """Another process computes the same evidence to the bit, whenever values were told."""
    path = tmp_path / "store.db"
    with create(path) as experiment:
        later: list[tuple[int, float]] = []

        def some(number: int, reward: float, refund: float) -> None:
            if number % 3:
                experiment.tell(number, reward, refund=refund)
            else:
                experiment.tell(number, reward)
                later.append((number, refund))
            if len(later) > 40:
                experiment.tell_many([(each, {"refund": value}) for each, value in later])
                later.clear()

        serve(experiment, 700, tell=some)
        here = experiment.guardrails()
        assert found(experiment)
    with Experiment.open(f"sqlite:///{path}", "shop") as again:
        assert again.guardrails() == here
        again.replay()
        serve(again, 100, seed=2)
        assert len(found(again)) == 1
        again.replay()


def test_a_replay_finds_a_finding_without_evidence(tmp_path: Path) -> None:
    from bestarm.live.events import log  # noqa: PLC0415

    with create(tmp_path / "store.db") as experiment:
        serve(experiment, 200)
        [event] = [each for each in experiment.events() if each.kind == "guardrail"]
        experiment.replay()
        with experiment.engine.ledger.transaction() as tx:
            log(tx, "guardrail", event.at, **event.data | {"target": 1, "label": "new"})
        with pytest.raises(ReplayError, match="without evidence"):
            experiment.replay()


def test_a_replay_misses_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bestarm.live.guardrails import GuardrailReplayer  # noqa: PLC0415

    with create(tmp_path / "store.db") as experiment:
        monkeypatch.setattr(GuardrailReplayer, "find", lambda *_: [])
        serve(experiment, 400)
        with pytest.raises(ReplayError, match="was to be found worse"):
            experiment.replay()


# --- windows --------------------------------------------------------------------------------------

WINDOWED = REFUND | {"window": 3600, "otherwise": 0}


def serve_refunds(experiment: Experiment, clock: Clock, count: int, seed: int = 0) -> None:
    """Have assignments made by the minute, and tell of refunds alone."""
    rng = np.random.default_rng(seed)
    for _ in range(0, count, 20):
        clock.now += 600
        for each in experiment.ask(20):
            experiment.tell(each.id, float(rng.random() < 0.5))
            if rng.random() < RATES[each.arm]:
                experiment.tell(each.id, refund=1)


def values_of(experiment: Experiment) -> dict[int, float]:
    with experiment.read() as snapshot:
        told = [(each.assignment, each.value) for each in snapshot.records(GuardrailValue)]
    assert len(dict(told)) == len(told)  # one of each
    return dict(told)


@pytest.mark.parametrize("stored", [False, True])
def test_with_a_window_nobody_tells_zeros(tmp_path: Path, stored: bool) -> None:
    clock, rails = Clock(), {"refund": WINDOWED}
    if stored:
        experiment = create(tmp_path / "store.db", guardrails=rails, clock=clock)
    else:
        policy = AnytimeBAI(Problem(LABELS), bounds=(0, 1), control="old", max_pulls=5000)
        experiment = Experiment(policy, seed=3, guardrails=rails, clock=clock)
    serve_refunds(experiment, clock, 1200)
    values = values_of(experiment)
    assert set(values.values()) == {0.0, 1.0}
    assert set(range(1000)) <= values.keys()  # those whose window has ended, an hour ago
    assert found(experiment) == [("refund", "bold")]
    assert {row.label: row.state for row in experiment.guardrails()}["new"] != "worse"
    if stored:
        experiment.replay()
    assert experiment.verify().sound


def test_who_continues_takes_the_same_zeros(tmp_path: Path) -> None:
    """Many processes, one after the other, leave the values that one process does."""
    found_by = []
    for name, processes in (("one", 1), ("many", 8)):
        clock = Clock()
        create(tmp_path / name, name, guardrails={"refund": WINDOWED}, clock=clock).close()
        for part in range(processes):
            with Experiment.open(f"sqlite:///{tmp_path / name}", name, clock=clock) as experiment:
                for at in range(part * 24 // processes, (part + 1) * 24 // processes):
                    serve_refunds(experiment, clock, 20, seed=at)
                values = values_of(experiment)
        found_by.append(values)
    assert len(found_by[0]) > 0
    assert found_by[0] == found_by[1]


def test_a_step_that_is_interrupted_adds_its_zeros_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with create(tmp_path / "store.db", guardrails={"refund": WINDOWED}, clock=clock) as experiment:
        serve_refunds(experiment, clock, 400)
        before = values_of(experiment)

        def interrupted(*given: Any) -> None:
            if isinstance(given[0], Transaction):
                end_guardrail_windows(*given)  # and the transaction is not committed
            raise KeyboardInterrupt

        clock.now += 7200
        for place in ("tell.end_guardrail_windows", "close.prepare"):
            with monkeypatch.context() as patch:
                patch.setattr(f"bestarm.live.{place}", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    serve_refunds(experiment, clock, 400, seed=1)
            zeros = sum(value == 0 for value in values_of(experiment).values())
            grown = zeros > sum(value == 0 for value in before.values())
            assert grown is (place == "close.prepare")
        serve_refunds(experiment, clock, 200, seed=2)
        assert before.items() < values_of(experiment).items()
        experiment.replay()
        assert experiment.verify().sound


def test_a_value_after_its_window_is_late(tmp_path: Path) -> None:
    clock = Clock()
    with create(tmp_path / "store.db", guardrails={"refund": WINDOWED}, clock=clock) as experiment:
        experiment.ask(3)
        clock.now += 3599
        assert experiment.tell(0, refund=1) == Receipt(0, 0, 0, values=1)
        clock.now += 1
        assert experiment.tell(1, refund=1) == Receipt(0, 0, 1)
        assert experiment.tell(0, refund=1) == Receipt(0, 0, 0)
        assert experiment.tell(0, refund=0) == Receipt(0, 0, 1)
        assert values_of(experiment) == {0: 1.0}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"window": "1d"}, "lacks `otherwise`"),
        ({"otherwise": 0}, "lacks `window`"),
        ({"window": "soon", "otherwise": 0}, "`window`"),
        ({"window": "1d", "otherwise": 2}, "`otherwise` of 'refund' must lie between 0 and 1"),
    ],
)
def test_a_window_has_a_value_for_its_end(more: dict[str, Any], words: str) -> None:
    policy = AnytimeBAI(Problem(LABELS), bounds=(0, 1), control="old")
    with pytest.raises(InvalidInputError, match=words):
        Experiment(policy, guardrails={"refund": REFUND | more})


# --- values ---------------------------------------------------------------------------------------


def test_a_value_is_told_with_the_reward_later_or_never(experiment: Experiment) -> None:
    experiment.ask(4)
    assert experiment.tell(0, 1, refund=True) == Receipt(1, 0, 0, values=1)
    assert experiment.tell(1, 0) == Receipt(1, 0, 0)
    assert experiment.tell(1, refund=0) == Receipt(0, 0, 0, values=1)
    assert experiment.tell(2, refund=0.5) == Receipt(0, 0, 0, values=1)
    assert experiment.tell(2, 1) == Receipt(1, 0, 0)
    assert experiment.tell(0, 1, refund=1) == Receipt(0, 1, 0)  # repeating is harmless
    assert str(experiment.tell(3, 1, refund=1)) == "1 outcome and 1 guardrail value recorded"
    with experiment.read() as snapshot:
        values = [(each.assignment, each.value) for each in snapshot.records(GuardrailValue)]
    assert values == [(0, 1.0), (1, 0.0), (2, 0.5), (3, 1.0)]


def test_many_are_told_at_once(experiment: Experiment) -> None:
    experiment.ask(6)
    frame = pd.DataFrame(
        {"id": [0, 1, 2], "reward": [1.0, np.nan, 0.0], "refund": [0.0, 1.0, np.nan], "told": 0}
    )
    assert experiment.tell_many(frame) == Receipt(2, 0, 0, values=2)
    told: Any = {3: {"reward": 1, "refund": 0}, 4: 1}
    assert experiment.tell_many(told) == Receipt(2, 0, 0, values=1)
    assert experiment.tell_many([(5, {"refund": 0}), (1, 1)]) == Receipt(1, 0, 0, values=1)
    assert experiment.tell_many(frame[["id", "refund"]]) == Receipt(0, 0, 0)
    with experiment.read() as snapshot:
        assert snapshot.head.values == 4
        assert snapshot.head.outcomes == 5


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        ((0, {"reward": 1, "refund": 1.5}), InvalidInputError, "`refund` must lie between 0 and 1"),
        ((0, {"reward": 1, "refund": "x"}), InvalidInputError, "`refund` must be a finite number"),
        ((0, {"reward": 1, "refund": None}), InvalidInputError, "`refund` must be a finite number"),
        ((0, {"reward": 1, "refunds": 1}), InvalidInputError, "has no guardrail 'refunds'"),
        ((9, {"refund": 1}), UnknownAssignmentError, "Assignment 9 was never given out"),
        ((1, {"reward": 1, "refund": 0}), ConflictingOutcomeError, "'refund' was already told"),
        ((1, {"reward": 0, "refund": 1}), ConflictingOutcomeError, "already told 1, now 0"),
        ((0, {"reward": 7, "refund": 1}), InvalidInputError, "`reward` must lie between"),
    ],
)
def test_what_is_refused_leaves_nothing(
    experiment: Experiment, told: Any, error: type[Exception], words: str
) -> None:
    experiment.ask(3)
    experiment.tell(1, 1, refund=1)
    with pytest.raises(error, match=words):
        experiment.tell_many([told, (2, {"reward": 1, "refund": 0})])
    with experiment.read() as snapshot:
        assert (snapshot.head.outcomes, snapshot.head.values) == (1, 1)
        outside = told[1].get("refund") == 1.5
        assert snapshot.head.refused_values == outside
    assert experiment.tell(0, 1, refund=1).values == 1


def test_without_guardrails_there_are_none(tmp_path: Path) -> None:
    with create(tmp_path / "store.db", guardrails=None) as experiment:
        experiment.ask(1)
        with pytest.raises(
            InvalidInputError,
            match=r"has no guardrail 'refund'\. It has none: the outcome itself is the `reward`\.",
        ):
            experiment.tell(0, 1, refund=0)
        assert experiment.guardrails() == []


def test_values_told_after_the_end_are_kept(experiment: Experiment) -> None:
    serve(experiment, 60)
    experiment.ask(1)
    experiment.stop()
    assert experiment.tell(60, 1, refund=1).late == 1
    assert experiment.verify().sound
    assert experiment.guardrails()[0].values == 61


# --- creation -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policy_options": {"max_pulls": 10}}, "none is named"),
        ({"policy": "uniform", "policy_options": {"budget": 30}, "bounds": None}, "none is named"),
        ({"policy_options": {"control": "old", "block": 2}}, "drawn one at a time"),
        ({"guardrails": {"told": REFUND}}, "cannot be called 'told'"),
    ],
)
def test_guardrails_that_do_not_fit_are_refused(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        create(tmp_path / "store.db", **given)


def test_the_guardrails_of_a_stored_experiment_read_back(tmp_path: Path) -> None:
    rails = {"refund": REFUND, "revenue": {"bounds": [-2, 50], "worse_by": 1, "worse": "lower"}}
    rails["revenue"]["action"] = "alert"
    with create(tmp_path / "store.db", guardrails=rails) as made:
        with Experiment.open(f"sqlite:///{tmp_path / 'store.db'}", "shop") as opened:
            assert opened.spec is not None
            assert made.spec is not None
            assert opened.spec.guardrails == made.spec.guardrails
        assert [row.guardrail.name for row in made.guardrails()] == ["refund"] * 2 + ["revenue"] * 2


# --- retiring -------------------------------------------------------------------------------------

RETIRING = {"control": "old", "max_pulls": 5000, "changes": True}


def retiring(path: Path, **given: Any) -> Experiment:
    rails = {"refund": REFUND | {"action": "retire"}}
    return create(path, policy_options=RETIRING, guardrails=rails, **given)


def test_an_option_that_is_worse_is_retired(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with retiring(path) as experiment:
        serve(experiment, 400)
        assert found(experiment) == [("refund", "bold")]
        kinds = [event.kind for event in experiment.events()]
        assert kinds[kinds.index("guardrail") + 1] == "retired"
        [event] = [each for each in experiment.events() if each.kind == "retired"]
        assert (event.data["label"], event.data["made_by"]) == ("bold", "guardrail refund")
        assert "worse than the control in refund" in event.data["reason"]
        end = experiment.events()[kinds.index("retired")].data["assigned"]
        assert 2 not in experiment.assignments()["arm"][end:].tolist()
        rows = {row.label: row.state for row in experiment.guardrails()}
        assert rows["bold"] == "retired"
        assert experiment.verify().sound
        experiment.replay()
    with Experiment.open(f"sqlite:///{path}", "shop") as again:
        serve(again, 60, seed=5)
        assert found(again) == [("refund", "bold")]
        again.replay()


def test_the_last_but_the_control_is_retired_too() -> None:
    problem = Problem(["old", "bold"])
    policy = AnytimeBAI(problem, bounds=(0, 1), control="old", changes=True)
    rails = {"refund": REFUND | {"action": "retire"}}
    experiment = Experiment(policy, seed=1, guardrails=rails)
    rng = np.random.default_rng(0)
    while not experiment.finished:
        for each in experiment.ask(10):
            experiment.tell(each.id, rng.random() < 0.5, refund=each.label == "bold")
    assert found(experiment) == [("refund", "bold")]
    assert experiment.recommendation().label == "old"
    assert experiment.verify().sound


@pytest.mark.parametrize("action", ["retire", "alert"])
def test_late_outcomes_that_decide_come_after_a_look(tmp_path: Path, action: str) -> None:
    """The option that they show to be the best is one that they show to do harm."""
    rails, late = {"refund": REFUND | {"action": action}}, list[tuple[int, dict[str, float]]]()
    given: dict[str, Any] = {"labels": ["old", "bold"], "policy_options": {"control": "old"}}
    with create(tmp_path / "store.db", **given, guardrails=rails) as experiment:
        while experiment.phase < 3:
            for each in experiment.ask(4):
                outcome = {"reward": float(each.label == "bold"), "refund": each.label == "bold"}
                if each.phase == 1 and len(late) < 200:
                    late.append((each.id, outcome))
                else:
                    experiment.tell(each.id, 0.5, refund=0)
        before = len(experiment.events())
        for start in range(0, len(late), 10):
            experiment.tell_many(late[start : start + 10])
        kinds = [event.kind for event in experiment.events(before)]
        assert "closed" not in kinds[: kinds.index("guardrail")]  # no plan was due
        named = experiment.recommendation()
        assert (named.label == "bold") is (action == "alert")
        assert named.final
        assert experiment.verify().sound
        experiment.replay()


def test_an_option_that_was_retired_by_hand_is_not_found(tmp_path: Path) -> None:
    with retiring(tmp_path / "store.db") as experiment:
        serve(experiment, 40)
        experiment.retire("bold", reason="ugly")
        later = [each.id for each in experiment.ask(20)]
        experiment.tell_many([(each, {"reward": 1, "refund": 0}) for each in later])
        serve(experiment, 200, seed=4)
        assert found(experiment) == []
        experiment.replay()
        assert experiment.verify().sound


def test_an_option_that_is_added_is_guarded(tmp_path: Path) -> None:
    with retiring(tmp_path / "store.db") as experiment:
        serve(experiment, 40, tell=lambda number, reward, _: experiment.tell(number, reward))
        experiment.add("wild")
        rng = np.random.default_rng(9)
        while not found(experiment) and experiment.status().pulls < 3000:
            for each in experiment.ask(20):
                refund = each.label == "wild" and rng.random() < 0.9
                experiment.tell(each.id, rng.random() < 0.5, refund=refund)
        assert found(experiment) == [("refund", "wild")]
        experiment.replay()
        assert experiment.verify().sound


def test_a_policy_that_keeps_its_options_retires_none(tmp_path: Path) -> None:
    rails = {"refund": REFUND | {"action": "retire"}}
    with pytest.raises(InvalidInputError, match="cannot retire options"):
        create(
            tmp_path / "store.db", guardrails=rails, policy_options=RETIRING | {"changes": False}
        )


def test_nothing_is_retired_after_the_end(tmp_path: Path) -> None:
    with retiring(tmp_path / "store.db") as experiment:
        serve(experiment, 300, tell=lambda number, reward, _: experiment.tell(number, reward))
        arms = experiment.assignments()["arm"].tolist()
        experiment.stop()
        experiment.tell_many([(each, {"refund": arm == 2}) for each, arm in enumerate(arms)])
        experiment.expire()
        assert found(experiment) == []
        rows = {row.label: row.state for row in experiment.guardrails()}
        assert rows["bold"] == "worse"
        experiment.replay()
