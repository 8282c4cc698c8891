"""What can be read of an experiment: nothing of it changes anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeVar

from bestarm import figures
from bestarm.checks import whole
from bestarm.errors import BestArmError, InvalidInputError, StoreError
from bestarm.live.audit.verify import Audit, audit
from bestarm.live.core import ExperimentCore
from bestarm.live.events import sha256
from bestarm.live.export import Progress, assignments_frame, export, outcomes_frame, reports_frame
from bestarm.live.guarding import GuardrailReplayer, GuardrailRow
from bestarm.live.replay import ReplayResult, recommend, replay
from bestarm.live.spec import Spec
from bestarm.live.standings import Standings
from bestarm.live.state import waits_for
from bestarm.live.store.contract import ALL, Event, Head, Snapshot
from bestarm.live.values import Checks, Status
from bestarm.policies.policy import Policy
from bestarm.recommendation import Recommendation

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

T = TypeVar("T")


class ExperimentReader(ExperimentCore):
    """An open experiment, to read: its state, its tables, its log and its audit."""

    name = ""
    description = ""
    place: str | None = None
    _document = ""  # what a stored one is made of, as text

    @property
    def phase(self) -> int:
        """The open phase, or the last one when finished."""
        return self._head().phase

    @property
    def state(self) -> str:
        """`"running"`, `"paused"`, `"stopped"` by its owner or `"finished"` by the policy."""
        return self._head().state

    @property
    def revision(self) -> str:
        """A text that changes whenever anything is recorded."""
        return self._head().revision

    @property
    def finished(self) -> bool:
        """Whether it is over: nothing more will be assigned."""
        return self._head().over

    @property
    def lease(self) -> float | None:
        """Seconds after which an assignment without an outcome is lost, or None."""
        return self._head().lease

    @property
    def window(self) -> float | None:
        """Seconds after which an outcome enters, or None if it does when it is told."""
        return self._head().window

    @property
    def otherwise(self) -> float | None:
        """The outcome where nothing is told within the window, or None without one."""
        return self._head().otherwise

    def now(self) -> float:
        """The time in seconds: by the clock of the experiment, or else of the ledger."""
        with self.read() as snapshot:
            return self._now(snapshot)

    def recommendation(self) -> Recommendation:
        """The target the policy would name now, from the phases closed so far."""
        return self.inspect(lambda policy, snapshot: recommend(policy, snapshot.head.state))

    def inspect(self, function: Callable[[Policy, Snapshot], T]) -> T:
        """The result of a function of the policy and the ledger, while nobody else uses the policy.

        It must change neither. It is for programs that watch an experiment.
        """
        with self._lock, self.read() as snapshot:
            return function(self._replayer.policy(snapshot), snapshot)

    def status(self) -> Status:
        """The status of the experiment."""
        with self.read() as snapshot:
            return snapshot.head.status(*waits_for(snapshot))

    def assignments(self) -> pd.DataFrame:
        """Every assignment by id, with its state."""
        with self.read() as snapshot:
            return assignments_frame(
                snapshot,
                self.options_at(snapshot).problem,
                forecasts=self._forecasts is not None,
                guardrails=self._guardrail_names,
            )

    def outcomes(self) -> pd.DataFrame:
        """Every outcome told, by id; `tell_many` takes it as it is."""
        with self.read() as snapshot:
            problem = self.options_at(snapshot).problem
            return outcomes_frame(snapshot, problem, self._guardrail_names)

    def reports(self) -> pd.DataFrame:
        """Everything told of outcomes that have a window, in the order told, late reports too."""
        with self.read() as snapshot:
            return reports_frame(snapshot)

    def _standings(self) -> Standings:
        return self.inspect(
            lambda policy, snapshot: Standings.of(
                policy, snapshot.head.state, self.options_at(snapshot)
            )
        )

    def to_frame(self) -> pd.DataFrame:
        """How the options stand, one row per option, the leader first.

        Its `status` is `"leads"`, `"possible"`, `"ruled out"` or `"retired"`, and once it is final
        `"best"`, or `"named"` if that is not proven. `mean` is what the option would have paid on
        average so far, `behind` how far that is below the leader's. Both have the ends of an
        interval that holds at every moment; NaN stands for what the policy does not know.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return self._standings().to_frame()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far each option is behind the leader, with intervals.

        Args:
            ax: where to draw; a new picture if left out.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        standings = self._standings()
        axes = figures.as_axes(ax, height=1.2 + 0.36 * len(standings.rows))
        title = str(standings.recommendation)
        return figures.draw_distances(axes, standings.distances(), title)

    def guardrails(self) -> Sequence[GuardrailRow]:
        """How much worse than the control each option is, by each guardrail, valid at all looks.

        Values of assignments count once their phase is closed.
        """
        with self._lock, self.read() as snapshot:
            guards, options = self._guarding(), self.options_at(snapshot)
            if guards is None:
                return []
            return guards.table(snapshot, options.problem.target_labels, options.retired)

    def export(
        self,
        path: str | Path,
        *,
        layout: str = "assignments",
        probabilities: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Write all assignments and their outcomes to a file, and return their number.

        It reads one state, in pieces: the memory needed does not grow with the experiment.

        Args:
            path: the file, `.csv` or `.parquet`; it is there whole or not at all. Where there are
                any, it has forecasts, units, decision points, and covariates as JSON.
            layout: `"assignments"` with all that is on record, or `"mrt"`, one row per
                decision point as analysts of micro-randomised trials have it, without unused
                outcomes.
            probabilities: add the probability of every arm, not only of the one that was drawn.
            progress: called with (assignments written, in total) after every piece.
        """
        with self.read() as snapshot:
            return export(
                snapshot,
                self.options_at(snapshot),
                path,
                layout=layout,
                probabilities=probabilities,
                forecasts=self._forecasts is not None,
                guardrails=self._guardrail_names,
                progress=progress,
            )

    def events(self, start: int = 0, *, limit: int | None = None) -> Sequence[Event]:
        """The log: every change of the experiment's state.

        Args:
            start: the number of the first event.
            limit: how many at most; None for all.
        """
        whole(start, "start", least=0, below=2**62)
        if limit is not None:
            whole(limit, "limit", least=1, below=2**62)
        with self.read() as snapshot:
            return list(snapshot.events(start, ALL if limit is None else start + limit))

    def verify(self, *, progress: Progress | None = None) -> Audit:
        """Audit the record: check the log, draw every arm again, and add up every summary again.

        It reads one state, in pieces: the memory needed does not grow with the experiment.

        Args:
            progress: called with (assignments checked, in total) after every piece.
        """
        created: dict[str, object] = {"seed": self.seed}
        if self.spec is not None:
            created |= {"name": self.name, "document": self._document}
            created["description"] = sha256(self.description)
        with self.read() as snapshot:
            return audit(
                snapshot,
                options_at=self.options_at,
                seed=self.seed,
                created=created,
                progress=progress,
            )

    def replay(self) -> ReplayResult:
        """Make the policy again, tell it all it was told, and compare what it does with the log.

        Recorded plans are adopted; where they would differ here, a remark says so.

        Raises:
            ReplayError: the policy drops or recommends other targets than on record.
            InvalidInputError: the experiment is in memory, and its policy cannot be made again.
        """
        spec = self.stored_spec("replayed")
        with self.read() as snapshot:
            if spec.guardrails:
                guards = GuardrailReplayer(spec.guardrails, spec.problem.arms, spec.traits)
                retired = self.options_at(snapshot).retired.items()
                guards.check(snapshot, {target: change.phase for target, change in retired})
            return replay(snapshot, spec.make())

    def stored_spec(self, verb: str) -> Spec:
        """What it is made of, without which it cannot be replayed or watched, as `verb` says.

        Raises:
            InvalidInputError: the experiment is in memory.
        """
        if self.spec is None:
            raise InvalidInputError(
                f"An experiment in memory cannot be {verb}: its policy cannot be made again.",
                field="experiment",
                remedy="Keep it in a database: see `Experiment.create`.",
            )
        return self.spec

    def health(self) -> Checks:
        """The health checks, each a `bestarm.live.Check`; `print` shows them as a table.

        Quick for any number of outcomes: they read the counters, the summaries and the assignments
        that no summary covers.
        """
        from bestarm.live.audit.health import examine  # noqa: PLC0415  (SciPy takes its time)

        with self.read() as snapshot:
            now = self._now(snapshot)
            options = self.options_at(snapshot)
            return Checks(examine(snapshot, options, now=now, seed=self.seed))

    def _head(self) -> Head:
        with self.read() as snapshot:
            return snapshot.head.copy()

    def __repr__(self) -> str:
        try:
            status = str(self.status())
        except StoreError as error:  # to be shown, not raised: a notebook would show a traceback
            status = str(error)
        name = f" {self.name!r}" if self.name else ""
        return f"<Experiment{name}: {status}>"  # without the seed: it may end up in a log

    def _repr_html_(self) -> str:
        head = f"Experiment {self.name}".rstrip()
        try:
            standings, status = self._standings(), self.status()
        except BestArmError as error:
            return f"<p>{escape(f'{head}: {error}')}</p>"
        title = f"{head}: {status}.\n{standings.recommendation}."
        return standings.to_table(title).to_html()
