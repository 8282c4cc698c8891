"""Experiment: give out a policy's pulls one batch at a time, and take the outcomes as they come."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import positive, whole
from bestarm.errors import (
    ConflictingOutcomeError,
    ConflictingRequestError,
    InvalidInputError,
    MissingDependencyError,
    UnknownAssignmentError,
)
from bestarm.geometry import Array
from bestarm.live import trial
from bestarm.live.batches import Batch, Listed, Receipt, Status
from bestarm.live.events import log, record
from bestarm.live.ledger import Event, Head, Ids, Ledger, Opened, Reading, Request, Writing
from bestarm.live.memory import MemoryLedger
from bestarm.live.outcomes import conflict, read_ids, read_outcomes
from bestarm.live.replay import Player
from bestarm.policies.policy import Policy
from bestarm.problem import Problem
from bestarm.records import Recommendation

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from bestarm.live.audit import Audit
    from bestarm.live.check import Check
    from bestarm.live.document import Document
    from bestarm.live.sql import SqlLedger, Store

__all__ = ["Experiment"]

T = TypeVar("T")

_MOST = 10_000_000  # assignments at a time: more would keep others waiting for minutes
_FEW = 32  # outcomes: up to so many are looked up first, more are told in the hope that all are new


class Experiment:
    """Ask for assignments, carry them out, tell their outcomes: in any order, any number at a time.

    The arm of an assignment is drawn when it is given out, after the plan is fixed, and is never
    drawn again: that is what makes the method valid under a moving baseline. A phase closes when
    every one of its own assignments is answered. Neither the order in which outcomes arrive nor
    the sizes of the batches asked for change any later plan or the recommendation by a single bit.

    A plan that is open never makes anybody wait: while its last outcomes are awaited, further
    assignments are drawn under it. It closes as soon as its share is answered without a gap, with
    all that follows without a gap; what was given out beyond counts once it is answered too. How
    many those are, and with them later plans, then depends on when outcomes arrive.

        experiment = Experiment(policy, seed=7)
        while not experiment.finished:
            for assignment in experiment.ask(100):
                experiment.tell(assignment.id, measure(assignment.label))
        print(experiment.recommendation())

    Made like this it is held in memory, and any number of threads may ask and tell. With `create`
    and `open` it is kept in a database, and any number of processes may.

    Should the policy fail while a phase closes, its exception passes through `tell` and every
    outcome told is kept: the next `ask`, or telling any outcome again, tries once more.

    Args:
        policy: a policy that has not been given any outcome yet.
        seed: fixes the draws; `bestarm.live.draw` recomputes each from the seed and its id.
        lease: seconds after which an assignment without an outcome is lost: another is drawn in its
            place, and an outcome that comes later is kept but not used. None waits for ever.
        clock: what tells the time, in seconds.
    """

    _document: Document | None = None  # what a stored one is made of

    def __init__(
        self,
        policy: Policy,
        *,
        seed: int = 0,
        lease: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(policy, type) or not isinstance(policy, Policy):
            raise InvalidInputError(
                f"`policy` must be a policy made for a problem; got {policy!r}.",
                field="policy",
                value=policy,
                remedy="Make one first, for example `SPBAI(problem)`.",
            )
        self._set_up(
            MemoryLedger(),
            Player(policy),
            policy.problem,
            seed=whole(seed, "seed", least=0),
            bounds=getattr(policy, "bounds", None),
            clock=clock,
        )
        with self._ledger.writing() as tx:
            tx.head, created = _created(clock(), lease=lease, seed=self._seed)
            tx.add_event(created)
        self._advance()
        if self.phase > 1:
            raise InvalidInputError(
                f"`policy` is already in phase {self.phase}.",
                field="policy",
                value=policy,
                remedy="Start from a fresh policy: numbers drawn before must not be used again.",
            )

    @classmethod
    def create(
        cls,
        url: str | Store,
        name: str,
        problem: Problem,
        *,
        policy: str = "anytime",
        options: Mapping[str, object] | None = None,
        seed: int = 0,
        lease: float | None = None,
        description: str = "",
        clock: Callable[[], float] = time.time,
    ) -> Experiment:
        """Begin an experiment that is kept in a database.

        Args:
            url: the database: `sqlite:///trial.db` for a file, or `postgresql://user@host/name`; or
                a `Store`, which experiments then share.
            name: the experiment's name there.
            problem: what is to be found out.
            policy: a policy's name, or your own as `module:attribute`.
            options: what the policy is made with: numbers, texts, and lists of them.
            seed: fixes the draws, and the policy's own.
            lease: seconds after which an assignment without an outcome is lost; None waits for
                ever.
            description: what it is about, in words.
            clock: what tells the time, in seconds.

        Raises:
            ExperimentExistsError: there is one of this name.
            StoreUnavailableError: the database cannot be reached or written to.
        """
        from bestarm.live.document import make_document  # noqa: PLC0415

        title = _title(name)
        document = make_document(problem, policy, options, whole(seed, "seed", least=0))
        text = document.to_json()
        digest = hashlib.sha256(text.encode()).hexdigest()
        head, created = _created(
            clock(), lease=lease, seed=document.seed, name=title, document=digest
        )
        store, ledger_type = _store(url)
        experiment = cls.__new__(cls)
        words = _words(description)
        with _closed_on_error(store):
            ledger = ledger_type.create(
                store, title, document=text, description=words, head=head, created=created
            )
            experiment._stored(ledger, title, words, document, clock)
            experiment._advance()
        return experiment

    @classmethod
    def open(
        cls, url: str | Store, name: str, *, clock: Callable[[], float] = time.time
    ) -> Experiment:
        """Go on with an experiment that is kept in a database, from any process.

        Raises:
            UnknownExperimentError: there is none of this name.
            StoreUnavailableError: the database cannot be reached.
            StoreVersionError: it was made by a newer bestarm.
        """
        from bestarm.live.document import Document  # noqa: PLC0415

        store, ledger_type = _store(url)
        title = _text(name, "name")
        experiment = cls.__new__(cls)
        with _closed_on_error(store):
            ledger, text, words = ledger_type.open(store, title)
            experiment._stored(ledger, title, words, Document.from_json(text), clock)
        return experiment

    @staticmethod
    def list(url: str | Store) -> Sequence[Listed]:
        """The experiments of a database, oldest first."""
        store, ledger_type = _store(url)
        try:
            return [
                Listed(name, description, created, _status(head))
                for name, description, created, head in ledger_type.listed(store)
            ]
        finally:
            if store is not url:
                store.close()

    def _stored(
        self,
        ledger: Ledger,
        name: str,
        description: str,
        document: Document,
        clock: Callable[[], float],
    ) -> None:
        self._set_up(
            ledger,
            Player(document.make),
            document.problem,
            seed=document.seed,
            bounds=document.bounds,
            clock=clock,
        )
        self._name, self._description = name, description
        self._document = document

    def _set_up(
        self,
        ledger: Ledger,
        player: Player,
        problem: Problem,
        *,
        seed: int,
        bounds: tuple[float, float] | None,
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._player = player
        self._problem = problem
        self._seed = seed
        self._bounds = bounds
        self._clock = clock
        self._name = self._description = ""
        self._lock = RLock()  # held by whoever uses the policy
        self._current: tuple[Opened, NDArray[np.int64] | None] | None = None

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
        head = self._head()
        counts = (head.given, head.told, head.lost, head.late, head.refused, head.events)
        return "-".join(map(str, counts))

    @property
    def finished(self) -> bool:
        """Whether it is over: nothing more will be given out."""
        return self._head().over

    @property
    def lease(self) -> float | None:
        """Seconds after which an assignment without an outcome is lost, or None."""
        return self._head().lease

    def ask(self, count: int = 1, *, request_id: str | None = None) -> Batch:
        """Give out up to `count` assignments of the open phase; fewer where its plan ends.

        Args:
            count: how many are wanted.
            request_id: a name for this request: asking again under it, after an answer that got
                lost on its way, gives the same assignments and no others.
        """
        count = whole(count, "count", least=1, below=_MOST + 1)
        name = None if request_id is None else _text(request_id, "request_id")
        while True:
            with self._ledger.writing() as tx:
                now = trial.stamp(tx.head, self._clock())
                before = None if name is None else tx.request(name)
                if before is not None:
                    return self._again(tx, before, count)
                trial.expire(tx, now)
                if not tx.head.due:
                    return self._give(tx, count, name, now)
            self._advance()

    def _give(self, tx: Writing, count: int, name: str | None, now: float) -> Batch:
        head = tx.head
        start, size = head.given, head.available(count)
        if size:
            opened, order = self._plan(tx)
            arms, probabilities = trial.draw_arms(tx, opened, order, seed=self._seed, size=size)
        else:
            arms, probabilities = np.empty(0, dtype=np.int64), np.empty(0)
        waiting = head.outstanding + size if size < count and head.state == "running" else 0
        if size:
            asked = None
            if name is not None:
                asked = Request(name, count, start, size, head.phase, waiting)
            tx.give(arms, probabilities, at=now, request=asked)
            head.given += size
            head.oldest = min(head.oldest, now)
        return self._batch(head, start, arms, probabilities, waiting)

    def _again(self, books: Reading, asked: Request, count: int) -> Batch:
        if asked.count != count:
            raise ConflictingRequestError(
                f"Request {asked.name!r} asked for {asked.count} before, now for {count}.",
                field="request_id",
                value=asked.name,
                remedy="Use a new request id for every new request.",
            )
        rows = np.concatenate(list(books.rows(asked.first, asked.first + asked.size)))
        arms, probabilities = rows["arm"].copy(), rows["probability"].copy()
        arms.flags.writeable = probabilities.flags.writeable = False
        head = replace(books.head, phase=asked.phase)
        return self._batch(
            head,
            asked.first,
            arms,
            probabilities,
            asked.waiting,
        )

    def _batch(
        self, head: Head, start: int, arms: Ids, probabilities: Array, waiting: int
    ) -> Batch:
        return Batch(
            ids=range(start, start + len(arms)),
            arms=arms,
            probabilities=probabilities,
            labels=self._problem.source_labels,
            phase=head.phase,
            waiting=waiting,
            state=head.state,
        )

    def tell(self, id: int, reward: float) -> Receipt:  # noqa: A002  (the field's name)
        """Record the outcome of one assignment. Telling the same outcome again is harmless.

        Raises:
            UnknownAssignmentError: the id was never given out.
            ConflictingOutcomeError: another reward was told for it before.
            InvalidInputError: the reward is not a finite number, or outside the policy's bounds.
        """
        return self.tell_many([(id, reward)])

    def tell_many(
        self, outcomes: Mapping[int, float] | Iterable[tuple[int, float]] | pd.DataFrame
    ) -> Receipt:
        """Record outcomes: all of them or, on an error, none.

        Raises what `tell` raises.

        Args:
            outcomes: a mapping from id to reward, pairs of them, or a data frame with the columns
                `id` and `reward`.
        """
        ids, rewards = read_outcomes(outcomes)
        self._check_bounds(rewards)
        try:
            receipt, due = self._record(ids, rewards, hopeful=len(ids) > _FEW)
        except _NotAllNewError:
            receipt, due = self._record(ids, rewards, hopeful=False)
        self._advance(due)
        return receipt

    def _record(self, ids: Ids, rewards: Array, *, hopeful: bool) -> tuple[Receipt, bool]:
        """Write outcomes down, and say whether something is due.

        Args:
            ids: of the assignments.
            rewards: their outcomes.
            hopeful: do not look first whether any is on record already. If one is, nothing is
                written and _NotAllNewError raised.
        """
        with self._ledger.writing() as tx:
            now = trial.stamp(tx.head, self._clock())
            _check_known(ids, tx.head)
            trial.expire(tx, now)
            repeated = 0
            if not hopeful:
                known = tx.rewards(ids)
                if known:
                    fresh = _not_known(ids, rewards, known)
                    repeated = len(ids) - int(fresh.sum())
                    ids, rewards = ids[fresh], rewards[fresh]
            late = self._write(tx, ids, rewards, now) if len(ids) else 0
            return Receipt(len(ids), repeated, late), tx.head.due

    def _write(self, tx: Writing, ids: Ids, rewards: Array, now: float) -> int:
        head = tx.head
        lost = np.zeros(len(ids), dtype=bool)
        if head.lost:
            gone = tx.lost(ids)
            if gone:
                lost = np.isin(ids, list(gone))
        late = np.ones(len(ids), dtype=bool) if head.over else lost
        if tx.tell(ids, rewards, at=now, late=late) < len(ids):
            raise _NotAllNewError
        settled = ids[~lost]
        behind = int((settled < head.first).sum())
        head.behind -= behind
        head.phase_told += len(settled) - behind
        head.told += int((~late).sum())
        head.late += int(late.sum())
        head.lowest = min(head.lowest, float(rewards.min()))
        head.highest = max(head.highest, float(rewards.max()))
        if head.open and not head.behind and head.phase_told + head.phase_lost >= head.pulls:
            trial.look(tx)
        return int(late.sum())

    def _check_bounds(self, rewards: Array) -> None:
        if self._bounds is None:
            return
        low, high = self._bounds
        outside = rewards[~((low <= rewards) & (rewards <= high))]
        if not outside.size:
            return
        with self._ledger.writing() as tx:
            tx.head.refused += len(outside)
        raise InvalidInputError(
            f"`reward` must lie between {low:g} and {high:g}; got {outside[0]:g}.",
            field="reward",
            value=float(outside[0]),
            remedy="The policy's guarantee rests on the bounds that it was made with.",
        )

    def fail(self, id: int, reason: str = "failed") -> None:  # noqa: A002  (the field's name)
        """Record that the outcome of an assignment will never come. Saying it again is harmless.

        Under a closed plan another assignment is drawn in its place. Under an open one it is passed
        over or taken at its worst, as the policy's `missing` says.

        Raises:
            UnknownAssignmentError: the id was never given out.
            ConflictingOutcomeError: an outcome was told for it before.
        """
        self.fail_many([id], reason)

    def fail_many(self, ids: Iterable[int], reason: str = "failed") -> None:
        """Record that the outcomes of these assignments will never come: all or, on an error, none.

        Raises what `fail` raises.
        """
        numbers = np.asarray(read_ids(ids), dtype=np.int64)
        said = _words(reason)
        with self._ledger.writing() as tx:
            now = trial.stamp(tx.head, self._clock())
            _check_known(numbers, tx.head)
            trial.expire(tx, now)
            gone = tx.lost(numbers)
            fresh = numbers[~np.isin(numbers, list(gone))] if gone else numbers
            for number, reward in tx.rewards(fresh).items():
                raise ConflictingOutcomeError(
                    f"Assignment {number} was already told {reward:g}, now it has failed.",
                    field="id",
                    value=number,
                    remedy="Outcomes cannot be changed: the plans after them rest on them.",
                )
            if fresh.size:
                trial.lose(tx, fresh.tolist(), reason=said, at=now)
            due = tx.head.due
        self._advance(due)

    def expire(self) -> None:
        """Give up outcomes that are overdue. Asking and telling do this too."""
        with self._ledger.writing() as tx:
            trial.expire(tx, trial.stamp(tx.head, self._clock()))
            due = tx.head.due
        self._advance(due)

    def pause(self) -> None:
        """Give nothing out until `resume`. Outcomes are still taken, and leases go on."""
        self._change("paused", "running")

    def resume(self) -> None:
        """Go on after `pause`."""
        self._change("resumed", "paused")

    def stop(self, reason: str = "") -> None:
        """End it for good. Outcomes that come later are kept and flagged, and not used."""
        self._change("stopped", "running", "paused", reason=_words(reason))

    def _change(self, kind: str, *states: str, **data: Any) -> None:
        with self._ledger.writing() as tx:
            head = tx.head
            becomes = "running" if kind == "resumed" else kind
            if head.state == becomes:
                return
            if head.state not in states:
                raise InvalidInputError(
                    f"An experiment that is {head.state} cannot be {kind}.",
                    field="state",
                    value=head.state,
                )
            head.state = becomes
            log(tx, kind, trial.stamp(head, self._clock()), **data)
        self._advance()

    def change_lease(self, lease: float | None) -> None:
        """Set how long outcomes may take from now on; what is lost already stays lost."""
        length = None if lease is None else positive(lease, "lease")
        with self._ledger.writing() as tx:
            now = trial.stamp(tx.head, self._clock())
            log(tx, "changed", now, lease=length, before=tx.head.lease)
            tx.head.lease = length

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
        return _status(self._head())

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

    def events(self, start: int = 0) -> Sequence[Event]:
        """The log: every change of the experiment's state, from a number on."""
        whole(start, "start", least=0, below=2**62)
        with self._ledger.reading() as books:
            return list(books.events(start))

    def verify(self) -> Audit:
        """Check all that is on record against the rest, and make every draw once more.

        Reads everything once, in one moment's state, with as much memory for many as for few.
        """
        from bestarm.live.audit import audit  # noqa: PLC0415

        created: dict[str, object] = {"seed": self._seed}
        if self._document is not None:
            made_of = hashlib.sha256(self._document.to_json().encode()).hexdigest()
            created |= {"name": self._name, "document": made_of}
        with self._ledger.reading() as books:
            return audit(books, arms=self._problem.arms, seed=self._seed, created=created)

    def replay(self) -> Recommendation:
        """Make the policy anew, tell it all it was told, and compare what it does with the log.

        Raises:
            ReplayError: it plans, drops or recommends otherwise than is on record.
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
            return _as_it_ended(replay(books, self._document.make()), books.head)

    def health(self) -> tuple[Check, ...]:
        """Whether all is well, question by question: see `bestarm.live.Check`.

        Quick for any number of outcomes: it reads the counters, the summaries and what no summary
        covers yet.
        """
        from bestarm.live.health import examine  # noqa: PLC0415

        # What a policy in memory was made with is not known: nothing is held against its means.
        options = {"mean_bound": math.inf} if self._document is None else self._document.options
        with self._ledger.reading() as books:
            return examine(
                books,
                problem=self._problem,
                bounds=self._bounds,
                mean_bound=options.get("mean_bound"),
                now=self._clock(),
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

    def close(self) -> None:
        """Let go of the database, if there is one."""
        self._ledger.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Experiment, seed {self._seed}: {self.status()}>"

    def _head(self) -> Head:
        with self._ledger.reading() as books:
            return replace(books.head)

    def _plan(self, books: Reading) -> tuple[Opened, NDArray[np.int64] | None]:
        current, phase = self._current, books.head.phase
        if current is None or current[0].plan.phase != phase:
            opened = books.opened(phase)
            current = self._current = opened, trial.turns(opened.plan)
        return current

    def _advance(self, due: bool = True) -> None:
        """Do all that is due, one short transaction after the other."""
        while due:
            with self._lock:
                try:
                    # Replayed and made to plan before others have to wait for it.
                    with self._ledger.reading() as books:
                        self._player.policy(books)
                        head = books.head
                    if not head.planned and not head.over:
                        self._player.plan()
                    with self._ledger.writing() as tx:
                        if tx.head.due:
                            trial.step(tx, self._player, trial.stamp(tx.head, self._clock()))
                        due = tx.head.due
                except BaseException:
                    self._player.forget()
                    raise


class _NotAllNewError(Exception):
    """Some outcome was on record before."""


def _status(head: Head) -> Status:
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
    )


def _as_it_ended(said: Recommendation, head: Head) -> Recommendation:
    stopped = head.state == "stopped" and said.reason == "running"
    return replace(said, reason="stopped") if stopped else said


def _created(at: float, *, lease: float | None, **data: object) -> tuple[Head, Event]:
    """The counters of an experiment that begins now, and the first entry of its log."""
    head = Head(lease=None if lease is None else positive(lease, "lease"), at=at)
    return head, record(head, "created", at, lease=head.lease, version=version("bestarm"), **data)


def _store(url: str | Store) -> tuple[Store, type[SqlLedger]]:
    try:
        from bestarm.live.sql import SqlLedger, Store  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError(
            f"Keeping experiments in a database needs {error.name}.",
            field="url",
            value=url,
            remedy="Run: pip install 'bestarm[live]'.",
        ) from None
    return url if isinstance(url, Store) else Store(url), SqlLedger


@contextmanager
def _closed_on_error(store: Store) -> Iterator[None]:
    try:
        yield
    except BaseException:
        store.close()
        raise


def _words(value: object) -> str:
    """Free text in the form that every database can keep."""
    return str(value)[:10_000].encode("utf-8", "replace").decode().replace("\0", "")


def _title(value: object) -> str:
    """A name that can be a part of a path: programs elsewhere reach the experiment by it."""
    name = _text(value, "name")
    if "/" in name or name in {".", ".."}:
        raise InvalidInputError(
            f"`name` must not hold a slash, nor be dots alone; got {name!r}.",
            field="name",
            value=name,
            remedy="Try a dash.",
        )
    return name


def _text(value: object, field: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise InvalidInputError(
            f"`{field}` must be a text of 1 to 200 characters; got {value!r}.",
            field=field,
            value=value,
        )
    return value


def _check_known(ids: Ids, head: Head) -> None:
    unknown = ids[(ids < 0) | (ids >= head.given)]
    if unknown.size:
        last = f"the last id is {head.given - 1}" if head.given else "there is none yet"
        raise UnknownAssignmentError(
            f"Assignment {unknown[0]} was never given out; {last}.",
            field="id",
            value=int(unknown[0]),
            remedy="Tell outcomes under the ids that `ask` returned.",
        )


def _not_known(ids: Ids, rewards: Array, known: dict[int, float]) -> NDArray[np.bool_]:
    """Which outcomes are new; raises where one contradicts what is on record."""
    fresh = np.ones(len(ids), dtype=bool)
    for place, number in enumerate(ids.tolist()):
        told = known.get(number)
        if told is not None:
            if told != rewards[place]:
                raise conflict(number, f"told {told:g}", float(rewards[place]))
            fresh[place] = False
    return fresh
