"""Options that come and go: what a change does to draws, to the record and to who has it open."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from changing_policies import OPTIONS, Even
from clocks import Clock

from bestarm import Experiment, Problem
from bestarm.errors import InvalidInputError
from bestarm.forecasting import Forecaster
from bestarm.live import change, close
from bestarm.live.watch.overview import Watch, overview
from bestarm.server.pages.panels import panels

PROBLEM = Problem(OPTIONS)
KINDS = ("provisional", "open", "closed")
Make = Callable[..., Experiment]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes an experiment of an even split, in memory or stored."""

    def made(problem: Problem = PROBLEM, *, clock: Clock | None = None, **given: Any) -> Experiment:
        names = ("lease", "window", "otherwise", "forecaster")
        limits = {name: given.pop(name) for name in names if name in given}
        settings: dict[str, Any] = {"seed": 3, "clock": clock or Clock(), **limits}
        if request.param == "memory":
            return Experiment(Even(problem, **given), **settings)
        return create(tmp_path, problem, settings, **given)

    return made


def create(
    folder: Path, problem: Problem = PROBLEM, settings: dict[str, Any] | None = None, **given: Any
) -> Experiment:
    return Experiment.create(
        f"sqlite:///{folder}/store.db",
        "offer",
        problem,
        policy="changing_policies:Even",
        policy_options=given,
        **(dict[str, Any](seed=3, clock=Clock()) | (settings or {})),
    )


def open_again(folder: Path, **given: Any) -> Experiment:
    allowed = ["changing_policies"]
    return Experiment.open(f"sqlite:///{folder}/store.db", "offer", allow_modules=allowed, **given)


def kinds(experiment: Experiment) -> list[str]:
    return [event.kind for event in experiment.events()]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_drawn_of_an_option_once_it_is_retired(make: Make, kind: str) -> None:
    experiment = make(kind=kind, sizes=(8, 40, 40))
    given = list(experiment.ask(5))
    experiment.retire("video", reason="refunds")
    experiment.tell_many({each.id: 1.0 for each in given})
    later = list(experiment.ask(40))
    assert {each.label for each in later} == {"old", "new", "quiz"}
    assert {each.phase for each in later} == {2}
    assert {each.probability for each in later} == {1 / 3}


def test_a_change_closes_the_phase_at_once_and_outcomes_given_out_count(make: Make) -> None:
    experiment = make(kind="provisional", sizes=(8, 8, 40))
    given = list(experiment.ask(5))
    experiment.tell(given[0], 2.0)
    experiment.retire("video", reason="refunds")
    assert kinds(experiment)[-3:] == ["retired", "closed", "planned"]
    experiment.tell_many({each.id: 1.0 for each in given[1:]})
    later = list(experiment.ask(8))
    experiment.tell_many({each.id: 1.0 for each in later})
    with experiment.read() as snapshot:
        first, late, *_ = snapshot.summaries()
    assert (first.summary.pulls, first.summary.pending_pulls) == (1, 4)
    assert (late.phase, late.late, late.summary.pulls) == (1, True, 4)
    assert experiment.recommendation().pulls == 13


def test_where_decisions_wait_the_settled_prefix_is_told_and_the_rest_follows(make: Make) -> None:
    experiment = make(kind="open", sizes=(8, 8, 40))
    given = list(experiment.ask(6))
    experiment.tell_many({given[place].id: 1.0 for place in (0, 1, 3)})
    experiment.add("flash")
    again = list(experiment.ask(4))  # nobody waits
    assert {each.phase for each in again} == {2}
    experiment.retire("old", reason="slow")  # while outcomes of phase 1 are outstanding
    last = list(experiment.ask(4))
    assert {each.phase for each in last} == {3}
    every = [*given, *again, *last]
    experiment.tell_many(
        {each.id: 1.0 for each in every if each not in {given[i] for i in (0, 1, 3)}}
    )
    with experiment.read() as snapshot:
        told = [(each.phase, each.first, each.end, each.late) for each in snapshot.summaries()]
    assert told == [
        (1, 0, 2, False),
        (2, 2, 2, False),
        (1, 2, 6, True),
        (2, 6, 10, True),
    ]
    assert experiment.recommendation().pulls == 10


