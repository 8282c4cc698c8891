"""Versions of a user's own code are told apart, and what does not matter does not count."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from bestarm.policies import LUCB
from bestarm.policies.registry import policies
from bestarm.simulation import Oracle
from bestarm.simulation.methods import code_version

NAMES = {"mine", "helper", "other", "pack"}
OWN = "from bestarm.policies import LUCB\n\n\nclass Mine(LUCB):\n    pass\n\n\ndef rule(): ...\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget()


def forget() -> None:
    for each in [each for each in sys.modules if each.partition(".")[0] in NAMES]:
        del sys.modules[each]
    importlib.invalidate_caches()


def fresh(name: str) -> ModuleType:
    """A module as a new process would import it, with all that lies beside it."""
    forget()
    return importlib.import_module(name)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_built_in_methods_have_none() -> None:
    assert {code_version(info.method) for info in policies().values()} == {""}
    assert code_version(partial(LUCB, sigma=2.0)) == ""
    assert code_version(Oracle(LUCB, gap="gap")) == ""


def test_an_edit_of_the_module_is_another_version(folder: Path) -> None:
    write(folder / "mine.py", OWN)
    found = code_version(fresh("mine").Mine)
    assert found.startswith("mine ")
    assert code_version(fresh("mine").Mine) == found
    write(folder / "mine.py", OWN + "# new\n")
    assert code_version(fresh("mine").Mine) != found


def test_other_modules_do_not_matter(folder: Path) -> None:
    write(folder / "mine.py", OWN)
    write(folder / "other.py", "A = 1\n")
    before = code_version(fresh("mine").Mine)
    importlib.import_module("other")
    assert code_version(sys.modules["mine"].Mine) == before
    write(folder / "other.py", "A = 2\n")
    assert code_version(fresh("mine").Mine) == before


def test_the_same_text_in_two_modules_is_told_apart(folder: Path) -> None:
    write(folder / "pack" / "__init__.py", "")
    write(folder / "pack" / "mine.py", OWN)
    write(folder / "mine.py", OWN)
    assert code_version(fresh("mine").Mine) != code_version(
        importlib.import_module("pack.mine").Mine
    )


def test_options_and_truths_do_not_hide_a_method(folder: Path) -> None:
    write(folder / "mine.py", OWN)
    home = fresh("mine")
    assert code_version(Oracle(partial(home.Mine, sigma=2.0), gap="gap")) == code_version(home.Mine)


def test_a_file_that_changes_after_its_import_is_the_version_that_was_imported(
    folder: Path,
) -> None:
    write(folder / "mine.py", OWN)
    home = fresh("mine")
    before = code_version(home.Mine)
    write(folder / "mine.py", OWN + "# new\n")
    assert code_version(home.Mine) == before
