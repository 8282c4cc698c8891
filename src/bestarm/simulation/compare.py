"""Methods beside each other: the same runs for each, and their difference run by run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from bestarm.environments import Environment
from bestarm.errors import BestArmError
from bestarm.policies.policy import Method
from bestarm.simulation.engine import simulate
from bestarm.simulation.executors import open_executor
from bestarm.simulation.methods import Oracle
from bestarm.simulation.progress import Progress
from bestarm.simulation.results import Z95, Results, wilson
from bestarm.tables import (
    Column,
    Entry,
    Line,
    TextTable,
    latex_float,
    percent_range,
    plus_minus,
)

_QUANTILES = (0.1, 0.5, 0.9)


class Contestant(NamedTuple):
    """A method and the environment it runs in."""

    method: Method | Oracle
    environment: Environment


class Difference(NamedTuple):
    """A mean of paired differences in pulls."""

    mean: float  # NaN without pairs
    half: float  # half a 95 % interval; NaN for fewer than two pairs
    runs: int  # the number of pairs


@dataclass(frozen=True)
class Comparison:
    """The results of several methods, for each that has finished runs.

    The others are measured against `reference`. If an error was raised in runs of a method, that is
    `failed`, and the error is `failure`.
    """

    reference: str
    results: Mapping[str, Results] = field(default_factory=dict)
    failed: str = ""
    failure: Exception | None = None
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        """Whether all runs have finished."""
        return self.failure is None and not self.interrupted

    def difference(self, name: str) -> Difference | None:
        """A method's pulls minus the reference's, over runs that both made.

        None for the reference itself, or if it has no results.
        """
        ours, reference = self.results[name], self.results.get(self.reference)
        if reference is None or name == self.reference:
            return None
        _, left, right = np.intersect1d(
            ours.index, reference.index, assume_unique=True, return_indices=True
        )
        gaps = ours.pulls[left] - reference.pulls[right]
        if not len(gaps):
            return Difference(math.nan, math.nan, 0)
        half = Z95 * float(gaps.std(ddof=1)) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
        return Difference(float(gaps.mean()), half, len(gaps))

    def tables(self) -> tuple[TextTable, ...]:
        """Pulls, rounds where they differ from pulls, and errors: one line per method."""
        short = self.reference if len(self.reference) <= 12 else f"{self.reference[:11]}…"
        pulls, rounds, errors = [], [], []
        for name, results in self.results.items():
            shown = name
            if results.runs < results.requested:
                shown += f" [{results.runs:,} run{'s' * (results.runs != 1)}]"
            quantiles = results.quantiles(_QUANTILES).values()
            cut = results.runs - int(results.final.sum())
            mean = plus_minus(results.mean_pulls, _half(results, results.pulls_interval))
            pulls.append((shown, mean, *(f"{n:,.0f}" for n in quantiles), f"{cut:,}"))
            mean = plus_minus(results.mean_rounds, _half(results, results.rounds_interval))
            rounds.append((name, mean, f"{results.mean_pulls / results.mean_rounds:.2f}"))
            gap = self.difference(name)
            errors.append(
                (
                    name,
                    percent_range(results.error_rate, results.error_interval()),
                    error_against_delta(results) or "–",
                    "–" if gap is None else plus_minus(gap.mean, gap.half),
                )
            )
        blocks = any(results.in_blocks for results in self.results.values())
        return (
            _table(("method", "mean pulls", "10 %", "median", "90 %", "not final"), pulls),
            *((_table(("method", "mean rounds", "pulls per round"), rounds),) if blocks else ()),
            _table(("method", "errors", "against δ", f"pulls − {short}'s"), errors),
        )

    @property
    def caption(self) -> str:
        """What was simulated, and how to read the tables."""
        results = next(iter(self.results.values()), None)
        if results is None:
            return "No run has finished."
        return (
            f"{results.environment}, δ = {results.delta:g}, seed {results.seed}, "
            f"{results.requested:,} runs of each method. ± and ranges are 95 % intervals; errors "
            "are below or above δ if their whole interval is."
        )

    def to_markdown(self) -> str:
        """The tables as Markdown."""
        return "\n\n".join([self.caption, *(table.to_markdown() for table in self.tables())]) + "\n"

    def to_latex(self) -> str:
        """The tables in a LaTeX float, for a document that loads booktabs."""
        return latex_float(self.tables(), caption=self.caption, label="tab:comparison")


def _half(results: Results, interval: Callable[[], tuple[float, float]]) -> float:
    """Half of an interval; NaN for a single run, which has none."""
    if results.runs < 2:
        return math.nan
    low, high = interval()
    return (high - low) / 2


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> TextTable:
    columns = (Column(headings[0], align="l"), *map(Column, headings[1:]))
    lines = tuple(Line(name, tuple(map(Entry, texts))) for name, *texts in rows)
    return TextTable(columns, lines)


def compare(
    contestants: Mapping[str, Contestant],
    *,
    runs: int,
    seed: int,
    delta: float,
    reference: str,
    workers: int | None = None,
    dask: str | None = None,
    progress: Mapping[str, Progress] | None = None,
) -> Comparison:
    """Simulate method after method. Run i of every method has the same seed and instance.

    Ctrl-C and an error end it early; what had finished by then is kept.

    `runs`, `seed`, `delta` and, by method, `progress` are as for `simulate`; `workers` and `dask`
    as for `open_executor`. The others are measured against the method `reference`.
    """
    done: dict[str, Results] = {}
    running = ""
    try:
        with open_executor(workers, dask) as executor:
            for running, (method, environment) in contestants.items():
                results = simulate(
                    method,
                    environment,
                    runs=runs,
                    seed=seed,
                    delta=delta,
                    executor=executor,
                    progress=(progress or {}).get(running, False),
                )
                if results.runs:
                    done[running] = results
                if results.interrupted:
                    return Comparison(reference, done, interrupted=True)
    except KeyboardInterrupt:  # between two methods
        return Comparison(reference, done, interrupted=True)
    except Exception as error:
        in_a_run = getattr(error, "__notes__", ())  # `simulate` notes the run
        if not isinstance(error, BestArmError) and not in_a_run:
            raise
        return Comparison(reference, done, failed=running, failure=error)
    return Comparison(reference, done)


def error_against_delta(results: Results) -> Literal["above", "below", "compatible"] | None:
    """Where the 95 % interval of the share of runs with a wrong final answer lies, relative to δ.

    None if no answer is final: a method that is cut, or spends a budget, promises no δ.
    """
    if not results.final.any():
        return None
    low, high = wilson(int((results.final & ~results.correct).sum()), results.runs)
    if low > results.delta:
        return "above"
    return "below" if high <= results.delta else "compatible"
