"""Options that come and go: what a change does to draws, to the record and to who has it open."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changing_policies import OPTIONS, Even
from clocks import Clock

from bestarm import Experiment, Problem
from bestarm.errors import InvalidInputError

PROBLEM = Problem.named(OPTIONS)
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
        options=given,
        **(dict[str, Any](seed=3, clock=Clock()) | (settings or {})),
    )


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
    pair = make(Problem.named(["old", "new"]), sizes=(8, 8), changes=False)
    with pytest.raises(InvalidInputError, match="goes on with the options that it began with"):
        pair.retire("old", reason="refunds")


def test_the_last_option_left_is_refused(make: Make) -> None:
    experiment = make(Problem.named(["old", "new"]), ends=False)
    experiment.retire("old", reason="refunds")
    with pytest.raises(InvalidInputError, match="'new' is the last one left"):
        experiment.retire("new", reason="refunds")


def test_targets_that_are_not_the_arms_are_refused(make: Make) -> None:
    experiment = make(Problem([[1, 0], [0, 1], [0, 0]], target=[[1, 1], [1, -1]]))
    for refused in (partial(experiment.retire, "0", reason="x"), partial(experiment.add, "x")):
        with pytest.raises(InvalidInputError, match="only where the arms themselves are compared"):
            refused()
