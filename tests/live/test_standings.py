"""How options stand: the words, numbers and pictures agree with the policy, and never raise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bestarm import SPBAI, AnytimeBAI, Experiment, Problem, Recommendation
from bestarm.errors import MissingDependencyError
from bestarm.live.options import Options
from bestarm.live.standings import Standings
from bestarm.policies.policy import Policy, Traits

SCRIPT = "<script>alert(1)</script>"


def run(experiment: Experiment, rates: dict[str, float], batches: int = 200) -> None:
    """Outcomes are 0 or 1, at these rates."""
    rng = np.random.default_rng(1)
    for _ in range(batches):
        batch = experiment.ask(100)
        outcomes = {each.id: float(rng.random() < rates[each.label]) for each in batch}
        if not experiment.finished:
            experiment.tell_many(outcomes)


@pytest.fixture(scope="module")
def decided() -> Experiment:
    problem = Problem(["old", SCRIPT, "video"])
    experiment = Experiment(AnytimeBAI(problem, bounds=(0, 1), control="old"), seed=1)
    run(experiment, {"old": 0.2, SCRIPT: 0.25, "video": 0.6})
    assert experiment.finished
    return experiment


def test_a_frame_has_what_the_policy_knows(decided: Experiment) -> None:
    frame = decided.to_frame()
    look, rates = decided.inspect(lambda policy, _: (policy.look(), policy.rates()))
    assert look is not None
    assert rates is not None
    assert frame.index.tolist() == ["video", SCRIPT, "old"]
    assert frame["status"].tolist() == ["best", "ruled out", "ruled out"]
    assert frame.loc[SCRIPT, "behind"] == look.estimate[1]
    assert [*frame.loc[SCRIPT, ["mean_low", "mean", "mean_high"]]] == [
        rates.low[1],
        rates.estimate[1],
        rates.high[1],
    ]
    effect = decided.recommendation().effect
    assert effect is not None
    assert [*frame.loc["old", ["behind", "behind_low", "behind_high"]]] == [
        effect.estimate,
        effect.lower,
        effect.upper,
    ]


def test_a_notebook_shows_options_in_words_that_cannot_run(decided: Experiment) -> None:
    html = decided._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert ">old (control)<" in html
    assert ">rate<" in html
    assert f"<p>{decided.recommendation()}.</p>" in html


def test_a_picture_has_the_leader_at_zero_and_intervals_left_of_it(decided: Experiment) -> None:
    axes = Figure().subplots()
    assert decided.plot(ax=axes) is axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["video, best", f"{SCRIPT[:23]}…, ruled out", "old, ruled out"]
    assert axes.get_title(loc="left").startswith("video: identified as the best")
    points = [line.get_xdata()[0] for line in axes.lines[:3]]  # type: ignore[index]
    assert points == [0.0, *(-decided.to_frame()["behind"][1:])]


def test_before_any_outcome_nothing_is_known() -> None:
    experiment = Experiment(AnytimeBAI(Problem(["old", "new"]), bounds=(0, 1)), seed=1)
    frame = experiment.to_frame()
    assert frame["status"].tolist() == ["possible", "possible"]
    assert frame.drop(columns="status").isna().all(axis=None)
    assert "–</td>" in experiment._repr_html_()
    assert len(experiment.plot(ax=Figure().subplots()).get_yticks()) == 2


def test_phases_tell_what_their_last_phase_found() -> None:
    problem = Problem([[1, 0], [0, 1], [0.6, 0.8]])
    experiment = Experiment(SPBAI(problem, seed=0), seed=1)
    rng = np.random.default_rng(1)
    while not experiment.finished:
        arms = experiment.ask(10_000)
        experiment.tell_many({each.id: float(2 * (each.arm == 0) + rng.normal()) for each in arms})
    frame, trace = experiment.to_frame(), experiment.recommendation().trace
    assert frame["status"].tolist() == ["named", "ruled out", "ruled out"]  # nothing is proven
    last = next(phase for phase in reversed(trace) if 1 in phase.active)
    place = last.active.index(1)
    known = [*frame.loc["1", ["behind_low", "behind", "behind_high"]]]
    contrast, radius = last.contrasts[place], last.radii[place]
    assert known == [contrast - radius, contrast, contrast + radius]


class Told(Policy):
    """A policy that says what it is told to say."""

    def __init__(self, problem: Problem, recommendation: Recommendation) -> None:
        self.problem, self.said = problem, recommendation

    def recommend(self) -> Recommendation:
        return self.said

    def plan(self) -> Any: ...
    def adopt(self, plan: object) -> None: ...
    def update(self, summary: object) -> None: ...


@pytest.mark.parametrize(
    ("changes", "statuses"),
    [
        ({}, {"a": "best", "b": "ruled out", "c": "ruled out"}),
        ({"error_bound": None}, {"a": "named"}),
        ({"tied": (0, 1)}, {"a": "named"}),
        ({"final": False}, {"a": "leads", "b": "ruled out"}),
        ({"final": False, "leads": False}, {"a": "possible"}),
        ({"chosen": (0, 1), "active": (0, 1)}, {"a": "best", "b": "best", "c": "ruled out"}),
    ],
)
def test_the_status_says_no_more_than_the_recommendation(
    changes: dict[str, Any], statuses: dict[str, str]
) -> None:
    problem = Problem(["a", "b", "c"])
    parts: dict[str, Any] = {"target": 0, "label": "a", "final": True, "reason": "identified"}
    parts |= {"pulls": 10, "error_bound": 0.05, "active": (0,)}
    said = Recommendation(**(parts | changes))
    made = Standings.of(Told(problem, said), "running", Options(problem, Traits()))
    assert {row.option: row.status for row in made.rows}.items() >= statuses.items()


def test_without_its_database_a_notebook_shows_why(sqlite_url: str, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    problem = Problem(["old", "new"])
    with Experiment.create(sqlite_url, "checkout", problem, bounds=(0, 1)) as experiment:
        (tmp_path / "store.db").unlink()
        assert experiment._repr_html_().startswith("<p>Experiment checkout: The file is gone: ")
        assert repr(experiment).startswith("<Experiment 'checkout': The file is gone: ")


def test_missing_packages_are_named(decided: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bestarmid\[frames\]'"):
        decided.to_frame()
    with pytest.raises(MissingDependencyError, match=r"pip install 'bestarmid\[plots\]'"):
        decided.plot()
    assert "video" in decided._repr_html_()
