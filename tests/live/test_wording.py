"""Sentences about an experiment are made from facts, wherever a verdict is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem
from bestarm.live import Assignment, Experiment
from bestarm.live.watch.overview import Overview, Watch, overview
from bestarm.live.watch.wording import percent
from bestarm.recommendation import Recommendation
from bestarm.server.pages.panels import report

BOUNDED = {"bounds": (0, 1)}
# A sentence each that once decided what a page says, and one that says nothing.
WORDS = ("nothing is proven", "All is proven.", "Rien n'est prouvé.", "")


class Reworded(AnytimeBAI):
    """The anytime rule with another sentence."""

    words = ""

    def recommend(self) -> Recommendation:
        return replace(super().recommend(), statement=self.words)


REWORDED = f"{__name__}:Reworded"


def facts(seen: Overview) -> tuple[object, ...]:
    """What a page says, but for the policy's own sentence."""
    return (
        seen.verdict,
        seen.standing,
        seen.spec.traits.names_the_best,
        seen.proven,
        seen.reliability,
        len(seen.contradictions),
    )


def played(experiment: Experiment, reward: Callable[[Assignment], float], pulls: int) -> Overview:
    with experiment:
        for _ in range(pulls // 60):
            given = experiment.ask(60)
            experiment.tell_many([(each.id, reward(each)) for each in given])
        return overview(experiment)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("contradicted", [False, True])
def test_a_reworded_statement_changes_no_verdict(
    sqlite_url: str, words: str, contradicted: bool
) -> None:
    problem = Problem(np.eye(2), delta=0.05, noise=0.1, baseline=0.1)
    options: dict[str, Any] = {} if contradicted else BOUNDED

    def reward(each: Assignment) -> float:
        return 50.0 - 20 * each.arm if contradicted else 1.0 - each.arm

    def begin(policy: str) -> Experiment:
        return Experiment.create(
            sqlite_url, policy, problem, policy=policy, policy_options=options, seed=1
        )

    Reworded.words = words
    expected = played(begin("anytime"), reward, 1500)
    assert expected.proven is not contradicted
    assert expected.leaderboard[0].status == "best"  # it has decided
    assert facts(played(begin(REWORDED), reward, 1500)) == facts(expected)


def test_a_contradiction_is_shown_without_a_sentence_of_the_policy(sqlite_url: str) -> None:
    problem = Problem(np.eye(2), noise=0.1, baseline=0.1)
    Reworded.words = ""
    experiment = Experiment.create(sqlite_url, "offer", problem, policy=REWORDED, seed=1)
    seen = played(experiment, lambda _: 50.0, 60)
    assert seen.contradictions[0] == "Outcomes contradict the declared scales."


@pytest.mark.parametrize(
    ("policy", "options", "claims"),
    [
        ("anytime", BOUNDED, 0.07),
        ("bernstein", BOUNDED, 0.07),
        ("lucb", {"radius": "certified"}, 0.07),
        ("lucb", {}, None),
        ("sp-bai", {}, None),
    ],
    ids=["anytime", "bernstein", "lucb, certified", "lucb", "sp-bai"],
)
def test_what_will_be_claimed_is_known_before_the_first_outcome(
    sqlite_url: str, policy: str, options: dict[str, Any], claims: float | None
) -> None:
    problem = Problem(np.eye(2), delta=0.07)
    with Experiment.create(
        sqlite_url, "offer", problem, policy=policy, policy_options=options
    ) as experiment:
        recommendation = experiment.recommendation()
        assert (recommendation.claims, recommendation.error_bound, recommendation.contradicted) == (
            claims,
            None,
            False,
        )
        assert overview(experiment).proven is (claims is not None)


@pytest.mark.parametrize(
    ("options", "sole"), [({}, True), ({"tolerance": 0.1}, False), ({"top": 2}, False)]
)
def test_a_sole_best_is_one_and_exact(sqlite_url: str, options: dict[str, Any], sole: bool) -> None:
    problem = Problem(np.eye(3), delta=0.05)
    made = options | {"bounds": [0, 1]}
    with Experiment.create(sqlite_url, "offer", problem, policy_options=made) as experiment:
        while not experiment.finished:
            experiment.tell_many([(each.id, 1.0 - each.arm / 2) for each in experiment.ask(60)])
        seen = overview(experiment)
    assert (seen.proven and seen.spec.traits.names_the_best) is sole
    assert (seen.standing == "the best") is sole


@pytest.mark.parametrize(
    ("options", "events"), [({}, 1 / 0.91), ({"top": 2}, 6), ({"tolerance": 0.05}, 1 / 0.9)]
)
def test_the_evidence_is_shown_in_parts_of_what_decides(
    sqlite_url: str, options: dict[str, Any], events: float
) -> None:
    """log(1/δ) for the best of 5, of which options that come and go take 9 %, and what is good
    enough 10 %; δ is shared by m(H − m) pairs for a set."""
    rng, problem = np.random.default_rng(3), Problem(np.eye(5), delta=0.06)
    given = {"bounds": [0, 1], **options}
    with Experiment.create(
        sqlite_url, "offer", problem, policy_options=given, seed=2
    ) as experiment:
        batch = experiment.ask(300)
        chances = np.array([0.7, 0.6, 0.5, 0.4, 0.1])[batch.arms]
        experiment.tell_many(dict(zip(batch.ids, rng.binomial(1, chances).tolist(), strict=True)))
        values = experiment.inspect(lambda policy, _: policy.evidence())  # type: ignore[attr-defined]
        board = overview(experiment).leaderboard
    parts = np.clip(np.log(values) / math.log(events / 0.06), 0, 1)
    assert any(0.1 < part < 0.9 for part in parts)
    for option in board:
        if option.status != "out":
            assert option.evidence == pytest.approx(parts[option.target])


# --- effects -----------------------------------------------------------------------------------

MEANS = np.array([0.85, 0.4, 0.2])
NEAR = np.array([0.5, 0.48, 0.49])
NAMES = ["new", "old", "other"]


@contextmanager
def finished(url: str, means: np.ndarray, **options: Any) -> Iterator[Experiment]:
    problem = Problem(np.eye(3), source_labels=NAMES)
    options = {"bounds": [0, 1], "control": "old"} | options
    with Experiment.create(url, "effects", problem, policy_options=options, seed=0) as made:
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
        seen, recommendation, headline = (
            overview(made),
            made.recommendation(),
            Watch(made).headline(),
        )
    effect = recommendation.effect
    assert effect is not None
    assert effect.relative is not None
    assert seen.verdict == (
        "‘new’ is the best of 3 options. Its lead over the control ‘old’ is "
        f"+{100 * effect.estimate:.1f} points ({points(effect.lower)} to {points(effect.upper)}), "
        f"+{100 * effect.relative:.0f} % relative. Both hold together, at 95 % after "
        f"{recommendation.pulls:,} assignments."
    )
    assert (
        headline
        == f"‘new’ is the best of 3 options, at 95 % after {recommendation.pulls:,} assignments."
    )
    lead = f"its lead over 'old', the control, is +{100 * effect.estimate:.1f} points ("
    assert lead in recommendation.statement
    assert 0 <= effect.lower <= MEANS[0] - MEANS[1] <= effect.upper
    row = next(each for each in seen.leaderboard if each.label == "old")
    assert (row.behind, row.low, row.high) == (effect.estimate, effect.lower, effect.upper)
    assert all(each.low is not None and each.low >= 0 for each in seen.leaderboard)
    page = report(seen).replace("\N{NO-BREAK SPACE}", " ")
    assert f'id="verdict">{seen.sentences[0]}</p>' in page
    assert " ".join(seen.sentences[1:]) in page


def test_a_control_that_wins_leads_nobody(sqlite_url: str) -> None:
    with finished(sqlite_url, MEANS, control="new") as made:
        seen = overview(made)
    assert seen.verdict.startswith("‘new’, the control, is the best of 3 options, at 95 % after ")
    assert 'id="lead"' not in report(seen)


def test_equivalent_is_an_end_like_others(sqlite_url: str) -> None:
    with finished(sqlite_url, NEAR, tolerance=0.25) as made:
        seen, recommendation, headline = (
            overview(made),
            made.recommendation(),
            Watch(made).headline(),
        )
        made.replay()
        assert made.verify().sound
    assert (recommendation.reason, recommendation.label, recommendation.final) == (
        "equivalent",
        "old",
        True,
    )
    assert (
        seen.verdict
        == headline
        == (
            "No option is better than the control ‘old’ by more than 25 points, at "
            f"{percent(0.05)} after {recommendation.pulls:,} assignments."
        )
    )
    assert seen.story[0].words == "Decided: no option is much better than the control ‘old’."
    assert (seen.leaderboard[0].label, seen.leaderboard[0].status) == ("old", "best")
    assert seen.leaderboard[0].behind == 0
    assert all(each.low is not None and each.low >= -0.25 for each in seen.leaderboard)
    assert str(recommendation).startswith(
        "old: equivalent to the best, within the tolerance, after "
    )
    assert "No option is better than the control" in report(seen)


def test_nothing_is_said_of_an_effect_where_nothing_is_proven(sqlite_url: str) -> None:
    problem = Problem(np.eye(3), noise=0.1, baseline=0.1, source_labels=NAMES)
    options = {"control": "old"}
    with Experiment.create(sqlite_url, "wild", problem, policy_options=options, seed=0) as made:
        given = made.ask(90)
        made.tell_many([(each.id, 0.06 if each.arm == 0 else 0.0) for each in given])
        before = overview(made)
        made.tell_many([(number, 50.0) for number in made.ask(30).ids])
        seen, after = overview(made), made.recommendation()
    assert before.proven
    assert before.recommendation.effect is not None
    assert 'id="lead"' in report(before)
    assert not seen.proven
    assert not after.final
    assert after.effect is None
    assert 'id="lead"' not in report(seen)
    assert "lead over" not in seen.verdict
    assert "interval of ‘" not in report(seen)


@pytest.mark.parametrize("options", [{"bounds": [0, 1]}, {}], ids=["bounds", "noise"])
@pytest.mark.parametrize(("pulls", "shown"), [(1, False), (59, True), (60, True)])
def test_an_effect_is_finite_from_the_first_on_that_is_shown(
    sqlite_url: str, options: dict[str, Any], pulls: int, shown: bool
) -> None:
    """Of 60 assignments: nothing rests on a single outcome, estimates rest on nearly all."""
    problem = Problem(np.eye(3), source_labels=NAMES)
    options = {**options, "control": "old"}
    with Experiment.create(sqlite_url, "early", problem, policy_options=options, seed=0) as made:
        before: Recommendation = made.recommendation()
        assert before.effect is None
        given = made.ask(60)
        made.tell_many([(number, 1.0) for number in given.ids[:pulls]])
        made.ask(60)
        effect = made.recommendation().effect
    assert (effect is not None) is shown
    if effect is not None:
        assert np.isfinite([effect.estimate, effect.lower, effect.upper]).all()
        assert effect.lower <= effect.estimate <= effect.upper