def test_a_closed_plan_waits_for_the_outcomes_of_what_was_assigned(make: Make) -> None:
    experiment = make(kind="closed")
    given = list(experiment.ask(3))
    experiment.retire("video", reason="refunds")
    batch = experiment.ask(4)
    assert (len(batch), batch.waiting) == (0, 3)
    experiment.tell_many({given[0].id: 1.0, given[1].id: 2.0})
    experiment.fail(given[2])
    assert {each.phase for each in experiment.ask(4)} == {2}
    with experiment.read() as snapshot:
        assert [each.summary.pulls for each in snapshot.summaries()] == [2]


def test_an_option_that_was_added_is_drawn_and_comes_last(make: Make) -> None:
    experiment = make(sizes=(8, 40))
    experiment.ask(3)
    experiment.add("flash")
    assert experiment.problem.source_labels == (*OPTIONS, "flash")
    np.testing.assert_array_equal(experiment.problem.source, np.eye(5))
    batch = experiment.ask(40)
    assert {each.label for each in batch} == {*OPTIONS, "flash"}
    assert experiment.assignments()["label"].tolist()[3:] == [each.label for each in batch]


def test_features_of_an_option_that_was_added(make: Make) -> None:
    problem = Problem([[1, 0], [0, 1], [0.5, 0.5]], source_labels=["old", "new", "mix"])
    experiment = make(problem)
    experiment.add("strong", features=[2, 0.25])
    experiment.add("own")
    assert experiment.problem.source.tolist() == [
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.5, 0.5, 0.0],
        [2.0, 0.25, 0.0],
        [0.0, 0.0, 1.0],
    ]


def test_the_experiment_ends_once_one_option_is_left(make: Make) -> None:
    experiment = make()
    experiment.ask(4)
    for label in ("old", "video", "quiz"):
        experiment.retire(label, reason="refunds")
    assert experiment.state == "finished"
    assert experiment.recommendation().label == "new"
    assert experiment.ask(1).finished


def test_repeating_a_change_is_harmless(make: Make) -> None:
    experiment = make(sizes=(8,) * 9)
    for _ in range(2):
        experiment.retire("old", reason="refunds")
        experiment.add("flash")
        experiment.add("mixed", features=[0.5, 0.5, 0, 0, 0])
    assert [kind for kind in kinds(experiment) if kind in {"added", "retired"}] == [
        "retired",
        "added",
        "added",
    ]
    with pytest.raises(InvalidInputError, match="was retired before \\(refunds\\)"):
        experiment.retire("old", reason="slow")
    with pytest.raises(InvalidInputError, match="There is an option 'flash' already"):
        experiment.add("flash", features=[0, 0, 0, 1, 1])
    experiment.retire("flash", reason="broken")
    with pytest.raises(InvalidInputError, match="There is an option 'flash' already"):
        experiment.add("flash")


def test_what_cannot_be_changed_is_refused_in_one_sentence(make: Make) -> None:
    experiment = make(control="old")
    before = experiment.revision
    refusals: list[tuple[Callable[[], object], str, str]] = [
        (lambda: experiment.retire("old", reason="x"), "option", "is the control"),
        (lambda: experiment.retire("vidio", reason="x"), "option", "There is no option 'vidio'."),
        (lambda: experiment.retire("new", reason=" "), "reason", "must say why"),
        (lambda: experiment.add("new"), "option", "There is an option 'new' already."),
        (lambda: experiment.add(""), "option", "must be a text of 1 to 200 characters"),
        (lambda: experiment.add("x", features=[1, 2]), "features", "has 2 numbers"),
        (lambda: experiment.add("x", features=[1, 0, 0, 0]), "target", "identical features"),
    ]
    for call, field, words in refusals:
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert words in caught.value.message
        assert caught.value.field == field
        assert caught.value.message.count(". ") == 0
    assert experiment.revision == before
    experiment.stop()
    with pytest.raises(InvalidInputError, match="is stopped cannot be changed"):
        experiment.add("flash")


def test_the_last_option_and_what_a_policy_does_not_allow_for_are_refused(make: Make) -> None:
    pair = make(Problem(["old", "new"]), sizes=(8, 8), changes=False)
    with pytest.raises(InvalidInputError, match="goes on with the options that it began with"):
        pair.retire("old", reason="refunds")


