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
from typing import TYPE_CHECKING

from bestarm.environments import Environment
from bestarm.errors import InvalidInputError
from bestarm.files import locked, replacing
from bestarm.simulation.engine import simulate
from bestarm.simulation.oracle import Oracle, method_name
from bestarm.simulation.progress import Progress
from bestarm.simulation.results import Outcome, Results, RunJournal

if TYPE_CHECKING:
    from bestarm.policies.policy import Method  # loading every method would be slow

_SETTINGS = "settings.json"
_LINE = re.compile(r"\d{1,9},\d{1,18},[01],[01],\d{1,9},\d{1,18},\d{1,18}")


class Journal:
    """The finished runs of one simulation, one line per run; the first line says which it is.

    A journal of something else, such as of another version, is replaced.
    """

    def __init__(self, path: Path, recipe: str) -> None:
        self._path = path
        self._first = f"# {json.dumps(recipe)}\n".encode()

    def read(self) -> list[Outcome]:
        """The runs in it; an incomplete last line is removed."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b""
        if not content.startswith(self._first):
            with replacing(self._path) as part:
                part.write_bytes(self._first)
            return []
        kept = content.rindex(b"\n") + 1
        lines = content[len(self._first) : kept].decode(errors="replace").split("\n")[:-1]
        outcomes: list[Outcome] = []
        for number, line in enumerate(lines, start=2):
            if not _LINE.fullmatch(line):
                raise InvalidInputError(
                    f"Line {number} of {str(self._path)!r} is not a finished run: {line!r}.",
                    field="out",
                    value=str(self._path),
                    remedy="Delete this file, and its runs are made again.",
                )
            run, pulls, correct, final, *rest = map(int, line.split(","))
            outcomes.append(Outcome(run, pulls, bool(correct), bool(final), *rest))
        if kept < len(content):
            os.truncate(self._path, kept)
        return outcomes

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add finished runs and hand them to the operating system."""
        lines = (",".join(map(str, map(int, outcome))) + "\n" for outcome in outcomes)
        with named(self._path), self._path.open("ab") as file:
            file.write("".join(lines).encode())


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
    """`simulate`, with every finished run kept in a folder, from which it goes on.

    Args:
        folder: the folder, which is open.
        name: the name of this simulation there.
        method: as for `simulate`, like all that follows.
        environment: the environment of the runs.
        runs: the number of runs.
        seed: results depend only on it.
        delta: the error probability that the policy must keep.
        executor: any `concurrent.futures` executor.
        progress: True shows a bar; a function is called with (runs done, runs in total).
    """
    recipe = f"{method_name(method)} in {environment.name} at delta {delta:g}"
    journal = Journal(folder / "journal" / f"{name}.csv", recipe)
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
def named(path: Path) -> Iterator[None]:
    """Name the file in errors that do not, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def open_folder(path: Path, settings: dict[str, object], *, resume: bool) -> Iterator[None]:
    """Make the folder, or open one with the same settings to resume it; no other process may.

    Raises:
        InvalidInputError: the folder holds something else, or another process has it open.
        OSError: it cannot be written.
    """
    _check(path, settings, resume=resume)
    (path / "journal").mkdir(parents=True, exist_ok=True)
    with alone(path):
        if not (path / _SETTINGS).exists():
            text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
            with replacing(path / _SETTINGS) as part:
                part.write_text(text, encoding="utf-8")
        yield


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
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder.

    Raises:
        InvalidInputError: one is writing to it.
    """
    with locked(path / ".lock") as held:
        if not held:
            raise InvalidInputError(
                f"Another process is writing to {str(path)!r}.",
                field="out",
                value=str(path),
                remedy="Wait for it, or use another folder.",
            )
        yield
