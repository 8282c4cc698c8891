"""Loops are compiled once: not again in every process, and not again for every constant."""

from __future__ import annotations

import errno
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError
from workers_started import processes

from bestarm import compiling

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no process waits there")

_SOURCE = """
from bestarm.compiling import compiled

@compiled
def third(x):
    return x / 3

@compiled
def signed(values, place, up):
    return values[place] if up else -values[place]

@compiled
def total(values, place, up):
    return signed(values, 0, True) + signed(values, place, up) + signed(values, 1, False)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of functions of which none is compiled yet."""
    (tmp_path / "uncompiled.py").write_text(_SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def load() -> Any:
    """The module as another process has it: what was compiled before is only on disk."""
    sys.modules.pop("uncompiled", None)
    return importlib.import_module("uncompiled")


def compile_slowly(folder: Path, link: Connection) -> None:
    """Compile, but end only after a word from the other process."""
    sys.path.insert(0, str(folder))
    kernel = load().third
    usual = kernel._compiler.compile

    def after_a_word(*arguments: Any) -> Any:
        link.send("compiling")
        assert link.recv() == "go on"
        return usual(*arguments)

    kernel._compiler.compile = after_a_word
    kernel(6.0)


@contextmanager
def another_compiles(folder: Path) -> Iterator[Connection]:
    here, there = processes.Pipe()
    process = processes.Process(target=compile_slowly, args=(folder, there))
    process.start()
    try:
        assert here.poll(120)
        assert here.recv() == "compiling"
        yield here
        process.join(120)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


def test_a_process_waits_for_another_that_compiles(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = compiling._locked
    with another_compiles(folder) as link:

        def locked(opened: int, place: int) -> bool:
            if found := usual(opened, place):
                return found
            link.send("go on")  # now that this process waits
            return False

        monkeypatch.setattr(compiling, "_locked", locked)
        kernel = load().third
        assert kernel(6.0) == 2.0
        assert sum(kernel.stats.cache_hits.values()) == 1
        assert not sum(kernel.stats.cache_misses.values())


def test_a_process_does_not_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one may be suspended."""
    monkeypatch.setattr(compiling, "_PATIENCE", 0.0)
    with another_compiles(folder) as link:
        kernel = load().third
        assert kernel(6.0) == 2.0
        assert sum(kernel.stats.cache_misses.values()) == 1
        link.send("go on")


def test_nobody_waits_for_a_process_that_failed_to_compile(folder: Path) -> None:
    with pytest.raises(TypingError, match="No implementation"):
        load().third("six")
    with another_compiles(folder) as link:
        link.send("go on")


def test_where_nothing_can_be_locked_it_is_compiled_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_folder: str) -> int:
        raise OSError("no locks available")

    monkeypatch.setattr(compiling, "_open", refuse)
    assert load().third(6.0) == 2.0


@pytest.mark.usefixtures("folder")
def test_on_a_full_disk_it_is_compiled_all_the_same() -> None:
    kernel = load().third

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    kernel._cache.save_overload = refuse
    assert kernel(6.0) == 2.0
    assert kernel(9.0) == 3.0


@pytest.mark.usefixtures("folder")
def test_constants_are_compiled_as_numbers() -> None:
    module = load()
    assert module.total(np.array([1.0, 2.0, 4.0]), 2, True) == 1.0 + 4.0 - 2.0
    assert len(module.signed.signatures) == 1