def test_the_last_option_left_is_refused(make: Make) -> None:
    experiment = make(Problem(["old", "new"]), ends=False)
    experiment.retire("old", reason="refunds")
    with pytest.raises(InvalidInputError, match="'new' is the last one left"):
        experiment.retire("new", reason="refunds")


def test_targets_that_are_not_the_arms_are_refused(make: Make) -> None:
    experiment = make(Problem([[1, 0], [0, 1], [0, 0]], target=[[1, 1], [1, -1]]))
    for refused in (partial(experiment.retire, "0", reason="x"), partial(experiment.add, "x")):
        with pytest.raises(InvalidInputError, match="only where the arms themselves are compared"):
            refused()


def test_a_second_process_notices_what_the_first_one_changed(tmp_path: Path) -> None:
    clock = Clock()
    with (
        create(tmp_path, settings={"clock": clock}, sizes=[8] * 6) as one,
        open_again(tmp_path, clock=clock) as other,
    ):
        given = list(other.ask(3))
        one.add("flash")
        one.retire("old", reason="refunds")
        assert other.problem.source_labels == (*OPTIONS, "flash")
        assert {each.label for each in other.ask(60)} == {"new", "video", "quiz", "flash"}
        other.tell(given[0], 1.0)
        with pytest.raises(InvalidInputError, match="was retired before"):
            other.retire("old", reason="slow")
        other.add("mail")
        assert one.problem.source_labels == (*OPTIONS, "flash", "mail")
        assert set(one.assignments()["label"]) <= {*OPTIONS, "flash", "mail"}


def test_a_plan_that_was_computed_before_a_change_is_not_recorded_after_it(tmp_path: Path) -> None:
    """One process computes the next plan while another retires an option."""
    with (
        create(tmp_path, sizes=[8] * 6) as one,
        open_again(tmp_path, clock=Clock()) as other,
    ):
        given = list(one.ask(8))
        prepare, steps = close.prepare, []

        def interrupted(*known: Any) -> close.Step:
            step = prepare(*known)
            steps.append(step)
            if step.plan is not None and len(steps) == 2:
                with other.engine.ledger.transaction() as tx:
                    change.retire(tx, other.options_at(tx), "quiz", "late", at=2e9)
            return step

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(close, "prepare", interrupted)
            one.tell_many({each.id: 1.0 for each in given})
        with one.read() as snapshot:
            second = snapshot.plan(2).plan
            assert second.weights is not None
            assert second.weights[3] == 0.0
        assert kinds(one)[2:] == ["closed", "retired", "planned"]
        assert one.verify().findings == ()
        one.replay()


@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_copes_with_plans_over_fewer_options(tmp_path: Path, kind: str) -> None:
    with create(tmp_path, kind=kind, sizes=[8] * 9) as experiment:
        watch = Watch(experiment)
        late: list[int] = []

        def play() -> None:
            for _ in range(2):
                batch = experiment.ask(8)
                late.extend(each.id for each in batch if each.id % 5 == 1 and kind != "closed")
                told = {each.id: float(each.id % 3) for each in batch if each.id not in late}
                experiment.tell_many(told)
            watch.overview()

        play()
        experiment.add("flash")
        play()
        experiment.retire("video", reason="refunds")
        experiment.tell_many(dict.fromkeys(late, 1.0))
        play()
        shown = watch.overview()
        assert shown.leaderboard == overview(experiment).leaderboard
        last = shown.leaderboard[-1]
        assert (last.label, last.status, last.reason) == ("video", "retired", "refunds")
        of = "of 5 options (one retired)"
        assert of in shown.verdict
        assert "5 options (one retired)" in watch.headline()
        assert of in panels(shown)["verdict"]
        assert sum(row.drawn for row in shown.allocation) == shown.used
        assert [row.label for row in shown.allocation] == [*OPTIONS, "flash"]
        words = [each.words for each in shown.story]
        assert "‘video’ was retired: refunds." in words
        assert "‘flash’ was added." in words
        assert panels(shown)["leaderboard"].count("refunds") == 1
        assert {check.level for check in experiment.health()} <= {"ok", "warning"}
        assert experiment.health()[0].level == "ok"
        experiment.export(tmp_path / "all.csv", probabilities=True)
        frame = pd.read_csv(tmp_path / "all.csv")
        before = frame["phase"] == 1
        assert set(frame["probability_flash"][before]) == {0.0}
        assert set(frame["probability_video"][frame["phase"] == frame["phase"].max()]) == {0.0}
        drawn = frame[[f"probability_{label}" for label in (*OPTIONS, "flash")]].to_numpy()
        np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
        assert experiment.verify().findings == ()
        assert experiment.replay().remarks == ()


