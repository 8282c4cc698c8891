"""After the end: the option that `ask` serves, of which nothing is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chained_policies import Chained

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.errors import InvalidInputError, ReplayError
from bestarm.live.spec import Spec

BUTTONS = Problem(["old", "new", "none"])
QUICK: dict[str, Any] = {"bounds": (0, 1), "control": "old"}


def create(path: Path, **options: Any) -> Experiment:
    known = {"bounds": [0, 1], "control": "old"} | options
    return Experiment.create(
        f"sqlite:///{path / 'store.db'}", "b", BUTTONS, policy_options=known, seed=1
    )


def finish(experiment: Experiment, best: int) -> None:
    """Tell outcomes that leave no doubt about which option is the best, until the end."""
    while not experiment.finished:
        batch = experiment.ask(64)
        experiment.tell_many({each.id: float(each.arm == best) for each in batch})


def record(experiment: Experiment) -> tuple[object, ...]:
    """All there is on record."""
    with experiment.read() as snapshot:
        rows = [rows.tobytes() for rows in snapshot.rows(0, 10**6)]
        return rows, list(snapshot.events()), vars(snapshot.head.copy())


@pytest.mark.parametrize("best", [0, 1])
def test_the_winner_is_served_and_nothing_is_recorded(tmp_path: Path, best: int) -> None:
    with create(tmp_path) as experiment:
        assert experiment.served() is None
        finish(experiment, best)
        assert experiment.recommendation().label == BUTTONS.target_labels[best]
        before = record(experiment)
        batch = experiment.ask(3)
        assert [each.label for each in batch] == [BUTTONS.target_labels[best]] * 3
        assert [(each.id, each.arm, each.experiment) for each in batch] == [(None, best, False)] * 3
        assert list(batch.ids) == [None] * 3
        assert (batch.finished, batch.experiment, batch.waiting) == (True, False, 0)
        assert [len(block) for block in batch.blocks()] == [1, 1, 1]
        for receipt in (
            experiment.tell(batch[0], 1),
            experiment.tell(batch[1].id, 0),
            experiment.tell_many({each.id: 1.0 for each in batch[2:]}),
        ):
            assert (receipt.recorded, receipt.late, receipt.served) == (0, 0, 1)
        assert "1 of assignments made after the end, not recorded" in str(receipt)
        assert experiment.served() == batch[0]
        assert record(experiment) == before
        assert experiment.verify().sound
    with Experiment.open(experiment.place or "", "b") as again:
        assert again.ask()[0].label == BUTTONS.target_labels[best]


def test_without_a_winner_the_control_is_served(tmp_path: Path) -> None:
    with create(tmp_path) as experiment:
        for each in experiment.ask(30):
            experiment.tell(each, each.arm == 1)  # it leads, and is not shown to be better
        assert experiment.recommendation().label == "new"
        assert not experiment.recommendation().final
        experiment.stop()
        assert experiment.ask()[0].label == "old"


@pytest.mark.parametrize("told", [0, 30])
def test_without_a_control_the_option_that_the_recommendation_names_is_served(told: int) -> None:
    experiment = Experiment(AnytimeBAI(BUTTONS, bounds=(0, 1)), seed=1)
    for each in experiment.ask(30)[:told]:
        experiment.tell(each, each.arm == 1)
    experiment.stop()
    assert experiment.ask()[0].label == experiment.recommendation().label


def test_a_winner_whose_lead_is_measured_is_served_when_it_is_stopped() -> None:
    experiment = Experiment(AnytimeBAI(BUTTONS, **QUICK, precision=1e-3), seed=1)
    while experiment.recommendation().reason != "measuring":
        batch = experiment.ask(64)
        experiment.tell_many({each.id: float(each.arm == 1) for each in batch})
    experiment.stop()
    assert experiment.ask()[0].label == "new"


def test_outcomes_that_contradict_the_assumptions_show_no_winner() -> None:
    """The reward of 60 is beyond the declared scales: what is named then is not shown."""
    experiment = Experiment(
        AnytimeBAI(Problem(["old", "new"], noise=0.1, baseline=0.1), control="old"), seed=1
    )
    while not experiment.recommendation().contradicted:
        batch = experiment.ask(64)
        experiment.tell_many({each.id: 60.0 * each.arm for each in batch})
    if not experiment.finished:
        experiment.stop()
    assert experiment.recommendation().label == "new"
    assert experiment.ask()[0].label == "old"


def test_a_winner_that_cannot_be_assigned_has_no_arm() -> None:
    problem = Problem(np.eye(2), target=[[1, 0], [0.5, 0.5]], target_labels=["a", "both"])
    experiment = Experiment(AnytimeBAI(problem, bounds=(0, 1)), seed=1)
    while not experiment.finished:
        batch = experiment.ask(64)
        experiment.tell_many({each.id: float(each.arm == 1) for each in batch})
    served = experiment.ask(2)
    assert [(each.label, each.arm) for each in served] == [("both", -1)] * 2
    assert served.labels[served.arms[0]] == "both"


def test_a_paused_experiment_gives_none(tmp_path: Path) -> None:
    with create(tmp_path) as experiment:
        experiment.pause()
        assert len(experiment.ask(3)) == 0
        assert experiment.served() is None


def test_a_request_answered_before_the_end_keeps_its_assignments(tmp_path: Path) -> None:
    with create(tmp_path) as experiment:
        first = experiment.ask(2, request_id="visitor 1")
        experiment.stop()
        for _ in range(2):
            again = experiment.ask(2, request_id="visitor 1")
            assert list(again) == list(first)
            assert experiment.ask(2, request_id="visitor 2")[0].id is None


def test_an_outcome_without_an_id_is_refused_before_the_end(tmp_path: Path) -> None:
    with create(tmp_path) as experiment:
        experiment.ask()
        for refused in (
            lambda: experiment.tell(None, 1),
            lambda: experiment.tell_many([(0, 1), (None, 1)]),
            lambda: experiment.fail(None),
        ):
            with pytest.raises(InvalidInputError, match="the experiment is running") as caught:
                refused()
            assert caught.value.field == "id"
        assert experiment.status().outstanding == 1
        experiment.stop()
        experiment.fail(None)
        receipt = experiment.tell_many([(None, 1), (0, 1), (None, 0)])
        assert (receipt.recorded, receipt.late, receipt.served) == (1, 1, 2)


def test_a_winner_on_record_is_served_whatever_the_policy_says_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an update that brings another version of the policy."""
    with create(tmp_path) as experiment:
        finish(experiment, 1)
    with Experiment.open(experiment.place or "", "b") as later:

        def refuse(*_: object) -> None:
            raise ReplayError("of another version", field="replay")

        monkeypatch.setattr(later.engine._replayer, "policy", refuse)
        with pytest.raises(ReplayError):
            later.recommendation()
        assert later.ask()[0].label == "new"


