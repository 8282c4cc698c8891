"""Programs that a few tests need: without one a test is skipped, or fails where all must run."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["need"]


def need(program: str, *, package: str) -> None:
    """Skip the test unless a program is installed, or fail if BESTARM_RUN_ALL_TESTS is set."""
    if shutil.which(program) is None:
        said = f"{program} is not installed; on Debian: apt-get install {package}"
        if os.environ.get("BESTARM_RUN_ALL_TESTS"):
            pytest.fail(said)
        pytest.skip(said)