def test_outcomes_with_a_window_enter_under_the_option_they_were_drawn_of(make: Make) -> None:
    clock = Clock()
    experiment = make(sizes=(4,) * 9, window=10.0, otherwise=0, clock=clock)
    given = list(experiment.ask(4))
    experiment.tell(given[0], 3.0)
    experiment.retire(given[0].label, reason="refunds")
    experiment.tell(given[0], 5.0)  # corrected within its window
    clock.now += 10.0
    experiment.expire()
    outcomes = experiment.outcomes()
    assert dict(zip(outcomes["id"], outcomes["reward"], strict=True)) == {0: 5.0, 1: 0, 2: 0, 3: 0}
    assert not outcomes["late"].any()
    assert experiment.recommendation().pulls == 4
    assert experiment.verify().findings == ()


def test_a_lost_assignment_of_a_retired_option_is_not_drawn_again(make: Make) -> None:
    clock = Clock()
    experiment = make(kind="closed", sizes=(8,) * 5, lease=5.0, clock=clock)
    given = list(experiment.ask(8))
    experiment.retire(given[0].label, reason="refunds")
    clock.now += 6.0
    later = experiment.ask(8)
    assert given[0].label not in {each.label for each in later}
    assert {each.phase for each in later} == {2}


@pytest.mark.parametrize("forecaster", ["default", "own"])
def test_forecasters_see_an_option_that_was_added(tmp_path: Path, forecaster: str) -> None:
    """Two processes, each with a forecaster of its own that learns what the other did."""
    problem = Problem(OPTIONS, baseline=8.0)
    rng = np.random.default_rng(0)
    first, second = _Watched(), _Watched()
    given: Any = "default" if forecaster == "default" else first
    own: dict[str, Any] = {} if forecaster == "default" else {"forecaster": second}
    with (
        create(tmp_path, problem, {"forecaster": given}, sizes=[20] * 9) as one,
        open_again(tmp_path, clock=Clock(), **own) as other,
    ):

        def play(experiment: Experiment) -> None:
            batch = experiment.ask(25)
            experiment.tell_many([(each.id, float(rng.integers(0, 8))) for each in batch])

        for who in (one, other):
            play(who)
        one.add("flash")
        for who in (other, one, other):
            play(who)
        one.retire("old", reason="refunds")
        for who in (other, one):
            play(who)
        assert one.verify().findings == ()
    widths = [len(features) for features in first.learned]
    assert forecaster == "default" or (set(widths) == {4, 5} and widths == sorted(widths))
    assert forecaster == "default" or [0, 0, 0, 0, 1] in first.learned


class _Watched(Forecaster):
    """Forecasts nothing, and keeps what it learned from."""

    def __init__(self) -> None:
        self.learned: list[list[float]] = []

    def forecast(self, number: int, moment: float | None, covariates: Any) -> float:
        return 0.0

    def learn(self, number: int, features: Any, reward: float) -> None:
        self.learned.append(features.tolist())


def test_the_anytime_rule_goes_on_without_bounds_where_phases_closed_with_nothing(
    tmp_path: Path,
) -> None:
    """Outcomes of two earlier phases follow, after options changed twice."""
    rng = np.random.default_rng(1)
    with Experiment.create(
        f"sqlite:///{tmp_path}/store.db", "offer", PROBLEM, seed=1, clock=Clock()
    ) as experiment:
        given = list(experiment.ask(60))
        experiment.retire("quiz", reason="refunds")
        given += experiment.ask(20)
        experiment.add("flash")
        given += experiment.ask(20)
        experiment.tell_many([(each.id, float(rng.normal())) for each in reversed(given)])
        with experiment.read() as snapshot:
            told = [(each.phase, each.late) for each in snapshot.summaries()]
        assert told == [(1, False), (2, False), (1, True), (2, True), (3, False)]
        assert experiment.recommendation().pulls == 100
        assert experiment.verify().findings == ()
        assert experiment.replay().remarks == ()


