"""Looking changes nothing: neither a file of somebody else's, nor one of ours."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner
from workers_store import begin

from bestarm import Experiment
from bestarm.cli.app import app
from bestarm.cli.database_checks import check_database
from bestarm.errors import UnknownExperimentError


def unknown(url: str) -> None:
    with pytest.raises(UnknownExperimentError):
        Experiment.open(url, "offer")


def list_after(url: str) -> None:
    with pytest.raises(UnknownExperimentError, match="to continue after"):
        Experiment.list(url, after="x")


def doctor(url: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "--store", url])
    assert result.exception is None or isinstance(result.exception, SystemExit)


LOOKS: dict[str, Callable[[str], object]] = {
    "opening": unknown,
    "listing": Experiment.list,
    "listing after another": list_after,
    "the doctor": doctor,
}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("mode", ["delete", "wal", "truncate"])
@pytest.mark.parametrize("look", LOOKS)
def test_a_file_of_somebody_elses_stays_as_it_is(tmp_path: Path, look: str, mode: str) -> None:
    path = tmp_path / "photos.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.execute("INSERT INTO photos VALUES ('beach')")
    connection.commit()
    connection.close()
    before = bytes_of(tmp_path)
    LOOKS[look](f"sqlite:///{path}")
    assert bytes_of(tmp_path) == before


@pytest.mark.parametrize("look", ["opening", "listing", "the doctor"])
def test_a_log_that_another_program_left_is_left_to_it(tmp_path: Path, look: str) -> None:
    path, copy = tmp_path / "photos.db", tmp_path / "copy"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.commit()
    copy.mkdir()
    for end in ("", "-wal"):  # as if its process had been killed
        shutil.copy(f"{path}{end}", f"{copy}/photos.db{end}")
    connection.close()
    before = bytes_of(copy)
    LOOKS[look](f"sqlite:///{copy}/photos.db")
    after = bytes_of(copy)
    after.pop("photos.db-shm", None)  # an index of the log, made anew by whoever reads it
    assert after == before


@pytest.mark.parametrize("look", LOOKS)
def test_no_file_is_made_by_looking(tmp_path: Path, look: str) -> None:
    LOOKS[look](f"sqlite:///{tmp_path}/none.db")
    assert bytes_of(tmp_path) == {}


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_an_experiment_that_is_only_read_stays_as_it_is(tmp_path: Path, mode: str) -> None:
    """Also one restored from a copy that keeps no write-ahead log, until it is written to."""
    path = tmp_path / "store.db"
    url = f"sqlite:///{path}"
    with begin(url) as experiment:
        experiment.tell_many(dict.fromkeys(experiment.ask(20).ids, 0.5))
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.close()
    before = bytes_of(tmp_path)
    Experiment.list(url)
    check_database(url)
    with Experiment.open(url, "offer") as experiment:
        assert experiment.verify().sound
        (
            experiment.status(),
            experiment.health(),
            experiment.recommendation(),
            experiment.events(),
            experiment.replay(),
        )
        experiment.outcomes()
    assert bytes_of(tmp_path) == before
    with Experiment.open(url, "offer") as experiment:
        experiment.ask()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
