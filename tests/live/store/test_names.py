"""One name is one experiment, however its letters are encoded."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from databases import run_sql
from typer.testing import CliRunner

from bestarm import Experiment, Problem
from bestarm.cli.app import app
from bestarm.errors import ExperimentExistsError, InvalidInputError, UnknownExperimentError

ARMS = Problem(np.eye(2))
COMPOSED, APART = "café 한", unicodedata.normalize("NFD", "café 한")


def create(url: str, name: str) -> Experiment:
    return Experiment.create(url, name, ARMS, options={"bounds": [0, 1]}, seed=1)


@pytest.mark.parametrize("name", [COMPOSED, APART], ids=["composed", "apart"])
def test_two_spellings_of_a_name_are_one_experiment(store_url: str, name: str) -> None:
    assert COMPOSED != APART
    with create(store_url, name) as made:
        made.ask(3)
        assert made.name == COMPOSED
        assert made.verify().sound
    for spelling in (COMPOSED, APART):
        with pytest.raises(ExperimentExistsError, match="already"):
            create(store_url, spelling)
        with Experiment.open(store_url, spelling) as opened:
            assert opened.name == COMPOSED
            assert opened.status().pulls == 3
            assert opened.verify().sound
    assert [each.name for each in Experiment.list(store_url)] == [COMPOSED]


def test_names_and_texts_are_kept_whatever_the_encoding(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with create(postgres_url, "Größe") as experiment:
        ids = experiment.ask(1, request_id="été").ids
        assert experiment.ask(1, request_id="été").ids == ids
        experiment.fail(ids[0], "müde")
    monkeypatch.delenv("PGCLIENTENCODING")
    assert [each.name for each in Experiment.list(postgres_url)] == ["Größe"]
    kept = run_sql(postgres_url, "SELECT name, reason FROM bestarm_requests, bestarm_losses")
    assert kept == [("été", "müde")]


def test_the_command_line_takes_either(sqlite_url: str) -> None:
    create(sqlite_url, COMPOSED).close()
    for name in (COMPOSED, APART):
        said = CliRunner().invoke(app, ["experiment", "status", name, "--store", sqlite_url])
        assert said.exit_code == 0, said.output


@pytest.mark.parametrize("name", [" a", "a ", "a\u00a0", "a\u200b", "a\u2003", "a\u3000"])
def test_spaces_that_nobody_sees_are_refused(sqlite_url: str, name: str) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        create(sqlite_url, name)
    create(sqlite_url, "a").close()
    with pytest.raises(InvalidInputError):
        Experiment.open(sqlite_url, name)


def test_letters_that_only_look_alike_are_two_names(sqlite_url: str) -> None:
    create(sqlite_url, "\N{CYRILLIC CAPITAL LETTER A}").close()
    with pytest.raises(UnknownExperimentError):
        Experiment.open(sqlite_url, "A")
