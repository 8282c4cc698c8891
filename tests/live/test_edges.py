"""What a fresh pair of eyes found: ends, odd places and odd names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from bestarm import Problem
from bestarm.errors import InvalidInputError
from bestarm.live import Experiment
from bestarm.live.watch.wording import describe
from bestarm.policies import SPBAI, AnytimeBAI

PROBLEM = Problem(np.eye(3), delta=0.2)


def test_an_outcome_given_up_after_the_end_is_on_record(store_url: str) -> None:
    with Experiment.create(
        store_url, "t", PROBLEM, options={"bounds": [0, 1]}, seed=0
    ) as experiment:
        experiment.ask(3)
        experiment.stop("enough")
        experiment.fail(1, "moved away")
        assert experiment.status().lost == 1
        assert experiment.assignments()["state"].tolist() == ["outstanding", "lost", "outstanding"]
        assert experiment.verify().sound


def test_nothing_remains_to_be_given_out_of_an_experiment_that_is_over() -> None:
    experiment = Experiment(SPBAI(PROBLEM), seed=0)
    experiment.ask(5)
    assert experiment.status().remaining > 0
    experiment.stop()
    assert experiment.status().remaining == 0


@pytest.mark.parametrize("count", [10_000_001, 10**20])
def test_nobody_takes_more_than_others_can_wait_for(count: int) -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=0)
    with pytest.raises(InvalidInputError, match="`count` must be a whole number"):
        experiment.ask(count)
    assert experiment.status().pulls == 0


def test_events_are_asked_for_by_numbers_there_can_be() -> None:
    with pytest.raises(InvalidInputError, match="`start`"):
        Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=0).events(2**70)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@h:abc/x",
        "sqlite+foo:///x.db",
        "sqlite+aiosqlite:///x.db",
        "sqlite:///file:zz?mode=memory&cache=shared&uri=true",
        "mysql://u:geheim@h/x",
        7,
    ],
)
def test_a_place_that_is_none_is_one_sentence_without_its_password(url: Any) -> None:
    with pytest.raises(InvalidInputError, match="`url`") as caught:
        Experiment.list(url)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("url", ["shop.db", Path("shop.db")])
def test_a_file_that_is_not_a_url_is_recognised(url: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"Did you mean sqlite:///shop\.db") as caught:
        Experiment.list(url)
    assert caught.value.value == "shop.db"


def test_the_short_name_of_postgresql_is_understood(postgres_url: str) -> None:
    short = postgres_url.replace("postgresql", "postgres", 1)
    Experiment.create(short, "t", PROBLEM, options={"bounds": [0, 1]}, seed=0).close()
    assert [each.name for each in Experiment.list(postgres_url)] == ["t"]


@pytest.mark.parametrize("label", [None, float("nan"), np.float64("nan")])
def test_labels_that_are_missing_are_refused(label: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"which is not a name\. Give every row a name"):
        Problem.named(["a", label])


def test_labels_that_no_file_can_hold_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot be written as text"):
        Problem(np.eye(2), source_labels=["a", "\ud800"])


def test_an_experiment_that_loses_nearly_everything_says_so() -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=0)
    experiment.fail_many(experiment.ask(200).ids)
    levels = {check.name: check.level for check in experiment.health()}
    assert levels["missing"] == "alarm"


@pytest.mark.parametrize("now", [float("nan"), float("inf"), None, "noon", True])
def test_a_clock_that_does_not_tell_the_time_is_an_error_and_nothing_is_lost(now: Any) -> None:
    times: list[Any] = [1.0]
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), clock=lambda: times[-1], seed=0)
    experiment.ask(3)
    times.append(now)
    for call in (
        experiment.ask,
        lambda: experiment.tell(0, 0.5),
        lambda: experiment.fail(1),
        experiment.stop,
    ):
        with pytest.raises(InvalidInputError, match="clock"):
            call()
    times.append(2.0)
    assert experiment.tell(0, 0.5).recorded == 1
    assert experiment.status().pulls == 3
    assert experiment.verify().sound
    with pytest.raises(InvalidInputError, match="clock"):
        Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), clock=lambda: now, seed=0)


def test_a_clock_that_is_not_a_function_is_refused(sqlite_url: str) -> None:
    policy, clock = AnytimeBAI(PROBLEM, bounds=(0, 1)), cast("Any", 5)
    with pytest.raises(InvalidInputError, match=r"`clock` must be a function.*`time\.time`"):
        Experiment(policy, clock=clock)
    Experiment.create(sqlite_url, "t", PROBLEM).close()
    with pytest.raises(InvalidInputError, match="`clock` must be a function"):
        Experiment.open(sqlite_url, "t", clock=clock)
    with pytest.raises(InvalidInputError, match="`clock` must be a function"):
        Experiment.create(sqlite_url, "u", PROBLEM, clock=clock)


@pytest.mark.parametrize("outcomes", ["ab", [{"id": 0, "reward": 1}], ["01"], None, 5])
def test_outcomes_that_are_neither_a_mapping_nor_pairs(outcomes: Any) -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=0)
    experiment.ask(3)
    with pytest.raises(InvalidInputError, match="`outcomes` must be a mapping from id to reward"):
        experiment.tell_many(outcomes)


@pytest.mark.parametrize("path", [None, 5, "x", "x.doc"])
def test_an_export_needs_a_file_of_a_known_kind(path: Any) -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=0)
    with pytest.raises(InvalidInputError, match=r"`path` must end in \.csv or \.parquet"):
        experiment.export(path)


def test_a_whole_number_with_a_decimal_point_is_shown_without() -> None:
    with pytest.raises(InvalidInputError, match=r"got 1000000\.0\. Write 1000000\."):
        AnytimeBAI(PROBLEM, max_pulls=cast("Any", 1e6))


def test_late_calls_are_told_in_words() -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=0)
    experiment.ask(6)
    experiment.stop("enough")
    experiment.tell_many({0: 0.5, 4: 0.5})
    experiment.fail(1)
    words = [describe(each, PROBLEM, open_plans=True) for each in experiment.events()[-3:]]
    assert words == [
        "Stopped by hand: enough",
        "2 outcomes came too late to be used.",
        "1 outcome given up.",
    ]


def test_a_note_is_in_the_log_and_changes_nothing_else(store_url: str) -> None:
    with Experiment.create(store_url, "noted", PROBLEM, seed=3) as experiment:
        before = experiment.status()
        experiment.note("Moved to the\0 cellar.", degrees=12)
        event = experiment.events()[-1]
        assert (event.kind, event.data) == (
            "noted",
            {"degrees": 12, "text": "Moved to the cellar."},
        )
        assert describe(event, PROBLEM, open_plans=True) == "Moved to the cellar."
        assert experiment.status() == before
        assert experiment.verify().sound
