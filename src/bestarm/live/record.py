"""What is on record of an experiment: everything that can be read of it without changing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from bestarm.checks import whole
from bestarm.errors import InvalidInputError
from bestarm.live import rules
from bestarm.live.clocks import read_time
from bestarm.live.events import sha256
from bestarm.live.replay import Player
from bestarm.live.store.contract import Event, Head, Ledger, Reading
from bestarm.live.values import Status
from bestarm.policies.policy import Policy, Traits
from bestarm.problem import Problem
from bestarm.records import Recommendation

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from bestarm.live.audit.chain import Audit
    from bestarm.live.check import Check
    from bestarm.live.replayed import Replayed
    from bestarm.live.spec import Document

__all__ = ["Record", "revision_of", "status_of"]

T = TypeVar("T")


class Record:
    """The books of an experiment and its policy, to be looked at.

    Args:
        ledger: the books.
        player: brings the policy to where they are.
        problem: what is to be found out.
        seed: of the draws.
        traits: what the policy declares about itself.
        clock: what tells the time, in seconds; None for that of the place where the books are.
    """

    _document: Document | None = None  # what a stored one is made of

    def __init__(
        self,
        ledger: Ledger,
        player: Player,
        problem: Problem,
        *,
        seed: int,
        traits: Traits,
        clock: Callable[[], float] | None,
    ) -> None:
        self._ledger = ledger
        self._player = player
        self._problem = problem
        self._seed = seed
        self._traits = traits
        self._bounds = traits.bounds
        self._clock = clock
        self._name = self._description = ""
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
        return revision_of(self._head())

    @property
    def finished(self) -> bool:
        """Whether it is over: nothing more will be given out."""
        return self._head().over

    @property
    def lease(self) -> float | None:
        """Seconds after which an assignment without an outcome is lost, or None."""
        return self._head().lease

    def recommendation(self) -> Recommendation:
        """The target the policy would name now, from the phases closed so far."""
        with self._lock, self._ledger.reading() as books:
            return _as_it_ended(self._player.policy(books).recommend(), books.head)

    def inspect(self, function: Callable[[Policy, Reading], T]) -> T:
        """What a function reads off the policy and the books, while nobody else uses the policy.

        It must change neither, and belongs to programs that watch an experiment.
        """
        with self._lock, self._ledger.reading() as books:
            return function(self._player.policy(books), books)

    def status(self) -> Status:
        """Where the experiment stands."""
        with self._ledger.reading() as books:
            waits_for, since = rules.waits_for(books)
            return replace(status_of(books.head), waits_for=waits_for, waits_since=since)

    def assignments(self) -> pd.DataFrame:
        """Every assignment given out, by id, with what became of it."""
        from bestarm.live.frames import assignments_frame  # noqa: PLC0415

        with self._ledger.reading() as books:
            return assignments_frame(books, self._problem)

    def outcomes(self) -> pd.DataFrame:
        """Every outcome told, by id; `tell_many` takes it as it is."""
        from bestarm.live.frames import outcomes_frame  # noqa: PLC0415

        with self._ledger.reading() as books:
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
        with self._ledger.reading() as books:
            return list(books.events(start, limit=limit))

    def verify(self) -> Audit:
        """Check all that is on record against the rest, and make every draw once more.

        Reads everything once, in one moment's state, with as much memory for many as for few.
        """
        from bestarm.live.audit.chain import audit  # noqa: PLC0415

        created: dict[str, object] = {"seed": self._seed}
        if self._document is not None:
            created |= {"name": self._name, "document": sha256(self._document.to_json())}
            created["description"] = sha256(self._description)
        with self._ledger.reading() as books:
            return audit(books, arms=self._problem.arms, seed=self._seed, created=created)

    def replay(self) -> Replayed:
        """Make the policy anew, tell it all it was told, and compare what it does with the log.

        Plans on record are adopted; where they would be planned otherwise here, a remark says so.

        Raises:
            ReplayError: it drops or recommends otherwise than is on record.
            InvalidInputError: the experiment is in memory, and its policy cannot be made again.
        """
        from bestarm.live.replayed import replay  # noqa: PLC0415

        if self._document is None:
            raise InvalidInputError(
                "An experiment in memory cannot be replayed: its policy cannot be made again.",
                field="experiment",
                remedy="Keep it in a database: see `Experiment.create`.",
            )
        with self._ledger.reading() as books:
            return replay(books, self._document.make())

    def health(self) -> tuple[Check, ...]:
        """Whether all is well, question by question: see `bestarm.live.Check`.

        Quick for any number of outcomes: it reads the counters, the summaries and what no summary
        covers yet.
        """
        from bestarm.live.audit.health import examine  # noqa: PLC0415

        with self._ledger.reading() as books:
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
        """Write all assignments with what became of them to a file, and give their number.

        Args:
            path: the file, `.csv` or `.parquet`; it is there whole or not at all.
            layout: `"assignments"` with all that is on record, or `"mrt"`, one row a decision point
                as analysts of micro-randomised trials have it, without outcomes that are not used.
            probabilities: add the probability of every arm, not only of the one that was drawn.
        """
        from bestarm.live.export import export  # noqa: PLC0415

        with self._ledger.reading() as books:
            return export(books, self._problem, path, layout=layout, probabilities=probabilities)

    def _now(self, books: Reading) -> float:
        """The time: by the clock that was given, or else by that of the books."""
        now = books.now() if self._clock is None else self._clock()
        return read_time(now, stored=self._document is not None)

    def _time(self) -> float:
        with self._ledger.reading() as books:
            return self._now(books)

    def _head(self) -> Head:
        with self._ledger.reading() as books:
            return replace(books.head)


def revision_of(head: Head) -> str:
    """A text that changes whenever anything is recorded."""
    counts = (head.given, head.told, head.lost, head.late, head.refused, head.events)
    return "-".join(map(str, counts))


def status_of(head: Head) -> Status:
    """Where an experiment stands, by its counters."""
    return Status(
        phase=head.phase,
        given=head.given - head.first,
        answered=head.phase_told + head.phase_lost,
        outstanding=head.outstanding,
        remaining=head.remaining,
        pulls=head.given,
        state=head.state,
        lost=head.lost,
        late=head.late,
        needs_lease=head.waits and head.lease is None and not head.over,
    )


def _as_it_ended(said: Recommendation, head: Head) -> Recommendation:
    stopped = head.state == "stopped" and said.reason == "running"
    return replace(said, reason="stopped") if stopped else said
