"""Programs that a few tests need: without one a test is skipped, or fails where all must run."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import TypeVar

import pytest

__all__ = ["need", "need_found", "need_module"]

_Found = TypeVar("_Found")


def need(program: str, *, package: str) -> None:
    """Skip the test unless a program is installed, or fail if BESTARM_RUN_ALL_TESTS is set."""
    need_found(shutil.which(program), program, package=package)


def need_found(found: _Found | None, what: str, *, package: str) -> _Found:
    """What was found; if nothing was, skip the test or fail as `need` does."""
    if found is not None:
        return found
    message = f"{what} is not installed; on Debian: apt-get install {package}"
    if os.environ.get("BESTARM_RUN_ALL_TESTS"):
        pytest.fail(message)
    pytest.skip(message)


def need_module(name: str, *, extra: str) -> None:
    """Skip the test unless a package of an extra is installed, or fail as `need` does."""
    if find_spec(name) is not None:
        return
    message = f"{name} is not installed: pip install 'bestarmid[{extra}]'"
    if os.environ.get("BESTARM_RUN_ALL_TESTS"):
        pytest.fail(message)
    pytest.skip(message)
