"""Locks on files: held by one, free again afterwards, and never on a file that is gone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bestarm.files import locked

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
        with locked(path) as alone:
            assert alone
    with locked(path) as again:
        assert again
