"""Results of replications, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm import figures
from bestarm.checks import whole
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.tables import TextTable, percent_range, plus_minus
from bestarm.units import plural

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST_RUNS = 10_000_000  # of one simulation, which keeps about 100 bytes per run in memory
PULLS_HEADINGS = ("mean pulls", "10 %", "median", "90 %", "not final")
Z95 = NormalDist().inv_cdf(0.975)  # half of a normal 95 % interval, in standard errors


def run_count(runs: object, *, least: int = 1) -> int:
    """A number of runs that one simulation can keep; raise if it is not one."""
    total = whole(runs, "runs", least=least)
    if total > MOST_RUNS:
        what = f"`runs` must be at most {MOST_RUNS:,}, which take a gigabyte; got {total:,}."
        remedy = "For more, simulate several times with different seeds."
        raise InvalidInputError(what, field="runs", value=runs, remedy=remedy)
    return total


def wilson(hits: float, runs: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's interval for a probability; z is the normal quantile, by default of 95 %.

    The closed form rather than SciPy's `binomtest`: `scipy.stats` takes a second to import.
    """
    middle = (hits + z * z / 2) / (runs + z * z)
    half = z / (runs + z * z) * math.sqrt(hits * (runs - hits) / runs + z * z / 4)
    # Without hits, or with hits only, an end is exactly 0 or 1, which rounding would miss.
    return 0.0 if hits == 0 else middle - half, 1.0 if hits == runs else middle + half


class Outcome(NamedTuple):
    """One finished run: an entry of each of the arrays of `Results`."""

    run: int
    pulls: int
    correct: bool
    final: bool
    contradicted: bool
    target: int
    plans: int
    rounds: int


@dataclass(frozen=True)
class RunJournal:
    """Where the outcomes of runs are kept, so that a simulation can be resumed.

    `known` are those of runs that finished earlier; `record` is called with those of further runs
    as they finish, in any order.
    """

    known: Iterable[Outcome] = ()
    record: Callable[[Sequence[Outcome]], object] | None = None


