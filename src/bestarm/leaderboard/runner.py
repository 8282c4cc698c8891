"""All methods in all columns, simulated into a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from bestarm.checks import probability, whole
from bestarm.errors import InvalidInputError
from bestarm.leaderboard.column import Column
from bestarm.leaderboard.contestant import NO_BASELINE, Contestant
from bestarm.leaderboard.standing import Standing, standings
from bestarm.simulation import Results
from bestarm.simulation.executors import installed_versions
from bestarm.simulation.folder import journal_of, open_folder, simulate_into
from bestarm.simulation.results import run_count

_LONGEST = 80  # letters of a method's name in the names of files
CellProgress = Callable[[Contestant, Column, int], object]


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """The results of all methods.

    Attributes:
        contestants: the methods.
        columns: the instances with their drifts.
        runs: the runs requested per cell.
        seed: run i of every cell was drawn from `SeedSequence(seed, spawn_key=(i,))`.
        delta: the error probability asked for.
        cells: by the names of method and column.
        interrupted: whether it was interrupted; the folder then has the finished runs.
    """

    contestants: tuple[Contestant, ...]
    columns: tuple[Column, ...]
    runs: int
    seed: int
    delta: float
    cells: dict[tuple[str, str], Results] = field(default_factory=dict)
    interrupted: bool = False

    def standings(self) -> list[Standing]:
        """All methods in all columns, with their ranks."""
        return standings(self.contestants, self.columns, self.cells)


def cells_of(
    contestants: Sequence[Contestant], columns: Sequence[Column]
) -> list[tuple[Contestant, Column]]:
    """Every method in every column that it can run in."""
    return [
        (contestant, column)
        for column in columns
        for contestant in contestants
        if contestant.can_run(column.instance)
    ]


def run_leaderboard(
    contestants: Sequence[Contestant],
    columns: Sequence[Column],
    *,
    out: Path,
    runs: int = 200,
    seed: int = 0,
    delta: float = 0.05,
    resume: bool = False,
    executor: Executor | None = None,
    progress: CellProgress | None = None,
) -> Leaderboard:
    """Simulate every method in every column, keeping each run in `out` as it finishes.

    Args:
        contestants: the methods, from `contestants()` and one's own.
        columns: from `columns()`.
        out: a new or empty folder, or one to resume.
        runs: runs per cell.
        seed: results depend only on it.
        delta: the error probability asked for.
        resume: continue from the runs in `out`, which are not repeated.
        executor: any `concurrent.futures` executor; without one the runs are made in this process.
        progress: called with the method, the column and the number of finished runs.

    Raises:
        InvalidInputError: an argument is invalid, or `out` holds something else.
        OSError: `out` cannot be written.
    """
    total = run_count(runs, least=2)
    names = [each.name for each in contestants]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(
                f"Two methods are named {name!r}.",
                field="contestants",
                value=name,
                remedy="Enter a method once, and give every method its own name.",
            )
    settings: dict[str, object] = {
        "code": ", ".join(installed_versions()),
        "seed": whole(seed, "seed", least=0),
        "delta": probability(delta),
    }
    cells: dict[tuple[str, str], Results] = {}
    interrupted = False
    with open_folder(out, settings, resume=resume):
        try:
            playing = [
                (who, where, f"{_file_name(who.name)}.{where.key}", who.method(where))
                for who, where in cells_of(contestants, columns)
            ]
            for _, column, name, method in playing:  # before anything runs
                journal_of(out, name, method, column.environment, delta=delta).check()
            for contestant, column, name, method in playing:
                results = simulate_into(
                    out,
                    name,
                    method,
                    column.environment,
                    runs=total,
                    seed=seed,
                    delta=delta,
                    executor=executor,
                    progress=_progress_of(progress, contestant, column),
                )
                if results.interrupted:
                    raise KeyboardInterrupt  # noqa: TRY301 - as if it had come here
                cells[contestant.name, column.key] = results
        except KeyboardInterrupt:
            interrupted = True
    return Leaderboard(tuple(contestants), tuple(columns), total, seed, delta, cells, interrupted)


def _progress_of(
    progress: CellProgress | None, contestant: Contestant, column: Column
) -> Callable[[int, int], object] | bool:
    if progress is None:
        return False
    return lambda done, _total: progress(contestant, column, done)


def _file_name(name: str) -> str:
    """A name for files; methods of different names have different ones, on every system."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in name)
    if name in (plain.lower(), NO_BASELINE):
        return plain
    return f"{plain[:_LONGEST]}-{sha256(name.encode()).hexdigest()[:8]}"
