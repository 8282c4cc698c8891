"""All rows of all tables, simulated into a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bestarm.checks import whole
from bestarm.datasets import RatingsData
from bestarm.replication.cell import Cell, judged, row_cells
from bestarm.replication.papers import PAPERS, Paper
from bestarm.replication.tables import Row, Table
from bestarm.simulation import Results
from bestarm.simulation.executors import installed_versions
from bestarm.simulation.folder import open_folder, simulate_into
from bestarm.simulation.results import run_count

RowProgress = Callable[[Table, Row, int], object]


@dataclass(frozen=True)
class RowObserver:
    """Functions that `reproduce` calls on the way.

    Attributes:
        progress: called with the table, the row and the number of its finished runs.
        finished: called with the table, a finished row, and its cells before any verdict.
    """

    progress: RowProgress | None = None
    finished: Callable[[Table, Row, list[Cell]], object] | None = None


@dataclass(frozen=True, eq=False)
class Replication:
    """The results of the tables.

    Attributes:
        tables: the tables, in their order.
        runs: the runs requested per row.
        seed: run i of every row was drawn from `SeedSequence(seed, spawn_key=(i,))`.
        data: the ratings behind the Jester tables.
        paper: the paper that the tables are of.
        results: by table and row.
        interrupted: whether it was interrupted; the folder then has the finished runs.
    """

    tables: tuple[Table, ...]
    runs: int
    seed: int
    data: RatingsData
    paper: Paper = PAPERS["sp-bai"]
    results: dict[tuple[str, str], Results] = field(default_factory=dict)
    interrupted: bool = False

    def of(self, table: Table, row: Row) -> Results:
        """The runs of one row."""
        return self.results[table.key, row.key]

    def cells(self) -> list[Cell]:
        """Every cell with its verdict, in the order of the tables."""
        return list(self._cells)

    @cached_property
    def _cells(self) -> list[Cell]:
        return judged(
            [
                cell
                for table in self.tables
                for row in table.rows
                for cell in row_cells(table, row, self.of(table, row))
            ]
        )


def reproduce(
    tables: Sequence[Table],
    *,
    data: RatingsData,
    paper: Paper = PAPERS["sp-bai"],
    runs: int = 100,
    seed: int = 0,
    out: Path,
    resume: bool = False,
    executor: Executor | None = None,
    observer: RowObserver | None = None,
) -> Replication:
    """Simulate every row of these tables, keeping each run in `out` as it finishes.

    Args:
        tables: from `Paper.tables`.
        data: the ratings the Jester tables were made with.
        paper: the paper that the tables are of.
        runs: runs per row.
        seed: results depend only on it.
        out: a new or empty folder, or one to resume.
        resume: continue from the runs in `out`, which are not repeated.
        executor: any `concurrent.futures` executor; without one the runs are made in this process.
        observer: functions to call on the way.

    Raises:
        InvalidInputError: an argument is invalid, or `out` holds something else.
        OSError: `out` cannot be written.
    """
    observer = observer or RowObserver()
    total = run_count(runs)
    settings: dict[str, object] = {
        "code": ", ".join(installed_versions()),
        "paper": paper.name,
        "seed": whole(seed, "seed", least=0),
        "data": fingerprint(data),
    }
    results: dict[tuple[str, str], Results] = {}
    interrupted = False
    with open_folder(out, settings, resume=resume):
        try:
            for table in tables:
                for row in table.rows:
                    part = _row(out, table, row, total, seed, executor, observer.progress)
                    if part.interrupted:
                        raise KeyboardInterrupt  # noqa: TRY301 - as if it had come here
                    results[table.key, row.key] = part
                    if observer.finished is not None:
                        observer.finished(table, row, row_cells(table, row, part))
        except KeyboardInterrupt:
            interrupted = True
    return Replication(tuple(tables), total, seed, data, paper, results, interrupted)


def _row(
    out: Path,
    table: Table,
    row: Row,
    runs: int,
    seed: int,
    executor: Executor | None,
    progress: RowProgress | None,
) -> Results:
    return simulate_into(
        out,
        f"{table.key}.{row.key}",
        row.method,
        row.environment,
        runs=runs,
        seed=seed,
        delta=table.delta,
        executor=executor,
        progress=False if progress is None else lambda done, _total: progress(table, row, done),
    )


def fingerprint(data: RatingsData) -> str:
    """Which ratings these are: their name, and a digest of their numbers."""
    digest = hashlib.sha256(data.ratings.tobytes())
    digest.update(b"" if data.weights is None else data.weights.tobytes())
    return f"{data.name}, {digest.hexdigest()[:16]}"
