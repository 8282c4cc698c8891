"""Methods beside each other: the same runs for each, and their difference run by run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import quote

import numpy as np

from bestarm import figures
from bestarm.checks import choice
from bestarm.defaults import DELTA
from bestarm.environments import Environment
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.policies.policy import Method
from bestarm.simulation.engine import simulate
from bestarm.simulation.executors import open_executor
from bestarm.simulation.folder import Journal, journal_of, open_folder
from bestarm.simulation.methods import Oracle
from bestarm.simulation.progress import Progress
from bestarm.simulation.results import Z95, Results, RunJournal, run_count, wilson
from bestarm.tables import TextTable, latex_float, percent_range, plus_minus
from bestarm.units import plural

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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
        results: the results by method; of equally many runs each, unless a method has none yet.
        failed: the method that raised an error, if one did: it has no results.
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

    def table(self) -> TextTable:
        """Pulls and errors, one line per method; rounds where they differ from pulls."""
        short = self.reference if len(self.reference) <= 12 else f"{self.reference[:11]}…"
        columns: dict[str, Callable[[str, Results], str]] = {
            "method": _name,
            "mean pulls": lambda _, it: _mean(it.mean_pulls, it.std_pulls, it.runs),
        }
        if any(results.in_blocks for results in self.results.values()):
            columns["mean rounds"] = lambda _, it: f"{it.mean_rounds:,.0f}"
        columns["errors"] = lambda _, it: _errors(it)
        if len(self.results) > 1:
            columns[f"pulls − {short}'s"] = lambda name, _: _difference(self.difference(name))
        rows = [[write(*each) for write in columns.values()] for each in self.results.items()]
        return TextTable.of([*columns], rows)

    @property
    def caption(self) -> str:
        """What was simulated, and how to read the table."""
        results = next(iter(self.results.values()), None)
        if results is None:
            return "No run has finished."
        about = (
            f"{results.environment}, δ = {results.delta:g}, seed {results.seed}, "
            f"{plural(results.requested, 'run')} of each method."
        )
        return " ".join([about, *self.notes()])

    def notes(self) -> Iterator[str]:
        """How to read the table, in sentences."""
        yield "± and ranges are 95 % intervals; < δ or > δ is said where the whole interval is."
        capped = {name: it.runs - int(it.final.sum()) for name, it in self.results.items()}
        if any(capped.values()):
            yield (
                f"Not final: {_counts(capped)}. Such runs ended at a cap or a budget; their errors "
                "are counted, but not against δ, which is about final answers."
            )
        if self.contradicted:
            doubted = {name: int(it.contradicted.sum()) for name, it in self.results.items()}
            yield (
                f"Contradicted: {_counts(doubted)}. Their rewards contradict what the policy was "
                "told of their scale: of these answers nothing is proven."
            )

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
        """The table as Markdown."""
        return f"{self.caption}\n\n{self.table().to_markdown()}\n"

    def to_latex(self) -> str:
        """The table in a LaTeX float, for a document that loads booktabs."""
        return latex_float([self.table()], caption=self.caption, label="tab:comparison")

    @property
    def _failed(self) -> str:
        """Which method failed, how, and how to repeat it; empty if none did."""
        if self.failure is None:
            return ""
        notes = " ".join(getattr(self.failure, "__notes__", ()))
        what = f"{self.failed} failed: {type(self.failure).__name__}: {self.failure}"
        return f"{what.rstrip('.')}. {notes}".rstrip()

    def __str__(self) -> str:
        table = str(self.table()) if self.results else ""
        return "\n\n".join([part for part in (self.caption, table, self._failed) if part])

    def __repr__(self) -> str:
        failed = "" if self.failure is None else f"; {self.failed} failed: {self.failure}"
        return f"Comparison({', '.join(self.results)}{failed})"

    def _repr_html_(self) -> str:
        title = f"{self.caption} {self._failed}".rstrip()
        return replace(self.table(), title=title).to_html()


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
    progress: Mapping[str, Callable[[int, int], object]] | None = None,
    folder: str | Path | None = None,
) -> Comparison:
    """Simulate methods side by side. Run i of every method has the same seed and instance.

    Methods take turns of some hundred runs.

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
        progress: by method, functions that are called with (runs done, runs in total).
        folder: where every finished run is kept. Runs that it holds already are not made again.

    Returns:
        The results of each method. An error in a run, or Ctrl-C, ends the comparison early, with
        the runs that all methods had finished by then.

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
    about = {"environment": getattr(environment, "name", ""), "seed": seed, "delta": delta}
    done: dict[str, Results] = {}
    running = ""
    try:
        with ExitStack() as stack:
            shared = stack.enter_context(
                open_executor(workers) if executor is None else nullcontext(executor)
            )
            journals: dict[str, Journal] = {}
            if folder is not None:
                stack.enter_context(open_folder(Path(folder), about, resume=True))
                for name, method in methods.items():
                    path, file = Path(folder), quote(name, safe="")
                    journals[name] = journal_of(path, file, method, environment, delta=delta)
            known = {name: journals[name].read() if journals else [] for name in methods}
            for end in _turns(runs):
                for running, method in methods.items():
                    record = journals[running].add if journals else None
                    before = [outcome for outcome in known[running] if outcome.run < end]
                    results = simulate(
                        method,
                        environment,
                        runs=end,
                        seed=seed,
                        delta=delta,
                        executor=shared,
                        progress=_progress_of((progress or {}).get(running), runs),
                        journal=RunJournal(before, record),
                    )
                    if results.runs:
                        done[running] = replace(results, requested=runs)
                    if results.interrupted:
                        return Comparison(against, _equally_many(done, methods), interrupted=True)
                    later = [outcome for outcome in known[running] if outcome.run >= end]
                    known[running] = [*results.outcomes(), *later]
    except KeyboardInterrupt:  # between two methods
        return Comparison(against, _equally_many(done, methods), interrupted=True)
    except Exception as error:
        in_a_run = getattr(error, "__notes__", ())  # `simulate` notes the run
        if not running or not (isinstance(error, BestArmError) or in_a_run):
            raise
        done.pop(running, None)
        others = {name: each for name, each in methods.items() if name != running}
        return Comparison(against, _equally_many(done, others), failed=running, failure=error)
    return Comparison(against, done)


