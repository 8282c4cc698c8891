"""The folder of a replication: its settings and every finished run.

Each row has a journal, to which runs are added as they finish; killing the process at any instant
loses at most the running runs; opening the folder again continues from there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bestarm.errors import InvalidInputError
from bestarm.simulation import Outcome

__all__ = ["Folder", "Journal", "alone", "named", "open_folder"]

_SETTINGS = "settings.json"
_LINE = re.compile(r"\d{1,9},\d{1,18},[01],[01],\d{1,9},\d{1,18}")


class Journal:
    """The finished runs of one row, one line per run; the first line names the row.

    A journal of something else, such as of another version, is replaced.
    """

    def __init__(self, path: Path, recipe: str) -> None:
        self._path = path
        self._first = f"# {json.dumps(recipe)}\n".encode()
        self._file: BinaryIO | None = None

    def read(self) -> list[Outcome]:
        """The runs in it; an incomplete last line is removed."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b""
        if not content.startswith(self._first):
            self._start()
            return []
        kept = content.rindex(b"\n") + 1
        lines = content[len(self._first) : kept].decode(errors="replace").split("\n")[:-1]
        outcomes: list[Outcome] = []
        for number, line in enumerate(lines, start=2):
            outcome = _outcome(line)
            if outcome is None:
                raise InvalidInputError(
                    f"Line {number} of {str(self._path)!r} is not a finished run: {line!r}.",
                    field="out",
                    value=str(self._path),
                    remedy="Delete this file, and its row is made again.",
                )
            outcomes.append(outcome)
        if kept < len(content):
            os.truncate(self._path, kept)
        return outcomes

    def _start(self) -> None:
        fresh = self._path.with_name(f".{self._path.name}")
        with named(fresh):
            fresh.write_bytes(self._first)
        fresh.replace(self._path)

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add finished runs and hand them to the operating system."""
        lines = (",".join(map(str, map(int, outcome))) + "\n" for outcome in outcomes)
        with named(self._path):
            if self._file is None:
                self._file = self._path.open("ab")
            self._file.write("".join(lines).encode())
            self._file.flush()

    def close(self) -> None:
        """Close the file; adding opens it again."""
        file, self._file = self._file, None
        if file is not None:
            with named(self._path):
                file.close()


def _outcome(line: str) -> Outcome | None:
    """The run that a line of a journal holds, or None if it cannot be one."""
    if not _LINE.fullmatch(line):
        return None
    run, pulls, correct, final, target, plans = map(int, line.split(","))
    return Outcome(run, pulls, bool(correct), bool(final), target, plans)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Name the file in errors that do not, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


class Folder:
    """A folder that this process alone writes to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def journal(self, name: str, recipe: str) -> Iterator[Journal]:
        """The journal of a row."""
        journal = Journal(self.path / "journal" / f"{name}.csv", recipe)
        try:
            yield journal
        finally:
            journal.close()


@contextmanager
def open_folder(path: Path, settings: dict[str, object], *, resume: bool) -> Iterator[Folder]:
    """Make the folder, or open one with the same settings to resume it.

    Raises:
        InvalidInputError: the folder holds something else, or another process has it open.
        OSError: it cannot be written.
    """
    _check(path, settings, resume=resume)
    (path / "journal").mkdir(parents=True, exist_ok=True)
    with alone(path):
        if not (path / _SETTINGS).exists():
            fresh = path / f".{_SETTINGS}"
            with named(fresh):
                text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
                fresh.write_text(text, encoding="utf-8")
            fresh.replace(path / _SETTINGS)
        yield Folder(path)


def _check(path: Path, settings: dict[str, object], *, resume: bool) -> None:
    def refuse(what: str, remedy: str) -> InvalidInputError:
        return InvalidInputError(
            f"The folder {str(path)!r} {what}.", field="out", value=str(path), remedy=remedy
        )

    if path.exists() and not path.is_dir():
        raise refuse("is a file", "Use another folder.")
    try:
        before = json.loads((path / _SETTINGS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        if path.exists() and any(not entry.name.startswith(".") for entry in path.iterdir()):
            if [entry.name for entry in path.iterdir() if entry.name != ".lock"] == ["journal"]:
                return  # killed between its first two breaths
            raise refuse("holds other things", "Use a new or an empty folder.") from None
        return
    except (ValueError, RecursionError):
        before = None
    if not isinstance(before, dict):
        raise refuse("has settings that cannot be read", "Use another folder.")
    if not resume:
        raise refuse("holds a replication already", "Resume it (`resume`), or use another folder.")
    for key, value in settings.items():
        if before.get(key) != value:
            raise refuse(
                f"holds a replication with other {key}: {before.get(key)!r}, not {value!r}",
                "Use another folder, or the settings it was made with.",
            )


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder.

    Raises:
        InvalidInputError: one is writing to it.
    """
    try:
        import fcntl  # noqa: PLC0415 - not everywhere
    except ImportError:
        yield
        return
    with (path / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInputError(
                f"Another process is writing to {str(path)!r}.",
                field="out",
                value=str(path),
                remedy="Wait for it, or use another folder.",
            ) from None
        yield
