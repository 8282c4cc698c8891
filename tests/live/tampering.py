"""Changes to the tables of a stored experiment that go past the library."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from bestarm import Experiment
from bestarm.errors import DamagedStoreError, InvalidInputError

__all__ = ["change", "changed_copy", "findings"]


def change(path: Path, *statements: str) -> None:
    """Run statements, each of which changes something."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            before = connection.total_changes
            connection.execute(statement)
            assert connection.total_changes > before, f"nothing was changed by {statement}"


def changed_copy(path: Path, folder: Path, *statements: str) -> Path:
    copy = Path(shutil.copy(path, folder / "copy.db"))
    change(copy, *statements)
    return copy


def findings(path: Path, name: str = "offer") -> tuple[str, ...]:
    """What the audit finds, or the error of a record that cannot even be opened."""
    try:
        with Experiment.open(f"sqlite:///{path}", name) as experiment:
            found = experiment.verify().findings
    except (DamagedStoreError, InvalidInputError) as error:
        found = (error.message,)
    assert all(each.endswith(".") for each in found)
    return found