def of_another_version(*_: object) -> None:
    raise ReplayError("The policy is of another version.", field="version")


@pytest.mark.parametrize("control", ["old", None])
@pytest.mark.parametrize("state", ["running", "paused", "finished"])
def test_what_is_served_needs_no_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, control: str | None
) -> None:
    """Another version of the policy, which cannot replay the experiment, serves the same."""
    with create(tmp_path, control=control) as experiment:
        if state == "finished":
            finish(experiment, 1)
        else:
            for _ in range(2):
                for each in experiment.ask(20):
                    experiment.tell(each, each.arm == 1)
            if state == "paused":
                experiment.pause()
            experiment.stop("an upgrade")
            (*_, stopped) = experiment.events()
            named = experiment.recommendation()
            assert (stopped.kind, stopped.data["reason"]) == ("stopped", "an upgrade")
            assert stopped.data["recommendation"]["label"] == named.label
        served = experiment.ask()[0].label
        assert experiment.replay().remarks == ()
        assert experiment.verify().sound
    monkeypatch.setattr(Spec, "make", of_another_version)
    with Experiment.open(experiment.place or "", "b") as later:
        with pytest.raises(ReplayError):
            later.recommendation()
        assert later.ask()[0].label == served
        winner = later.served()
        assert winner is not None
        assert winner.label == served


def test_an_experiment_can_be_stopped_under_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log cannot say what is recommended then: the version that began it still serves it."""
    with create(tmp_path, control=None) as experiment:
        for each in experiment.ask(30):
            experiment.tell(each, each.arm == 1)
    monkeypatch.setattr(Spec, "make", of_another_version)
    with Experiment.open(experiment.place or "", "b") as later:
        later.stop()
        assert later.events()[-1].data["recommendation"] is None
        with pytest.raises(ReplayError):
            later.ask()
    monkeypatch.undo()
    with Experiment.open(experiment.place or "", "b") as again:
        assert again.ask()[0].label == again.recommendation().label
        assert again.verify().sound


def test_a_replay_that_recommends_another_option_than_at_the_stop_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create(tmp_path) as experiment:
        experiment.stop()
        with monkeypatch.context() as patch:
            patch.setattr("bestarm.live.replay.last_recommendation", lambda _: {"label": "new"})
            with pytest.raises(ReplayError, match="recommendation at the stop"):
                experiment.replay()
        assert experiment.replay().recommendation.reason == "stopped"


def test_a_loop_that_tells_what_it_asks_for_ends() -> None:
    experiment = Experiment(Chained(), seed=0)
    while not experiment.finished:
        for assignment in experiment.ask(100):
            experiment.tell(assignment.id, 1.0)
    assert experiment.ask()[0].label == experiment.recommendation().label


def test_units_are_served_like_all_others(tmp_path: Path) -> None:
    with create(tmp_path) as experiment:
        experiment.ask(unit=["a", "b"])
        experiment.tell(unit="a", reward=1)
        experiment.stop()
        served = experiment.ask(unit=["a", "b", "new"])
        assert [(each.label, each.id, each.unit) for each in served] == [
            ("old", None, "a"),
            ("old", None, "b"),
            ("old", None, "new"),
        ]
        # "a" has its outcome, that of "b" is outstanding, and nothing is known of "new".
        for unit, expected in (("a", (0, 0, 1)), ("b", (1, 1, 0)), ("new", (0, 0, 1))):
            receipt = experiment.tell(unit=unit, reward=0)
            assert (receipt.recorded, receipt.late, receipt.served) == expected
        assert experiment.outcomes()["reward"].tolist() == [1.0, 0.0]


def test_values_of_guardrails_are_not_recorded_either(tmp_path: Path) -> None:
    guardrails = {"refund": {"bounds": [0, 1], "worse_by": 0.01, "alpha": 0.05, "action": "alert"}}
    url, options = f"sqlite:///{tmp_path / 'store.db'}", {"bounds": [0, 1], "control": "old"}
    known: dict[str, Any] = {"policy_options": options, "guardrails": guardrails}
    with Experiment.create(url, "b", BUTTONS, **known) as experiment:
        experiment.ask()
        experiment.stop()
        served = experiment.ask()[0]
        for receipt in (
            experiment.tell(served.id, 1, refund=0),
            experiment.tell(served, refund=1),
            experiment.tell_many({served.id: {"reward": 1, "refund": 1}}),
        ):
            assert (receipt.recorded, receipt.values, receipt.served) == (0, 0, 1)
