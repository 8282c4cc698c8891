"""What is said of an effect is what the policy found, in every place where a verdict is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from bestarm import Experiment, Problem
from bestarm.live.watch.overview import Watch, overview
from bestarm.live.watch.wording import percent
from bestarm.recommendation import Recommendation
from bestarm.server.pages.panels import report

MEANS = np.array([0.85, 0.4, 0.2])
NEAR = np.array([0.5, 0.48, 0.49])
NAMES = ["new", "old", "other"]


@contextmanager
def finished(url: str, means: np.ndarray, **options: Any) -> Iterator[Experiment]:
    problem = Problem(np.eye(3), source_labels=NAMES)
    options = {"bounds": [0, 1], "control": "old"} | options
    with Experiment.create(url, "effects", problem, options=options, seed=0) as made:
        rng = np.random.default_rng(0)
        while not made.finished:
            given = made.ask(100)
            told = (rng.random(len(given)) < means[given.arms]).astype(float)
            made.tell_many(zip(given.ids, told.tolist(), strict=True))
        yield made


def points(share: float) -> str:
    return f"{100 * share:.1f}" if share >= 0.0005 else "0"


def test_the_verdict_says_by_how_much_the_winner_is_better(sqlite_url: str) -> None:
    with finished(sqlite_url, MEANS) as made:
        seen, said, headline = overview(made), made.recommendation(), Watch(made).headline()
    effect = said.effect
    assert effect is not None
    assert effect.relative is not None
    assert seen.verdict == (
        "‘new’ is the best of 3 options. Its lead over the control ‘old’ is "
        f"+{100 * effect.estimate:.1f} points ({points(effect.lower)} to {points(effect.upper)}), "
        f"+{100 * effect.relative:.0f} % relative. Both hold together, at 95 % after "
        f"{said.pulls:,} assignments."
    )
    assert headline == f"‘new’ is the best of 3 options, at 95 % after {said.pulls:,} assignments."
    lead = f"its lead over 'old', the control, is +{100 * effect.estimate:.1f} points ("
    assert lead in said.statement
    assert 0 <= effect.lower <= MEANS[0] - MEANS[1] <= effect.upper
    row = next(each for each in seen.leaderboard if each.label == "old")
    assert (row.behind, row.low, row.high) == (effect.estimate, effect.lower, effect.upper)
    assert all(each.low is not None and each.low >= 0 for each in seen.leaderboard)
    page = report(seen)
    assert seen.verdict in page.replace("\N{NO-BREAK SPACE}", " ")


def test_a_control_that_wins_leads_nobody(sqlite_url: str) -> None:
    with finished(sqlite_url, MEANS, control="new") as made:
        seen = overview(made)
    assert seen.verdict.startswith("‘new’, the control, is the best of 3 options, at 95 % after ")
    assert "Lead over" not in report(seen)


def test_equivalent_is_an_end_like_others(sqlite_url: str) -> None:
    with finished(sqlite_url, NEAR, tolerance=0.25) as made:
        seen, said, headline = overview(made), made.recommendation(), Watch(made).headline()
        made.replay()
        assert made.verify().sound
    assert (said.reason, said.label, said.final) == ("equivalent", "old", True)
    assert (
        seen.verdict
        == headline
        == (
            "No option is better than the control ‘old’ by more than 25 points, at "
            f"{percent(0.05)} after {said.pulls:,} assignments."
        )
    )
    assert seen.events[0].words == "Finished: no option is much better than the control ‘old’."
    assert (seen.leaderboard[0].label, seen.leaderboard[0].status) == ("old", "best")
    assert seen.leaderboard[0].behind == 0
    assert all(each.low is not None and each.low >= -0.25 for each in seen.leaderboard)
    assert str(said).startswith("old: equivalent to the best, within the tolerance, after ")
    assert "<dt>Named</dt>" in report(seen)


def test_nothing_is_said_of_an_effect_where_nothing_is_proven(sqlite_url: str) -> None:
    problem = Problem(np.eye(3), noise=0.1, baseline=0.1, source_labels=NAMES)
    options = {"control": "old"}
    with Experiment.create(sqlite_url, "wild", problem, options=options, seed=0) as made:
        given = made.ask(60)
        made.tell_many([(number, 50.0) for number in given.ids])
        seen = overview(made)
    assert not seen.proven
    assert "Lead over" not in report(seen)
    assert "lead over" not in seen.verdict


@pytest.mark.parametrize("pulls", [1, 2, 5])
def test_an_effect_is_finite_from_the_first_outcome_on(sqlite_url: str, pulls: int) -> None:
    problem = Problem(np.eye(3), source_labels=NAMES)
    options = {"bounds": [0, 1], "control": "old"}
    with Experiment.create(sqlite_url, "early", problem, options=options, seed=0) as made:
        before: Recommendation = made.recommendation()
        assert before.effect is None
        given = made.ask(60)
        made.tell_many([(number, 1.0) for number in given.ids[:pulls]])
        made.ask(60)
        effect = made.recommendation().effect
    if effect is not None:
        assert np.isfinite([effect.estimate, effect.lower, effect.upper]).all()
