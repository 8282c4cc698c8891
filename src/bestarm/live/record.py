"""The reading half of an experiment: all that can be learned of it without changing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from bestarm.checks import whole
from bestarm.errors import InvalidInputError
from bestarm.live import rules
from bestarm.live.events import sha256
from bestarm.live.inputs import read_time
from bestarm.live.replay import Player, recommend, replay
from bestarm.live.store.contract import Event, Head, Ledger, Reading
from bestarm.live.values import Check, Status
from bestarm.policies.policy import Policy, Traits
from bestarm.problem import Problem
from bestarm.records import Recommendation

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from bestarm.live.audit.findings import Audit
    from bestarm.live.replay import Replayed
    from bestarm.live.spec import Spec

__all__ = ["Record"]

T = TypeVar("T")


class Record:
    """An experiment to be read.

    Args:
        ledger: where it is kept.
        player: brings the policy to where the ledger is.
        problem: the problem.
        seed: of the draws.
        traits: what the policy declares about itself.
        clock: returns the time in seconds; None for the clock of the ledger.
        spec: what a stored experiment is made of; None in memory.
        name: of a stored experiment.
        description: of a stored experiment, in words.
        place: the database of a stored experiment.
    """

    def __init__(
        self,
        ledger: Ledger,
        player: Player,
        problem: Problem,
        *,
        seed: int,
        traits: Traits,
        clock: Callable[[], float] | None,
        spec: Spec | None = None,
        name: str = "",
        description: str = "",
        place: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._player = player
        self._problem = problem
        self._seed = seed
        self._traits = traits
        self._bounds = traits.bounds
        self._clock = clock
        self._spec = spec
        self._name, self._description, self._place = name, description, place
        self._lock = RLock()  # held by whoever uses the policy

    @property
    def name(self) -> str:
        """Its name in the database; empty in memory."""
        return self._name

    @property
    def description(self) -> str:
        """What it is about, in words."""
        return self._description

    @property
    def place(self) -> str | None:
        """The URL of its database without the password; None in memory."""
        return self._place

    @property
    def spec(self) -> Spec | None:
        """What a stored experiment is made of; None in memory."""
        return self._spec

    @property
    def problem(self) -> Problem:
        """The problem the policy was made for."""
        return self._problem

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return self._traits

    @property
    def seed(self) -> int:
        """The seed of the draws."""
        return self._seed

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
        with self._lock, self.read() as books:
            return recommend(self._player.policy(books), books.head.state)

    def inspect(self, function: Callable[[Policy, Reading], T]) -> T:
        """The result of a function of the policy and the ledger, while nobody else uses the policy.

        It must change neither. It is for programs that watch an experiment.
        """
        with self._lock, self.read() as books:
            return function(self._player.policy(books), books)

    def status(self) -> Status:
        """The status of the experiment."""
        with self.read() as books:
            waits_for, since = rules.waits_for(books)
            return replace(Status.of(books.head), waits_for=waits_for, waits_since=since)

    def assignments(self) -> pd.DataFrame:
        """Every assignment by id, with its state."""
        from bestarm.live.export import assignments_frame  # noqa: PLC0415

        with self.read() as books:
            return assignments_frame(books, self._problem)

    def outcomes(self) -> pd.DataFrame:
        """Every outcome told, by id; `tell_many` takes it as it is."""
        from bestarm.live.export import outcomes_frame  # noqa: PLC0415

        with self.read() as books:
            return outcomes_frame(books)

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

    def verify(self) -> Audit:
        """Audit the record: check the log, draw every arm again, and add up every summary again.

        It reads one state, in pieces: the memory needed does not grow with the experiment.
        """
        from bestarm.live.audit.chain import audit  # noqa: PLC0415

        created: dict[str, object] = {"seed": self._seed}
        if self._spec is not None:
            created |= {"name": self._name, "document": sha256(self._spec.to_json())}
            created["description"] = sha256(self._description)
        with self.read() as books:
            return audit(books, arms=self._problem.arms, seed=self._seed, created=created)

    def replay(self) -> Replayed:
        """Make the policy again, tell it all it was told, and compare what it does with the log.

        Recorded plans are adopted; where they would differ here, a remark says so.

        Raises:
            ReplayError: the policy drops or recommends other targets than on record.
            InvalidInputError: the experiment is in memory, and its policy cannot be made again.
        """
        if self._spec is None:
            raise InvalidInputError(
                "An experiment in memory cannot be replayed: its policy cannot be made again.",
                field="experiment",
                remedy="Keep it in a database: see `Experiment.create`.",
            )
        with self.read() as books:
            return replay(books, self._spec.make())

    def health(self) -> tuple[Check, ...]:
        """The health checks: see `bestarm.live.Check`.

        Quick for any number of outcomes: they read the counters, the summaries and the assignments
        that no summary covers.
        """
        from bestarm.live.audit.health import examine  # noqa: PLC0415

        with self.read() as books:
            return examine(
                books,
                problem=self._problem,
                bounds=self._bounds,
                mean_bound=self._traits.mean_bound,
                now=self._now(books),
            )

    def export(
        self, path: str | Path, *, layout: str = "assignments", probabilities: bool = False
    ) -> int:
        """Write all assignments and their outcomes to a file, and return their number.

        Args:
            path: the file, `.csv` or `.parquet`; it is there whole or not at all.
            layout: `"assignments"` with all that is on record, or `"mrt"`, one row per
                decision point as analysts of micro-randomised trials have it, without unused
                outcomes.
            probabilities: add the probability of every arm, not only of the one that was drawn.
        """
        from bestarm.live.export import export  # noqa: PLC0415

        with self.read() as books:
            return export(books, self._problem, path, layout=layout, probabilities=probabilities)

    def _now(self, books: Reading) -> float:
        now = books.now() if self._clock is None else self._clock()
        return read_time(now, stored=self._spec is not None)

    def _head(self) -> Head:
        with self.read() as books:
            return replace(books.head)
