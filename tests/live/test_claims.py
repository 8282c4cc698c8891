"""What is said of an experiment is made from facts; no sentence decides anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem
from bestarm.live import Assignment, Experiment
from bestarm.live.watch.overview import Overview, overview
from bestarm.recommendation import Recommendation

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
            sqlite_url, policy, problem, policy=policy, options=options, seed=1
        )

    Reworded.words = words
    expected = played(begin("anytime"), reward, 600)
    assert expected.proven is not contradicted
    assert expected.leaderboard[0].status == "best"  # it has decided
    assert facts(played(begin(REWORDED), reward, 600)) == facts(expected)


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
        sqlite_url, "offer", problem, policy=policy, options=options
    ) as experiment:
        said = experiment.recommendation()
        assert (said.claims, said.error_bound, said.contradicted) == (claims, None, False)
        assert overview(experiment).proven is (claims is not None)


@pytest.mark.parametrize(
    ("options", "sole"), [({}, True), ({"tolerance": 0.1}, False), ({"top": 2}, False)]
)
def test_a_sole_best_is_one_and_exact(sqlite_url: str, options: dict[str, Any], sole: bool) -> None:
    problem = Problem(np.eye(3), delta=0.05)
    made = options | {"bounds": [0, 1]}
    with Experiment.create(sqlite_url, "offer", problem, options=made) as experiment:
        while not experiment.finished:
            experiment.tell_many([(each.id, 1.0 - each.arm / 2) for each in experiment.ask(60)])
        seen = overview(experiment)
    assert (seen.proven and seen.spec.traits.names_the_best) is sole
    assert (seen.standing == "the best") is sole
