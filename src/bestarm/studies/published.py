"""Published figures, the tables that they stand in, and the papers that print these."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from string import ascii_lowercase
from typing import Literal

from bestarm.checks import choice
from bestarm.datasets import RatingsData
from bestarm.simulation.results import wilson
from bestarm.studies.study import Row, Table

Metric = Literal["pulls", "error", "success"]

RUNS = 100  # behind every figure of the seed paper
PAPER_DELTA = 0.1


def read_csv(name: str, *, package: str = "bestarm.studies") -> list[dict[str, str]]:
    """The lines of a file of published figures in a package."""
    with resources.files(package).joinpath(name).open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@dataclass(frozen=True)
class Published:
    """A published figure.

    Attributes:
        value: the figure: a mean over runs.
        spread: the standard deviation of the runs, if published.
        runs: the number of runs behind it.
        rounding: half a unit of the last digit of published pulls.
    """

    value: float
    spread: float | None = None
    runs: int = RUNS
    rounding: float = 0.005

    @property
    def rate_interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of a rate."""
        return wilson(round(self.value * self.runs), self.runs)


@dataclass(frozen=True)
class Rerun:
    """What the authors' own code gives for a published figure, and why ours is another.

    Attributes:
        cause: why, in a sentence.
        link: where that is shown.
        value: the figure of their code; None where it was not run.
        runs: the runs behind it.
        corrected: the figure of their code with one index corrected; None where it was not run.
        corrected_runs: the runs behind that.
    """

    cause: str
    link: str
    value: float | None = None
    runs: int = 0
    corrected: float | None = None
    corrected_runs: int = 0


@dataclass(frozen=True)
class PublishedTable(Table):
    """One table of a paper; the paper's rows come first.

    Attributes:
        delta: the error probability asked for; the ranking asks for none and uses it for its ridge.
        rate: whether the table counts errors or successes.
        counts_pulls: whether pulls are a figure of the table, rather than fixed.
        heavy_tailed: whether a few long runs carry the means of its pulls.
        figures: the published figures, by row and metric.
        differences: those that the paper draws: of which row, from which, in what.
        reruns: the authors' own code, run again, by row and metric.
        chosen_by_error: methods of which the paper sets the row with the fewest pulls at an error
            below 10 % beside SP-BAI.
        judged: whether its figures can be judged: not with made-up users.
    """

    delta: float = PAPER_DELTA
    rate: Literal["error", "success"] = "error"
    counts_pulls: bool = True
    heavy_tailed: bool = False
    figures: Mapping[tuple[str, Metric], Published] = field(default_factory=dict)
    differences: tuple[tuple[str, str, Metric], ...] = ()
    reruns: Mapping[tuple[str, Metric], Rerun] = field(default_factory=dict)
    chosen_by_error: tuple[str, ...] = ()
    judged: bool = True

    @property
    def published_runs(self) -> int:
        """The number of runs behind its published figures."""
        return max((each.runs for each in self.figures.values()), default=RUNS)

    @property
    def notes(self) -> dict[str, str]:
        """The letters of what is particular to rows, by these sentences."""
        sentences = dict.fromkeys(row.protocol for row in self.rows if row.protocol)
        return dict(zip(sentences, ascii_lowercase, strict=False))

    def printed(self, row: Row, metric: Metric) -> Published | None:
        """The published figure of a cell; None for our own rows."""
        return self.figures.get((row.key, metric))


@dataclass(frozen=True)
class Paper:
    """A paper, or the results that its authors published with it.

    Attributes:
        name: its name on the command line.
        title: its title.
        source: who wrote it, when, and where its figures were read.
        builders: make its tables, by name; they are given ratings, which few of them use.
    """

    name: str
    title: str
    source: str
    builders: Mapping[str, Callable[[RatingsData], PublishedTable]]

    def tables(self, names: Iterable[str], data: RatingsData) -> tuple[PublishedTable, ...]:
        """Tables by name, in the paper's order; all of them if no name is given.

        Raises:
            InvalidInputError: no table has that name, or the ratings have another best joke
                than the seed paper's.
        """
        wanted = tuple(names) or tuple(self.builders)
        for name in wanted:
            choice(name, self.builders, "table")
        return tuple(build(data) for name, build in self.builders.items() if name in wanted)
