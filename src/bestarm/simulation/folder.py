"""A folder of many simulations: their settings and every finished run.

Each simulation has a journal, to which runs are added as they finish. Killing the process at any
instant loses at most the runs under way; opening the folder again continues from there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

from bestarm.environments import Environment
from bestarm.errors import InvalidInputError
from bestarm.files import locked, replacing
from bestarm.policies.policy import Method
from bestarm.simulation.engine import simulate
from bestarm.simulation.methods import Oracle, code_version, method_name
from bestarm.simulation.progress import Progress
from bestarm.simulation.results import Outcome, Results, RunJournal

_SETTINGS = "settings.json"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object in memory: another in every process
_LINE = re.compile(r"\d{1,9},\d{1,18},[01],[01],[01],\d{1,9},\d{1,18},\d{1,18}")


class Journal:
    """The finished runs of one simulation, one line per run; the first line says which it is.

    `recipe` says it in words; `version` is that of a user's own method, by `code_version`.
    """

    def __init__(self, path: Path, recipe: str, version: str = "") -> None:
        self._path, self._recipe, self._version = path, recipe, version
        self._header = _header(recipe, version)

    def check(self) -> bool:
        """Whether it has begun; raise if it holds runs of something else, or is damaged."""
        if not self._path.exists():
            return False
        with self._path.open("rb") as file:
            header = file.readline()
        if self._header.startswith(header):  # or cut before the end of that line, without runs
            return header == self._header
        recipe, version = _parse_header(header)
        if recipe is None:
            problem = f"The first line of {str(self._path)!r} is damaged: {header[:80]!r}"
        elif recipe != self._recipe:
            problem = (
                f"{str(self._path)!r} holds runs of something else: {recipe}, not {self._recipe}"
            )
        else:
            problem = (
                f"The code of the method has changed since the runs in {str(self._path)!r} were "
                f"made: it was {version or 'not recorded'}, and is {self._version or 'built in'}"
            )
        remedy = "Use another folder, or delete this file, and its runs are made again."
        raise _invalid_folder(f"{problem}.", self._path, remedy)

    def read(self) -> list[Outcome]:
        """The runs in it, if it is not damaged; an incomplete last line is removed."""
        if not self.check():
            with replacing(self._path) as part:
                part.write_bytes(self._header)
            return []
        content = self._path.read_bytes()
        kept = content.rindex(b"\n") + 1
        lines = content[len(self._header) : kept].decode(errors="replace").split("\n")[:-1]
        outcomes: list[Outcome] = []
        for number, line in enumerate(lines, start=2):
            if not _LINE.fullmatch(line):
                what = f"Line {number} of {str(self._path)!r} is not a finished run: {line!r}."
                remedy = "Delete this file, and its runs are made again."
                raise _invalid_folder(what, self._path, remedy)
            run, pulls, *rest = map(int, line.split(","))
            outcomes.append(Outcome(run, pulls, *map(bool, rest[:3]), *rest[3:]))
        if kept < len(content):
            os.truncate(self._path, kept)
        return outcomes

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add finished runs and hand them to the operating system."""
        lines = (",".join(map(str, map(int, outcome))) + "\n" for outcome in outcomes)
        with naming_file(self._path), self._path.open("ab") as file:
            file.write("".join(lines).encode())


def _invalid_folder(what: str, path: Path, remedy: str) -> InvalidInputError:
    return InvalidInputError(what, field="out", value=str(path), remedy=remedy)


def _header(recipe: str, version: str) -> bytes:
    return f"# {json.dumps([recipe, version] if version else recipe)}\n".encode()


def _parse_header(header: bytes) -> tuple[str | None, str]:
    """The recipe and the version in a first line; None if it cannot be read."""
    try:
        value = json.loads(header.removeprefix(b"# "))
        recipe, version = value if isinstance(value, list) else (value, "")
    except (ValueError, RecursionError):
        return None, ""
    texts = isinstance(recipe, str) and isinstance(version, str)
    return (recipe, version) if texts and header == _header(recipe, version) else (None, "")


def journal_of(
    folder: Path, name: str, method: Method | Oracle, environment: Environment, *, delta: float
) -> Journal:
    """The journal of a simulation in an open folder."""
    words = _ADDRESS.sub("", method_name(method))
    recipe = f"{words} in {environment.name} at delta {delta:g}"
    return Journal(folder / "journal" / f"{name}.csv", recipe, code_version(method))


def simulate_into(
    folder: Path,
    name: str,
    method: Method | Oracle,
    environment: Environment,
    *,
    runs: int,
    seed: int,
    delta: float,
    executor: Executor | None = None,
    progress: Progress = False,
) -> Results:
    """`simulate`, with every finished run kept under a name in an open folder, and not made again.

    Raises:
        InvalidInputError: the folder has runs of something else under this name, or damaged ones.
    """
    journal = journal_of(folder, name, method, environment, delta=delta)
    known = [outcome for outcome in journal.read() if outcome.run < runs]
    return simulate(
        method,
        environment,
        runs=runs,
        seed=seed,
        delta=delta,
        executor=executor,
        progress=progress,
        journal=RunJournal(known=known, record=journal.add),
    )


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Name the file in errors that do not, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def open_folder(path: Path, settings: dict[str, object], *, resume: bool) -> Iterator[None]:
    """Make the folder, or open one with the same settings to resume it; no other process may.

    Raises:
        InvalidInputError: the folder holds something else, or another process has it open.
    """
    _check(path, settings, resume=resume)
    (path / "journal").mkdir(parents=True, exist_ok=True)
    with exclusive(path):
        if not (path / _SETTINGS).exists():
            text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
            with replacing(path / _SETTINGS) as part:
                part.write_text(text, encoding="utf-8")
        yield


def _check(path: Path, settings: dict[str, object], *, resume: bool) -> None:
    def refuse(what: str, remedy: str) -> InvalidInputError:
        return _invalid_folder(f"The folder {str(path)!r} {what}.", path, remedy)

    if path.exists() and not path.is_dir():
        raise refuse("is a file", "Use another folder.")
    try:
        before = json.loads((path / _SETTINGS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        entries = [entry.name for entry in path.iterdir()] if path.exists() else []
        if not {name for name in entries if not name.startswith(".")} <= {"journal"}:
            raise refuse("holds other things", "Use a new or an empty folder.") from None
        return  # new, or killed before its settings were written
    except (ValueError, RecursionError):
        before = None
    if not isinstance(before, dict):
        raise refuse("has settings that cannot be read", "Use another folder.")
    if not resume:
        raise refuse("holds results already", "Resume them (`resume`), or use another folder.")
    for key, value in settings.items():
        if before.get(key) != value:
            raise refuse(
                f"holds results with other {key}: {before.get(key)!r}, not {value!r}",
                "Use another folder, or the settings it was made with.",
            )


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder; raise if one does."""
    with locked(path / ".lock") as acquired:
        if not acquired:
            what = f"Another process is writing to {str(path)!r}."
            raise _invalid_folder(what, path, "Wait for it, or use another folder.")
        yield
