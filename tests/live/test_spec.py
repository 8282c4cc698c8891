"""What an experiment is made of: what is refused, what is kept, and which version goes on."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chained_policies import Chained

from bestarm import AnytimeBAI, Experiment, Problem, __version__
from bestarm.errors import InvalidInputError, ReplayError
from bestarm.live.spec import Spec, make_spec
from bestarm.policies import Policy, Traits

PAGES = Problem(["old", "new"])


class NeedsMore(Policy):
    """A policy with an option that must be given."""

    def __init__(self, problem: Problem, *, patience: int) -> None:
        raise AssertionError("it must not be made")


def refused(url: str, **settings: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        Experiment.create(url, "page", PAGES, **settings)
    assert Experiment.list(url) == []
    return caught.value


def test_bounds_are_those_of_the_policy(sqlite_url: str) -> None:
    by_itself = Experiment.create(sqlite_url, "page", PAGES, bounds=(0, 1))
    among_options = Experiment.create(sqlite_url, "same", PAGES, policy_options={"bounds": [0, 1]})
    for experiment in (by_itself, among_options):
        spec = experiment.spec
        assert spec is not None
        assert spec.options == {"bounds": [0, 1], "changes": True}
        assert experiment.traits.bounds == (0.0, 1.0)
        experiment.close()


@pytest.mark.parametrize(
    "bounds", [(0, math.nan), (0, math.inf), (1, 0), (0, 0), (0, 1, 2), 1, "01", (0, "1")]
)
def test_bounds_that_are_not_two_numbers_in_order(sqlite_url: str, bounds: Any) -> None:
    error = refused(sqlite_url, bounds=bounds)
    assert "`bounds` must be two finite numbers, the lower one first" in error.message
    assert (error.field, error.value) == ("bounds", bounds)
    assert error.remedy == "For ratings from 1 to 5 they are 1 and 5."


def test_bounds_given_twice(sqlite_url: str) -> None:
    error = refused(sqlite_url, bounds=(0, 1), policy_options={"bounds": [0, 2]})
    assert error.message == "`bounds` is given twice: by itself and among the `policy_options`."


def test_bounds_for_a_policy_without_them(sqlite_url: str) -> None:
    error = refused(sqlite_url, bounds=(0, 1), policy="lucb")
    assert error.message == "The policy 'lucb' has no option 'bounds'."
    assert error.remedy == "Its options are sigma, radius, max_pulls."


@pytest.mark.parametrize(
    ("option", "remedy"),
    [("tolerence", "Did you mean tolerance?"), ("colour", "Its options are bounds, ")],
)
def test_an_unknown_option_of_the_policy(sqlite_url: str, option: str, remedy: str) -> None:
    error = refused(sqlite_url, policy_options={option: 1})
    assert error.message == f"The policy 'anytime' has no option {option!r}."
    assert (error.field, error.value) == ("policy_options", option)
    assert error.remedy.startswith(remedy)


def test_a_missing_option_of_the_policy(sqlite_url: str) -> None:
    error = refused(sqlite_url, policy="test_spec:NeedsMore")
    assert error.message.endswith("needs the option `patience`.")
    error = refused(sqlite_url, policy="uniform")
    assert "Give it, for example budget=" in error.remedy


@pytest.mark.parametrize("value", [math.nan, [0, math.inf], object(), {1, 2}])
def test_an_option_that_cannot_be_kept(sqlite_url: str, value: object) -> None:
    error = refused(sqlite_url, policy_options={"top": 1, "tolerance": value})
    assert error.message.startswith("The option 'tolerance' cannot be kept; got ")
    assert "JSON" not in str(error)
    remedy = "Give finite numbers, texts, truth values, or lists or mappings of them."
    assert error.remedy == remedy


def test_names_that_repeat_are_those_of_the_options(sqlite_url: str) -> None:
    for make in (Experiment, lambda names: Experiment.create(sqlite_url, "t", names)):
        with pytest.raises(InvalidInputError, match="`options` holds 'a' twice") as refused:
            make(["a", "b", "a"])
        assert refused.value.field == "options"


@pytest.mark.parametrize("options", ["old", [], 2, {"old": 1, "new": 2}, ["old", 3], None])
def test_what_is_no_list_of_options_is_refused_as_such(sqlite_url: str, options: Any) -> None:
    for make in (Experiment, partial(Experiment.create, sqlite_url, "t")):
        with pytest.raises(InvalidInputError, match="`options` must be names, or a Problem"):
            make(options, bounds=(0, 1))


def test_how_large_outcomes_may_be_is_declared(sqlite_url: str) -> None:
    """By bounds or by a problem: what a problem assumes by itself fits few outcomes."""
    names, create = ["old", "new"], partial(Experiment.create, sqlite_url, "page")
    for make in (Experiment, create):
        with pytest.raises(InvalidInputError, match="How large outcomes may be") as refused:
            make(names)
        assert refused.value.field == "bounds"
    assert not Experiment.list(sqlite_url)
    Experiment(Problem(names, noise=2))
    create(names, policy_options={"bounds": [0, 1]}).close()
    Experiment.create(sqlite_url, "first", names, policy="uniform", policy_options={"budget": 9})


# --- versions ----------------------------------------------------------------------------------

DRINKS = Problem([[1, 0], [0, 1]], source_labels=["tea", "coffee"])
OPTIONS: dict[str, object] = {"bounds": (0, 1)}
OWN = "chained_policies:Chained"
ALLOWED = ["chained_policies"]


def begin(path: Path, policy: str = "anytime") -> str:
    """An experiment in the middle of its second phase, and where it is."""
    url, options = f"sqlite:///{path}", OPTIONS if policy == "anytime" else {}
    with Experiment.create(
        url, "drinks", DRINKS, policy=policy, policy_options=options, seed=0
    ) as experiment:
        for size in (8, 2) if policy == "anytime" else (6, 5):
            batch = experiment.ask(size)
            experiment.tell_many({each.id: 0.5 for each in batch})
    return url


def noted(path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        ((text,),) = connection.execute("SELECT document FROM bestarm_documents").fetchall()
    found: dict[str, Any] = json.loads(text)
    return found


def test_an_experiment_notes_the_versions_that_began_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Experiment.open(begin(path), "drinks") as experiment:
        assert experiment.verify().sound
    assert noted(path)["traits"]["version"] == AnytimeBAI.version
    assert noted(path)["bestarm"] == __version__


def test_another_version_does_not_go_on_and_says_which_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = begin(tmp_path / "store.db")
    with Experiment.open(url, "drinks") as experiment:
        recommendation = experiment.recommendation()
    monkeypatch.setattr(AnytimeBAI, "version", AnytimeBAI.version + 1)
    with Experiment.open(url, "drinks") as experiment:
        told, events = experiment.status().pulls, len(experiment.events())
        assert experiment.verify().sound
        assert experiment.export(tmp_path / "offer.csv") == told
        for call in (experiment.recommendation, experiment.replay, lambda: ended(experiment)):
            with pytest.raises(ReplayError) as caught:
                call()
            text = str(caught.value)
            installed = AnytimeBAI.version
            assert f"version {installed - 1} of the policy 'anytime'" in text
            assert f"version {installed}, which is installed here" in text
            assert f"Install bestarm {__version__} to continue" in text
        # What was told is on record, and nothing was decided by the wrong arithmetic.
        assert experiment.status().outstanding == 0
        assert len(experiment.events()) == events
        assert experiment.verify().sound
    monkeypatch.undo()
    with Experiment.open(url, "drinks") as experiment:
        assert ended(experiment).pulls > recommendation.pulls
        assert experiment.verify().sound


def test_what_needs_no_policy_is_done_by_any_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = begin(tmp_path / "store.db")
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


def name_version(monkeypatch: pytest.MonkeyPatch, named: Any) -> None:
    monkeypatch.setattr(Chained, "traits", Traits(version=named))


@pytest.mark.parametrize("named", [None, 3])
def test_a_policy_of_ones_own_may_name_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: int | None
) -> None:
    name_version(monkeypatch, named)
    path = tmp_path / "own.db"
    url = begin(path, OWN)
    assert noted(path)["traits"]["version"] == named
    with Experiment.open(url, "drinks", allow_modules=ALLOWED) as experiment:
        assert experiment.replay().recommendation.pulls == 11
    # A policy that stops naming its version is only compared by its decisions.
    name_version(monkeypatch, None)
    with Experiment.open(url, "drinks", allow_modules=ALLOWED) as experiment:
        assert experiment.replay().recommendation.pulls == 11


@pytest.mark.parametrize("traits", ["proven", Traits(version="1.0"), Traits(bounds=(1, 0))])  # type: ignore[arg-type]
def test_traits_that_cannot_be_kept_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traits: object
) -> None:
    monkeypatch.setattr(Chained, "traits", traits)
    with pytest.raises(InvalidInputError, match="traits"):
        begin(tmp_path / "own.db", OWN)


def test_a_policy_of_ones_own_is_held_to_the_version_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_version(monkeypatch, 3)
    url = begin(tmp_path / "own.db", OWN)
    name_version(monkeypatch, 4)
    with (
        Experiment.open(url, "drinks", allow_modules=ALLOWED) as experiment,
        pytest.raises(ReplayError, match=r"Install the 'chained_policies' that created it"),
    ):
        experiment.recommendation()


@pytest.mark.parametrize("policy", ["anytime", "sp-bai", OWN])
def test_a_spec_reads_back_to_the_same_text(policy: str) -> None:
    """The log has a digest of it."""
    options = OPTIONS if policy == "anytime" else {}
    made = make_spec(DRINKS, policy, options, 1)
    assert Spec.from_json(made.to_json()).to_json() == made.to_json()
    assert Spec.from_json(made.to_json()).traits == made.make().traits