def _turns(runs: int) -> Iterator[int]:
    """How many runs each method has made after each of its turns, of which there are 20 at most.

    Side by side fewer than a hundred runs take much longer each, more than 512 no less.
    """
    size = max(min(max(run_count(runs) // 8, 100), 512), runs // 20)
    yield from range(size, runs, size)
    yield runs


def _progress_of(report: Callable[[int, int], object] | None, runs: int) -> Progress:
    """What tells of the progress of a method, whose turn is a part of its runs."""
    return (lambda done, _: report(done, runs)) if report else False


def _equally_many(done: dict[str, Results], methods: Mapping[str, object]) -> dict[str, Results]:
    """The runs that all methods have finished; if there are none, all that are finished."""
    if not done or len(done) < len(methods):
        return done
    common = reduce(np.intersect1d, (results.index for results in done.values()))
    return {name: results.only(common) for name, results in done.items()} if len(common) else done


def _name(name: str, results: Results) -> str:
    runs = plural(results.runs, "run")
    return f"{name} [{runs}]" if results.runs < results.requested else name


def _mean(mean: float, deviation: float, runs: int) -> str:
    return plus_minus(mean, Z95 * deviation / math.sqrt(runs))


def _errors(results: Results) -> str:
    against = {"above": " > δ", "below": " < δ"}.get(error_against_delta(results) or "", "")
    return percent_range(results.error_rate, results.error_interval()) + against


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items() if number)


def _difference(gap: Difference | None) -> str:
    return "–" if gap is None else plus_minus(gap.mean, gap.half)


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
