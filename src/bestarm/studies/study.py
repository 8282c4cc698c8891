"""Studies: methods in environments, simulated row by row into a folder that can be resumed.

A study is a list of tables. A row of a table is one simulation: a method in an environment. What a
study makes of its results, verdicts on published figures or ranks, is its own; running, resuming
and reporting are the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import whole
from bestarm.defaults import DELTA
from bestarm.environments import Environment
from bestarm.policies import Method
from bestarm.simulation import Oracle, Results
from bestarm.simulation.executors import installed_versions
from bestarm.simulation.folder import journal_of, open_folder, simulate_into
from bestarm.simulation.results import run_count
from bestarm.tables import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # optional, and slow to import


@dataclass(frozen=True)
class Row:
    """One line of a table: a simulation.

    Attributes:
        key: its name in files.
        label: its name in print.
        method: what is run.
        environment: where.
        ours: whether it is our own row, not in the paper.
        caps_fail: whether a run stopped by a cap counts as failed, whatever it would have named.
        protocol: what is run, in a sentence.
    """

    key: str
    label: str
    method: Method | Oracle
    environment: Environment
    ours: bool = False
    caps_fail: bool = False
    protocol: str = ""

    def succeeded(self, results: Results) -> NDArray[np.bool_]:
        """Which runs succeeded: they named the best target, and reached no cap that counts."""
        return np.asarray(results.correct & results.final if self.caps_fail else results.correct)


@dataclass(frozen=True)
class Table:
    """One table of a study.

    Attributes:
        key: its name on the command line and in files.
        title: its name in print.
        protocol: what every row shares, in a sentence or two.
        rows: its lines.
        delta: the error probability asked for.
    """

    key: str
    title: str
    protocol: str
    rows: tuple[Row, ...]
    delta: float = DELTA


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its files, its title, and a caption on how to read it."""

    name: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """A part of a report: text, tables, notes and pictures about one thing.

    Attributes:
        key: its anchor on the page, and the name of its LaTeX file.
        title: its heading.
        tables: its tables.
        text: what to know before reading them.
        warning: what to know before relying on them.
        caption: of its LaTeX file; without a caption there is none.
        legend: what the marks in that file mean, as LaTeX.
        notes: letters and sentences.
        draw: makes its pictures, within `house_style()`.
    """

    key: str
    title: str
    tables: tuple[TextTable, ...]
    text: str = ""
    warning: str = ""
    caption: str = ""
    legend: str = ""
    notes: tuple[tuple[str, str], ...] = ()
    draw: Callable[[], Iterable[Picture]] | None = None


@dataclass(frozen=True)
class Report:
    """What a study makes of its results.

    Attributes:
        title: its title.
        lead: its result, in a sentence.
        facts: names and values: runs, seed, and the like.
        sections: its parts.
        template: the name of the page's template.
        context: what that template needs besides.
        cells: the lines of `cells.csv`, the header first.
        summary: a table over all sections.
        package: the package whose templates it is among.
    """

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    template: str
    context: Mapping[str, object]
    cells: tuple[Sequence[object], ...]
    summary: TextTable | None = None
    package: str = "bestarm.studies"


Judged = TypeVar("Judged")


class Study(ABC, Generic[Judged]):
    """Tables of simulations, how their results are judged, and what is reported."""

    least_runs: ClassVar[int] = 1
    tables: tuple[Table, ...]

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What results must have been made with, if they are to be resumed, besides the seed."""

    @abstractmethod
    def judge(self, results: StudyResults[Judged]) -> list[Judged]:
        """Every cell with its verdict or its rank."""

    @abstractmethod
    def report(self, results: StudyResults[Judged]) -> Report:
        """The report on complete results."""

    @abstractmethod
    def section_keys(self) -> Iterable[str]:
        """The keys of all sections that a report of this kind may have."""

    def rows(self) -> list[tuple[Table, Row]]:
        """Every row with its table."""
        return [(table, row) for table in self.tables for row in table.rows]


@dataclass(frozen=True, eq=False)
class StudyResults(Generic[Judged]):
    """The results of a study.

    Attributes:
        study: the study.
        runs: the runs requested per row.
        seed: run i of every row was drawn from `SeedSequence(seed, spawn_key=(i,))`.
        results: by table and row.
        interrupted: whether it was interrupted; the folder then has the finished runs.
    """

    study: Study[Judged]
    runs: int
    seed: int
    results: dict[tuple[str, str], Results] = field(default_factory=dict)
    interrupted: bool = False

    def of(self, table: Table, row: Row) -> Results:
        """The runs of one row."""
        return self.results[table.key, row.key]

    def missing(self) -> list[tuple[str, str]]:
        """The keys of rows without results."""
        keys = [(table.key, row.key) for table, row in self.study.rows()]
        return [key for key in keys if key not in self.results]

    @cached_property
    def cells(self) -> list[Judged]:
        """Every cell with its verdict or its rank, as the study judges it."""
        return self.study.judge(self)


def run_study(
    study: Study[Judged],
    *,
    out: Path,
    runs: int = 100,
    seed: int = 0,
    resume: bool = False,
    executor: Executor | None = None,
    progress: Callable[[Table, Row, int, int], object] = lambda *_: None,
    finished: Callable[[Table, Row, Results], object] = lambda *_: None,
) -> StudyResults[Judged]:
    """Simulate every row of a study, keeping each run in `out` as it finishes.

    Args:
        study: a `Replication` or a `Leaderboard`.
        out: a new or empty folder, or one to resume.
        runs: runs per row.
        seed: results depend only on it.
        resume: continue from the runs in `out`, which are not repeated.
        executor: any `concurrent.futures` executor; without one the runs are made in this process.
        progress: called with the table, the row, and how many of how many runs have finished.
        finished: called with the table, a finished row, and its results.

    Raises:
        InvalidInputError: an argument is invalid, or `out` holds something else.
        OSError: `out` cannot be written.
    """
    total = run_count(runs, least=study.least_runs)
    settings: dict[str, object] = {
        "code": ", ".join(installed_versions()),
        "seed": whole(seed, "seed", least=0),
        **study.settings(),
    }
    rows = study.rows()
    results: dict[tuple[str, str], Results] = {}
    interrupted = False
    with open_folder(out, settings, resume=resume):
        try:
            for table, row in rows:  # before anything runs
                name = f"{table.key}.{row.key}"
                journal_of(out, name, row.method, row.environment, delta=table.delta).check()
            for table, row in rows:
                found = simulate_into(
                    out,
                    f"{table.key}.{row.key}",
                    row.method,
                    row.environment,
                    runs=total,
                    seed=seed,
                    delta=table.delta,
                    executor=executor,
                    progress=partial(progress, table, row),
                )
                if found.interrupted:
                    raise KeyboardInterrupt  # noqa: TRY301 - as if it had come here
                results[table.key, row.key] = found
                finished(table, row, found)
        except KeyboardInterrupt:
            interrupted = True
    return StudyResults(study, total, seed, results, interrupted)