def test_an_experiment_allows_for_changes_unless_it_is_told_not_to(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"

    def allows(name: str, **options: Any) -> bool:
        given = dict[str, Any](bounds=(0, 1), policy_options=options, clock=Clock())
        with Experiment.create(url, name, PROBLEM, **given) as experiment:
            return experiment.traits.changes

    assert allows("plain")
    assert allows("with floors", floors={"old": 0.2})
    assert not allows("fixed", changes=False)
    assert not allows("set", top=2)
    assert not allows("blocks", block=2)


def test_floors_are_kept(tmp_path: Path) -> None:
    options = {"floors": {"old": 0.2}}
    with Experiment.create(
        f"sqlite:///{tmp_path}/s.db", "offer", PROBLEM, bounds=(0, 1), policy_options=options
    ) as experiment:
        batch = experiment.ask(200)
        experiment.tell_many([(each.id, float(each.label == "new")) for each in batch])
        with experiment.read() as snapshot:
            assert all(each.plan.shares[0] >= 0.2 for each in snapshot.plans())
        floors = {row.label: row.floor for row in overview(experiment).allocation}
        assert floors == {"old": 0.2, "new": None, "video": None, "quiz": None}


def test_options_that_are_left_may_express_a_level(tmp_path: Path) -> None:
    """A declared baseline is of use among all four, and of none among the two that are left."""
    features = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0], "d": [2.0, 1.0]}
    problem = Problem(list(features.values()), source_labels=list(features))
    url = f"sqlite:///{tmp_path}/store.db"
    with Experiment.create(url, "offer", problem, seed=1, clock=Clock()) as experiment:
        for gone in ("c", "d", None):
            batch = experiment.ask(80)
            experiment.tell_many([(each.id, features[each.label][0] / 4) for each in batch])
            if gone is not None:
                experiment.retire(gone, reason="refunds")
        assert {each.label for each in experiment.ask(40)} == {"a", "b"}
        assert experiment.verify().findings == ()
        experiment.replay()


def test_changes_are_marked_in_the_timeline_of_a_policy_that_has_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with Experiment.create(url, "offer", ["old", "new"], bounds=(0, 1), seed=3) as experiment:

        def play() -> None:
            for _ in range(10):
                experiment.tell_many({each.id: float(each.id % 2) for each in experiment.ask(4)})

        play()
        experiment.add("flash")
        after = [experiment.status().pulls]
        play()
        experiment.retire("flash", reason="refunds")
        after.append(experiment.status().pulls)
        play()
        marks = ["+ flash", "\N{MINUS SIGN} flash"]
        assert overview(experiment).timeline.changes == tuple(zip(after, marks, strict=True))


def test_a_change_before_the_first_assignment_is_shown(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with Experiment.create(url, "offer", PROBLEM, bounds=(0, 1), clock=Clock()) as experiment:
        experiment.add("flash")
        shown = overview(experiment)
        assert {row.status for row in shown.leaderboard} == {"in"}
        assert shown.verdict == "Ready: 5 options wait for their first assignment."
        experiment.retire("quiz", reason="refunds")
        of = "5 options (one retired)"
        assert overview(experiment).verdict == f"Ready: {of} wait for their first assignment."
        assert Watch(experiment).headline() == f"Ready: {of} wait for their first assignment."


def test_an_option_that_the_policy_does_not_know_of_yet_is_possible(tmp_path: Path) -> None:
    """A closed plan waits for its outcomes before the policy is told."""
    with create(tmp_path, kind="closed") as experiment:
        experiment.ask(3)
        experiment.add("flash")
        experiment.retire("old", reason="refunds")
        shown = overview(experiment)
        status = {row.label: row.status for row in shown.leaderboard}
        assert (status["flash"], status["old"]) == ("in", "retired")
        assert experiment.health()[0].level == "ok"
