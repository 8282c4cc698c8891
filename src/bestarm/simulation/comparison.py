"""Methods beside each other: the same runs for each, and their difference run by run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from bestarm import figures
from bestarm.checks import choice
from bestarm.defaults import DELTA
from bestarm.environments import Environment
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.policies.policy import Method
from bestarm.simulation.engine import simulate
from bestarm.simulation.executors import open_executor
from bestarm.simulation.methods import Oracle
from bestarm.simulation.progress import Progress
from bestarm.simulation.results import PULLS_HEADINGS, Z95, Results, wilson
from bestarm.tables import TextTable, latex_float, percent_range, plus_minus
from bestarm.units import plural

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


CONTRADICTED = (
    "Runs are contradicted if their rewards contradict what the policy was told of their scale: of "
    "these answers nothing is proven."
)


class Difference(NamedTuple):
    """A mean of paired differences in pulls."""

    mean: float  # NaN without pairs
    half: float  # half a 95 % interval; NaN for fewer than two pairs
    runs: int  # the number of pairs


@dataclass(frozen=True, repr=False)
class Comparison:
    """The results of several methods, for each that has finished runs.

    Attributes:
        reference: the method that the others are measured against.
        results: the results by method.
        failed: the method that raised an error, if one did; those after it were not run.
        failure: that error.
        interrupted: whether Ctrl-C ended it.
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
            pulls.append((shown, *results.pulls_texts()))
            low, high = results.rounds_interval() if results.runs > 1 else (math.nan, math.nan)
            mean = plus_minus(results.mean_rounds, (high - low) / 2)
            rounds.append((name, mean, f"{results.mean_pulls / results.mean_rounds:.2f}"))
            gap = self.difference(name)
            errors.append(
                (
                    name,
                    percent_range(results.error_rate, results.error_interval()),
                    error_against_delta(results) or "–",
                    f"{int(results.contradicted.sum()):,}",
                    "–" if gap is None else plus_minus(gap.mean, gap.half),
                )
            )
        blocks = any(results.in_blocks for results in self.results.values())
        return (
            TextTable.of(("method", *PULLS_HEADINGS), pulls),
            *[TextTable.of(("method", "mean rounds", "pulls per round"), rounds)][: int(blocks)],
            TextTable.of(
                ("method", "errors", "against δ", "contradicted", f"pulls − {short}'s"), errors
            ),
        )

    @property
    def caption(self) -> str:
        """What was simulated, and how to read the tables."""
        results = next(iter(self.results.values()), None)
        if results is None:
            return "No run has finished."
        text = (
            f"{results.environment}, δ = {results.delta:g}, seed {results.seed}, "
            f"{plural(results.requested, 'run')} of each method. ± and ranges are 95 % intervals; "
            "errors are below or above δ if their whole interval is."
        )
        return f"{text} {CONTRADICTED}" if self.contradicted else text

    @property
    def contradicted(self) -> bool:
        """Whether rewards of some run contradicted what its policy was told of their scale."""
        return any(results.contradicted.any() for results in self.results.values())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of runs that have ended after so many pulls, one line per method.

        Args:
            ax: where to draw; a new picture if left out.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        axes = figures.as_axes(ax)
        for name, results in self.results.items():
            results.plot(axes, label=name)
        return axes

    def to_frame(self) -> pd.DataFrame:
        """A data frame with one row per finished run of each method."""
        frames = [each.to_frame().assign(method=name) for name, each in self.results.items()]
        import pandas as pd  # noqa: PLC0415 - optional

        return pd.concat(frames) if frames else pd.DataFrame()

    def to_markdown(self) -> str:
        """The tables as Markdown."""
        return "\n\n".join([self.caption, *(table.to_markdown() for table in self.tables())]) + "\n"

    def to_latex(self) -> str:
        """The tables in a LaTeX float, for a document that loads booktabs."""
        return latex_float(self.tables(), caption=self.caption, label="tab:comparison")

    @property
    def _failed(self) -> str:
        """Which method failed, how, and how to repeat it; empty if none did."""
        if self.failure is None:
            return ""
        notes = " ".join(getattr(self.failure, "__notes__", ()))
        what = f"{self.failed} failed: {type(self.failure).__name__}: {self.failure}"
        return f"{what.rstrip('.')}. {notes}".rstrip()

    def __str__(self) -> str:
        tables = [str(table) for table in self.tables() if self.results]
        return "\n\n".join([part for part in (self.caption, *tables, self._failed) if part])

    def __repr__(self) -> str:
        failed = "" if self.failure is None else f"; {self.failed} failed: {self.failure}"
        return f"Comparison({', '.join(self.results)}{failed})"

    def _repr_html_(self) -> str:
        title = f"{self.caption} {self._failed}".rstrip()
        first, *others = self.tables()
        return "".join(table.to_html() for table in (replace(first, title=title), *others))


def compare(
    methods: Mapping[str, Method | Oracle],
    environment: Environment,
    *,
    runs: int,
    seed: int = 0,
    delta: float = DELTA,
    reference: str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Mapping[str, Progress] | None = None,
) -> Comparison:
    """Simulate method after method. Run i of every method has the same seed and instance.

    Args:
        methods: the methods by name: policy classes, partials of them, or what else `simulate`
            takes.
        environment: the environment of the runs.
        runs: the number of runs of each method.
        seed: results depend only on it.
        delta: the error probability that the policies must keep.
        reference: the method that the others are measured against; the first if left out.
        workers: processes that share the runs; this one alone if left out.
        executor: any `concurrent.futures` executor that shares the runs instead, such as one of a
            cluster.
        progress: by method, as for `simulate`.

    Returns:
        The results of each method. An error in a run, or Ctrl-C, ends the comparison early: what
        had finished by then is kept.

    Example:
        >>> from bestarm import RAGE, SPBAI, compare, environments
        >>> world = environments.small_gap(4, 0.5)
        >>> found = compare({"sp-bai": SPBAI, "rage": RAGE}, world, runs=4, delta=0.1)
        >>> found.results["sp-bai"].error_rate, found.results["rage"].error_rate
        (0.0, 1.0)
    """
    if not isinstance(methods, Mapping) or not methods:
        raise InvalidInputError(
            f"`methods` must be methods by name; got {methods!r}.",
            field="methods",
            value=methods,
            remedy='For example {"mine": MyPolicy, "anytime": AnytimeBAI}.',
        )
    against = next(iter(methods), "") if reference is None else reference
    choice(against, methods, "reference")
    done: dict[str, Results] = {}
    running = ""
    try:
        with open_executor(workers) if executor is None else nullcontext(executor) as shared:
            for running, method in methods.items():
                results = simulate(
                    method,
                    environment,
                    runs=runs,
                    seed=seed,
                    delta=delta,
                    executor=shared,
                    progress=(progress or {}).get(running, False),
                )
                if results.runs:
                    done[running] = results
                if results.interrupted:
                    return Comparison(against, done, interrupted=True)
    except KeyboardInterrupt:  # between two methods
        return Comparison(against, done, interrupted=True)
    except Exception as error:
        in_a_run = getattr(error, "__notes__", ())  # `simulate` notes the run
        if not isinstance(error, BestArmError) and not in_a_run:
            raise
        return Comparison(against, done, failed=running, failure=error)
    return Comparison(against, done)


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