@dataclass(frozen=True, eq=False)
class Results:
    """Replications of one method in one environment: one entry of each array per finished run.

    Attributes:
        method: the method's name.
        environment: the environment's name.
        seed: run i was drawn from `SeedSequence(seed, spawn_key=(i,))`.
        delta: the error probability that the method had to keep.
        requested: the number of runs requested.
        interrupted: whether it was stopped before all runs had finished.
        index: the number of each finished run, ascending.
        pulls: pulls used.
        correct: whether the recommended target is the best one.
        final: whether the policy finished, rather than being stopped by a cap.
        contradicted: whether rewards contradicted what the policy was told of their scale: of its
            answer nothing is proven then.
        target: the recommended target.
        plans: the number of plans pulled.
        rounds: rounds used: as many as pulls, unless they were in blocks.
    """

    method: str
    environment: str
    seed: int
    delta: float
    requested: int
    interrupted: bool
    index: NDArray[np.int64]
    pulls: NDArray[np.int64]
    correct: NDArray[np.bool_]
    final: NDArray[np.bool_]
    contradicted: NDArray[np.bool_]
    target: NDArray[np.int64]
    plans: NDArray[np.int64]
    rounds: NDArray[np.int64]

    @property
    def runs(self) -> int:
        """The number of finished runs."""
        return len(self.pulls)

    def outcomes(self) -> list[Outcome]:
        """The finished runs one by one, as `RunJournal.known` takes them."""
        columns = [self.index, *(getattr(self, name) for name in Outcome._fields[1:])]
        return [Outcome(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]

    def only(self, runs: NDArray[np.int64]) -> Results:
        """The results of these runs, as far as they are finished."""
        kept, names = np.isin(self.index, runs), ("index", *Outcome._fields[1:])
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    @property
    def mean_pulls(self) -> float:
        """The mean number of pulls."""
        return float(self.pulls.mean()) if self.runs else math.nan

    @property
    def mean_rounds(self) -> float:
        """The mean number of rounds."""
        return float(self.rounds.mean()) if self.runs else math.nan

    @property
    def std_pulls(self) -> float:
        """The standard deviation of the number of pulls."""
        return float(self.pulls.std(ddof=1)) if self.runs > 1 else math.nan

    @property
    def error_rate(self) -> float:
        """The share of runs that named a wrong target, capped runs included."""
        return 1.0 - float(self.correct.mean()) if self.runs else math.nan

    def error_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's interval for the probability of naming a wrong target."""
        z = self._quantile(confidence, runs=1)
        return wilson(self.runs - int(self.correct.sum()), self.runs, z)

    def pulls_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The normal interval for the mean number of pulls."""
        return self._mean_interval(self.pulls, confidence)

    def rounds_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The normal interval for the mean number of rounds."""
        return self._mean_interval(self.rounds, confidence)

    def _mean_interval(self, numbers: NDArray[np.int64], confidence: float) -> tuple[float, float]:
        error = self._quantile(confidence, runs=2) / math.sqrt(self.runs)
        mean, half = float(numbers.mean()), error * float(numbers.std(ddof=1))
        return mean - half, mean + half

    @property
    def in_blocks(self) -> bool:
        """Whether a round pulled several arms, so that rounds are fewer than pulls."""
        return bool((self.rounds != self.pulls).any())

    def quantiles(self, q: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9)) -> dict[float, float]:
        """Quantiles of the number of pulls. With random gaps, means hide heavy tails."""
        levels = np.asarray(q, dtype=float)
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise InvalidInputError(
                f"`q` must hold probabilities in [0, 1]; got {q!r}.", field="q", value=q
            )
        self._require(1)
        values = np.quantile(self.pulls, levels)
        return dict(zip(levels.tolist(), values.tolist(), strict=True))

    def to_frame(self) -> pd.DataFrame:
        """A data frame with one row per finished run."""
        try:
            import pandas as pd  # noqa: PLC0415 - optional
        except ImportError:
            raise MissingDependencyError.of("`to_frame`", "pandas", extra="frames") from None
        return pd.DataFrame(
            {"method": self.method, "environment": self.environment}
            | {name: getattr(self, name) for name in Outcome._fields[1:]},
            index=pd.Index(self.index, name="run"),
        )

    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the share of runs that have ended after so many pulls.

        Args:
            ax: where to draw, beside other results for example; a new picture if left out.
            label: its name there; that of the method if left out.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        wrong, capped = self.runs - int(self.correct.sum()), self.runs - int(self.final.sum())
        text = f"{label or self.method}: {wrong:,} of {self.runs:,} wrong"
        text += f", {capped:,} not final" if capped else ""
        return figures.draw_ends(figures.as_axes(ax), self.pulls, text)

    def _require(self, runs: int) -> None:
        if self.runs < runs:
            what = f"{self.runs} finished run(s) are not enough for this."
            remedy = f"It needs at least {runs}."
            raise InvalidInputError(what, field="runs", value=self.runs, remedy=remedy)

    def _quantile(self, confidence: float, *, runs: int) -> float:
        if not 0 < confidence < 1:
            what = f"`confidence` must lie in (0, 1); got {confidence:g}."
            raise InvalidInputError(what, field="confidence", value=confidence, remedy="Try 0.95.")
        self._require(runs)
        return NormalDist().inv_cdf((1 + confidence) / 2)

    def pulls_texts(self) -> tuple[str, ...]:
        """The pulls of at least one run in words, under the headings `PULLS_HEADINGS`."""
        mean = plus_minus(self.mean_pulls, Z95 * self.std_pulls / math.sqrt(self.runs))
        quantiles = (f"{number:,.0f}" for number in self.quantiles((0.1, 0.5, 0.9)).values())
        return mean, *quantiles, f"{self.runs - int(self.final.sum()):,}"

    def _repr_html_(self) -> str:
        of = f"{self.runs:,} of " if self.runs < self.requested else ""
        about = f"{self.environment}, δ = {self.delta:g}, seed {self.seed}, "
        about += f"{of}{plural(self.requested, 'run')}"
        rows = []
        if self.runs:
            errors = percent_range(self.error_rate, self.error_interval())
            contradicted = f"{int(self.contradicted.sum()):,}"
            rows = [(self.method, *self.pulls_texts(), errors, contradicted)]
        headings = ("method", *PULLS_HEADINGS, "errors", "contradicted")
        return TextTable.of(headings, rows, title=about).to_html()

    def __repr__(self) -> str:
        head = f"Results({self.method} on {self.environment}: {plural(self.runs, 'run')}"
        if self.interrupted:
            head += f" of {self.requested}, interrupted"
        if not self.runs:
            return head + ")"
        low, high = self.error_interval()
        spread = f" ± {self.std_pulls:,.0f} (sd)" if self.runs > 1 else ""
        if self.in_blocks:
            head += f", rounds {self.mean_rounds:,.0f}"
        text = f"{head}, pulls {self.mean_pulls:,.0f}{spread}, errors {self.error_rate:.2%} "
        text += f"(95% in {low:.2%} to {high:.2%}, delta {self.delta:g})"
        if capped := self.runs - int(self.final.sum()):
            text += f", {capped} capped"
        if contradicted := int(self.contradicted.sum()):
            text += f", assumptions contradicted in {contradicted}"
        return text + ")"
