"""What an experiment is kept in and decided by, and all that can be learned without changing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from bestarm.checks import whole
from bestarm.errors import InvalidInputError
from bestarm.live import rules
from bestarm.live.audit.verify import Audit, audit
from bestarm.live.events import sha256
from bestarm.live.export import Progress, assignments_frame, export, outcomes_frame
from bestarm.live.forecasts import Forecasts
from bestarm.live.inputs import read_time
from bestarm.live.replay import Player, Replayed, recommend, replay
from bestarm.live.spec import Spec
from bestarm.live.store.contract import Event, Head, Ledger, Reading
from bestarm.live.values import Check, Status
from bestarm.policies.policy import Policy
from bestarm.recommendation import Recommendation

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

T = TypeVar("T")


class Record:
    """An experiment to be read, and the transactions in which it advances.

    Args:
        ledger: where it is kept.
        made_of: what its policy is made of again, or the policy itself.
        seed: the seed of the draws.
        clock: returns the time in seconds; None for the clock of the ledger.
        forecasts: what is subtracted from outcomes, if anything.

    Attributes:
        name: its name in the database; empty in memory.
        description: what it is about, in words.
        place: the URL of its database without the password; None in memory.
        spec: what a stored experiment is made of; None in memory.
        problem: the problem the policy was made for.
        seed: the seed of the draws.
        traits: what the policy declares about itself.
    """

    name = ""
    description = ""
    place: str | None = None

    def __init__(
        self,
        ledger: Ledger,
        made_of: Spec | Policy,
        *,
        seed: int,
        clock: Callable[[], float] | None,
        forecasts: Forecasts | None = None,
    ) -> None:
        self.spec = made_of if isinstance(made_of, Spec) else None
        self.problem, self.traits, self.seed = made_of.problem, made_of.traits, seed
        self._ledger, self._clock, self._forecasts = ledger, clock, forecasts
        self._player = Player(made_of.make if isinstance(made_of, Spec) else made_of)
        self._lock = RLock()  # held by whoever uses the policy

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

    def read(self) -> AbstractContextManager[Reading]:
        """A transaction that reads one state of the ledger, for programs that watch it."""
        return self._ledger.reading()

    def now(self) -> float:
        """The time in seconds: by the clock of the experiment, or else of the ledger."""
        with self.read() as books:
            return self._now(books)

    def recommendation(self) -> Recommendation:
        """The target the policy would name now, from the phases closed so far."""
        return self.inspect(lambda policy, books: recommend(policy, books.head.state))

    def inspect(self, function: Callable[[Policy, Reading], T]) -> T:
        """The result of a function of the policy and the ledger, while nobody else uses the policy.

        It must change neither. It is for programs that watch an experiment.
        """
        with self._lock, self.read() as books:
            return function(self._player.policy(books), books)

    def status(self) -> Status:
        """The status of the experiment."""
        with self.read() as books:
            return Status.of(books.head, *rules.waits_for(books))

    def assignments(self) -> pd.DataFrame:
        """Every assignment by id, with its state."""
        with self.read() as books:
            return assignments_frame(books, self.problem, forecasts=self._forecasts is not None)

    def outcomes(self) -> pd.DataFrame:
        """Every outcome told, by id; `tell_many` takes it as it is."""
        with self.read() as books:
            return outcomes_frame(books, self.problem)

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
            path: the file, `.csv` or `.parquet`; it is there whole or not at all. Where there is a
                forecaster, it has the forecasts, and as JSON what was known of each assignment.
            layout: `"assignments"` with all that is on record, or `"mrt"`, one row per
                decision point as analysts of micro-randomised trials have it, without unused
                outcomes.
            probabilities: add the probability of every arm, not only of the one that was drawn.
            progress: called with (assignments written, in total) after every piece.
        """
        with self.read() as books:
            return export(
                books,
                self.problem,
                path,
                layout=layout,
                probabilities=probabilities,
                forecasts=self._forecasts is not None,
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
        with self.read() as books:
            return list(books.events(start, limit=limit))

    def verify(self, *, progress: Progress | None = None) -> Audit:
        """Audit the record: check the log, draw every arm again, and add up every summary again.

        It reads one state, in pieces: the memory needed does not grow with the experiment.

        Args:
            progress: called with (assignments checked, in total) after every piece.
        """
        created: dict[str, object] = {"seed": self.seed}
        if self.spec is not None:
            created |= {"name": self.name, "document": sha256(self.spec.to_json())}
            created["description"] = sha256(self.description)
        with self.read() as books:
            arms = self.problem.arms
            return audit(books, arms=arms, seed=self.seed, created=created, progress=progress)

    def replay(self) -> Replayed:
        """Make the policy again, tell it all it was told, and compare what it does with the log.

        Recorded plans are adopted; where they would differ here, a remark says so.

        Raises:
            ReplayError: the policy drops or recommends other targets than on record.
            InvalidInputError: the experiment is in memory, and its policy cannot be made again.
        """
        spec = self.stored_spec("replayed")
        with self.read() as books:
            return replay(books, spec.make())

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

    def health(self) -> tuple[Check, ...]:
        """The health checks: see `bestarm.live.Check`.

        Quick for any number of outcomes: they read the counters, the summaries and the assignments
        that no summary covers.
        """
        from bestarm.live.audit.health import examine  # noqa: PLC0415  (SciPy takes its time)

        with self.read() as books:
            now = self._now(books)
            return examine(books, self.problem, self.traits, now=now, seed=self.seed)

    def _head(self) -> Head:
        with self.read() as books:
            return books.head.copy()

    def _now(self, books: Reading) -> float:
        now = books.now() if self._clock is None else self._clock()
        return read_time(now, stored=self.spec is not None)
