"""A trial knows which arithmetic began it, and no other goes on with it."""

from __future__ import annotations

import json
import sqlite3
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from chained_policies import Chained

from bestarm import AnytimeBAI, Problem
from bestarm.errors import ReplayError
from bestarm.live import Experiment
from bestarm.live.spec import Document, make_document

DRINKS = Problem([[1, 0], [0, 1]], source_labels=["tea", "coffee"])
OPTIONS: dict[str, object] = {"bounds": (0, 1)}
OWN = "chained_policies:Chained"


def begin(path: Path, policy: str = "anytime") -> str:
    """A trial in the middle of its second phase, and where it is."""
    url, options = f"sqlite:///{path}", OPTIONS if policy == "anytime" else {}
    with Experiment.create(
        url, "drinks", DRINKS, policy=policy, options=options, seed=0
    ) as experiment:
        for size in (16, 5) if policy == "anytime" else (6, 5):
            batch = experiment.ask(size)
            experiment.tell_many({each.id: 0.5 for each in batch})
    return url


def noted(path: Path) -> dict[str, Any]:
    with sqlite3.connect(path) as connection:
        ((text,),) = connection.execute("SELECT document FROM bestarm_experiments").fetchall()
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_trial_notes_the_versions_that_began_it(tmp_path: Path) -> None:
    path = tmp_path / "trial.db"
    with Experiment.open(begin(path), "drinks") as experiment:
        assert experiment.verify().sound
    assert noted(path)["policy_version"] == AnytimeBAI.version
    assert noted(path)["bestarm"] == version("bestarm")


def test_another_version_does_not_go_on_and_says_which_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = begin(tmp_path / "trial.db")
    with Experiment.open(url, "drinks") as experiment:
        said = experiment.recommendation()
    monkeypatch.setattr(AnytimeBAI, "version", AnytimeBAI.version + 1)
    with Experiment.open(url, "drinks") as experiment:
        told, events = experiment.status().pulls, len(experiment.events())
        assert experiment.verify().sound
        assert experiment.export(tmp_path / "trial.csv") == told
        for call in (experiment.recommendation, experiment.replay, lambda: ended(experiment)):
            with pytest.raises(ReplayError) as caught:
                call()
            text = str(caught.value)
            assert "version 2 of the policy 'anytime'" in text
            assert "here it has version 3" in text
            assert f"Install bestarm {version('bestarm')} to go on" in text
        # What was told is on record, and nothing was decided by the wrong arithmetic.
        assert experiment.status().outstanding == 0
        assert len(experiment.events()) == events
        assert experiment.verify().sound
    monkeypatch.undo()
    with Experiment.open(url, "drinks") as experiment:
        assert ended(experiment).pulls > said.pulls
        assert experiment.verify().sound


def test_what_needs_no_policy_is_done_by_any_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = begin(tmp_path / "trial.db")
    monkeypatch.setattr(AnytimeBAI, "version", AnytimeBAI.version + 1)
    with Experiment.open(url, "drinks") as experiment:
        experiment.pause()
        experiment.resume()
        experiment.stop("for another version")
        assert experiment.state == "stopped"
        assert [event.kind for event in experiment.events()[-3:]] == [
            "paused",
            "resumed",
            "stopped",
        ]


def ended(experiment: Experiment) -> Any:
    """Answer all that the open phase still asks for."""
    while experiment.phase == 2:
        batch = experiment.ask(30)
        experiment.tell_many({each.id: 0.5 for each in batch})
    return experiment.recommendation()


@pytest.mark.parametrize("named", [None, "1.0", True, 3])
def test_a_policy_of_ones_own_may_name_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: object
) -> None:
    if named is not None:
        monkeypatch.setattr(Chained, "version", named, raising=False)
    path = tmp_path / "own.db"
    url = begin(path, OWN)
    assert noted(path)["policy_version"] == (3 if named == 3 else None)
    with Experiment.open(url, "drinks") as experiment:
        assert experiment.replay().recommendation.pulls == 11
    # One that stops naming its version is held to what it decided alone.
    monkeypatch.delattr(Chained, "version", raising=False)
    with Experiment.open(url, "drinks") as experiment:
        assert experiment.replay().recommendation.pulls == 11


def test_a_policy_of_ones_own_is_held_to_the_version_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Chained, "version", 3, raising=False)
    url = begin(tmp_path / "own.db", OWN)
    monkeypatch.setattr(Chained, "version", 4)
    with (
        Experiment.open(url, "drinks") as experiment,
        pytest.raises(ReplayError, match=r"Install the 'chained_policies' of then to go on"),
    ):
        experiment.recommendation()


@pytest.mark.parametrize("policy", ["anytime", OWN])
def test_a_document_reads_back_to_the_same_text(policy: str) -> None:
    """The log has a digest of it, so what was not noted then must not be noted now."""
    options = OPTIONS if policy == "anytime" else {}
    text = make_document(DRINKS, policy, options, 1).to_json()
    assert Document.from_json(text).to_json() == text
    old = {
        key: value
        for key, value in json.loads(text).items()
        if key not in {"policy_version", "bestarm"}
    }
    again = Document.from_json(json.dumps(old))
    assert json.loads(again.to_json()) == old
    if policy == "anytime":  # at its second version since
        with pytest.raises(ReplayError, match="begun with version 1"):
            again.make()
    else:
        assert again.make().plan() is not None
