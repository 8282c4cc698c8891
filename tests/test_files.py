"""Files are replaced as a whole; locks are held by one; a link somebody left is never followed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import refused

from bestarm import Experiment, Problem
from bestarm.errors import InvalidInputError
from bestarm.files import locked, replacing, unguarded
from bestarm.live.store import Store
from bestarm.simulation.folder import exclusive

fcntl = pytest.importorskip("fcntl", reason="this system has no file locks of this kind")


def test_a_lock_is_held_by_one_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path) as first, locked(path) as second:
        assert (first, second) == (True, False)
    assert not path.exists()
    with suppress(ValueError), locked(path):
        raise ValueError
    assert not path.exists()


def test_a_file_that_its_holder_removes_meanwhile_is_not_the_one_to_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock = tmp_path / "lock", fcntl.flock

    def remove_then_lock(*arguments: Any) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()
        lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", remove_then_lock)
    with locked(path) as first, locked(path) as second:
        assert (first, second) == (True, False)


def test_a_lock_whose_file_must_not_be_removed_ends_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    path = tmp_path / "lock"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with locked(path) as acquired:
            assert acquired
    with locked(path) as again:
        assert again


def linked(path: Path, folder: Path) -> Path:
    """Another user's trap: a link in the place of a file of ours. The file that it leads to."""
    target = folder / "precious"
    target.write_text("keep me")
    path.symlink_to(target)
    return target


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    target = linked(path, tmp_path)
    with (
        pytest.raises(OSError, match="symbolic link in the place of a lock") as raised,
        locked(path),
    ):
        pass
    assert raised.value.filename == str(path)
    assert path.is_symlink()
    assert target.read_text() == "keep me"
    target.unlink()
    with pytest.raises(OSError, match="symbolic link"), locked(path):  # it leads nowhere
        pass
    assert not target.exists()


def test_a_lock_neither_empties_nor_changes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("keep me")
    os.link(path, tmp_path / "same")
    with locked(path) as held:
        assert held
    assert (tmp_path / "same").read_text() == "keep me"


def test_only_a_regular_file_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"), locked(path):
        pass
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_strangers_lock_counts_only_where_not_everybody_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch()
    whole = os.fstat

    def of_a_stranger(file: int) -> os.stat_result:
        found = list(whole(file))
        found[stat.ST_UID] = os.geteuid() + 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", of_a_stranger)
    with locked(path) as held:
        assert held
    path.touch()
    tmp_path.chmod(0o1777)
    with pytest.raises(OSError, match="file of another user"), locked(path):
        pass


def test_a_folder_of_results_with_a_link_for_its_lock(tmp_path: Path) -> None:
    target = linked(tmp_path / ".lock", tmp_path)
    with pytest.raises(OSError, match="symbolic link"), exclusive(tmp_path):
        pass
    assert target.read_text() == "keep me"
    target.unlink()
    (tmp_path / ".lock").unlink()
    with (
        exclusive(tmp_path),
        pytest.raises(InvalidInputError, match="Another process"),
        exclusive(tmp_path),
    ):
        pass


def test_links_for_every_lock_beside_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with Experiment.create(
        url, "drinks", Problem(np.eye(3)), policy_options={"bounds": [0, 1]}
    ) as made:
        made.ask(4)
    store = Store(url)
    before = set(tmp_path.iterdir())
    with store.try_lock("evaluation drinks"):
        (lock,) = set(tmp_path.iterdir()) - before
    target = linked(lock, tmp_path)
    with pytest.raises(OSError, match="symbolic link"), store.try_lock("evaluation drinks"):
        pass
    assert target.read_text() == "keep me"
    store.close()


def test_the_command_line_says_what_stands_in_the_way(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    target = linked(folder / ".lock", tmp_path)
    message = refused("leaderboard", "--runs", "2", "--out", str(folder))
    assert "it is a symbolic link in the place of a lock file: remove it." in message
    assert target.read_text() == "keep me"


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with suppress(ValueError), replacing(path) as part:
        part.write_text("half")
        raise ValueError
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])
    with replacing(path) as part:
        part.write_text("new")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("new", [path])
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_the_file_written_meanwhile_has_a_name_nobody_can_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        assert first.read_bytes() == second.read_bytes() == b""
    monkeypatch.setattr("secrets.token_hex", lambda _: "known")
    part = tmp_path / ".out.known.part"
    target = linked(part, tmp_path)
    with pytest.raises(FileExistsError), replacing(path):
        pass
    assert target.read_text() == "keep me"


@pytest.mark.parametrize("sign", "=+-@\t\r")
def test_one_apostrophe_is_taken_off(sign: str) -> None:
    assert unguarded(f"'{sign}a") == f"{sign}a"
    assert unguarded(f"''{sign}a") == f"'{sign}a"
    assert unguarded(f"{sign}a") == f"{sign}a"


@pytest.mark.parametrize("text", ["", "'", "''", "'tis", "o'clock", "a'=1", "'1", " '=1"])
def test_other_texts_stay(text: str) -> None:
    assert unguarded(text) == text
