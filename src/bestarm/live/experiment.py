"""Experiment: give out a policy's pulls one batch at a time, and take the outcomes as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm.checks import duration, whole
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.geometry import Array
from bestarm.live import rules
from bestarm.live.assignments import Giver
from bestarm.live.clocks import check_leap, read_time
from bestarm.live.draws import read_seed
from bestarm.live.events import log, sha256
from bestarm.live.inputs import read_ids, read_outcomes
from bestarm.live.opening import begun, closed_on_error, reached
from bestarm.live.outcomes import NotAllNewError, beyond, fail, outside, record, record_each, refuse
from bestarm.live.record import Record, revision_of, status_of
from bestarm.live.replay import Player
from bestarm.live.store.contract import Ids, Ledger, Writing
from bestarm.live.store.memory import MemoryLedger
from bestarm.live.texts import text, title, words
from bestarm.live.values import Assignment, Batch, Listed, Receipt
from bestarm.policies.policy import Policy, Traits
from bestarm.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

    from bestarm.live.spec import Document
    from bestarm.live.store.sql import Store

__all__ = ["Experiment"]

Outcomes = (
    Mapping[int, float]
    | Mapping[Assignment, float]
    | Iterable[tuple[int, float]]
    | Iterable[tuple[int | Assignment, float]]
)

_MOST = 10_000_000  # assignments at a time: more would keep others waiting for minutes
_FEW = 32  # outcomes: up to so many are looked up first, more are told in the hope that all are new


class Experiment(Record):
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
        seed: fixes the draws, so that they can be repeated; random if left out. From it and an
            assignment's id `bestarm.live.draw` recomputes the draw.
        lease: how long after it is given out an assignment without an outcome is lost, in seconds
            or as a text like "90s", "30m", "2h" or "1d": another is drawn in its place, and an
            outcome that comes later is kept but not used. None waits for ever.
        clock: what tells the time, in seconds since 1970 or in simulated time; if left out, the
            clock of this process.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        seed: int | None = None,
        lease: float | str | None = None,
        clock: Callable[[], float] | None = None,
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
            seed=read_seed(seed),
            traits=policy.traits,
            clock=clock,
        )
        with self._ledger.writing() as tx:
            tx.head, created = begun(self._now(tx), lease=lease, seed=self._seed)
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
        seed: int | None = None,
        lease: float | str | None = None,
        description: str = "",
        clock: Callable[[], float] | None = None,
    ) -> Experiment:
        """Begin an experiment that is kept in a database.

        Args:
            url: the database: `sqlite:///trial.db` for a file, or `postgresql://user@host/name`; or
                a `Store`, which experiments then share.
            name: the experiment's name there.
            problem: what is to be found out.
            policy: a policy's name, or your own as `module:attribute`.
            options: what the policy is made with: numbers, texts, and lists of them.
            seed: fixes the draws, and the policy's own; random if left out. Whoever knows it can
                foresee the draws.
            lease: how long an outcome may take before it is lost, in seconds or as a text like
                "2h"; None waits for ever.
            description: what it is about, in words.
            clock: what tells the time, in seconds since 1970; if left out, the clock of a
                PostgreSQL database itself, and with SQLite that of this process.

        Raises:
            ClockError: the clock tells a time that cannot be.
            ExperimentExistsError: there is one of this name.
            StoreUnavailableError: the database cannot be reached or written to.
        """
        from bestarm.live.spec import make_document  # noqa: PLC0415

        called = title(name)
        document = make_document(problem, policy, options, read_seed(seed))
        written = document.to_json()
        digest = sha256(written)
        about = words(description)
        length = None if lease is None else duration(lease, "lease")
        store, ledger_type = reached(url)
        experiment = cls.__new__(cls)
        with closed_on_error(store):
            now = read_time(store.now() if clock is None else clock(), stored=True)
            head, created = begun(
                now,
                lease=length,
                seed=document.seed,
                name=called,
                document=digest,
                description=sha256(about),
            )
            ledger = ledger_type.create(
                store, called, document=written, description=about, head=head, created=created
            )
            experiment._stored(ledger, called, about, document, clock)
            experiment._advance()
        return experiment

    @classmethod
    def open(
        cls, url: str | Store, name: str, *, clock: Callable[[], float] | None = None
    ) -> Experiment:
        """Go on with an experiment that is kept in a database, from any process.

        Raises:
            UnknownExperimentError: there is none of this name.
            StoreUnavailableError: the database cannot be reached.
            StoreVersionError: it was made by a newer bestarm.
        """
        from bestarm.live.spec import Document  # noqa: PLC0415

        store, ledger_type = reached(url)
        experiment = cls.__new__(cls)
        with closed_on_error(store):
            ledger, called, written, about = ledger_type.open(store, text(name, "name"))
            experiment._stored(ledger, called, about, Document.from_json(written), clock)
        return experiment

    @staticmethod
    def list(
        url: str | Store, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[Listed]:
        """The experiments of a database, oldest first.

        Args:
            url: the database.
            limit: how many at most; all of them by default.
            after: the name of the last one before these, to read them in parts.

        Raises:
            UnknownExperimentError: there is no experiment `after`.
        """
        most = None if limit is None else whole(limit, "limit", least=1)
        store, ledger_type = reached(url)
        try:
            return [
                Listed(name, description, created, status_of(head), revision_of(head))
                for name, description, created, head in ledger_type.listed(
                    store, limit=most, after=after
                )
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
        clock: Callable[[], float] | None,
    ) -> None:
        self._set_up(
            ledger,
            Player(document.make),
            document.problem,
            seed=document.seed,
            traits=document.traits,
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
        traits: Traits,
        clock: Callable[[], float] | None,
    ) -> None:
        super().__init__(ledger, player, problem, seed=seed, traits=traits, clock=clock)
        self._giver = Giver(problem.source_labels, seed)

    def ask(self, count: int = 1, *, request_id: str | None = None) -> Batch:
        """Give out up to `count` assignments of the open phase; fewer where its plan ends.

        Args:
            count: how many are wanted.
            request_id: a name for this request: asking again under it, after an answer that got
                lost on its way, gives the same assignments and no others.
        """
        count = whole(count, "count", least=1, below=_MOST + 1)
        name = None if request_id is None else text(request_id, "request_id")
        while True:
            with self._ledger.writing() as tx:
                now = self._stamp(tx)
                before = None if name is None else tx.request(name)
                if before is not None:
                    return self._giver.again(tx, before, count)
                rules.expire(tx, now)
                if not tx.head.due:
                    return self._giver.give(tx, count, name, now)
            self._advance()

    def tell(self, id: int | Assignment, reward: float) -> Receipt:  # noqa: A002  (the field's name)
        """Record the outcome of one assignment. Telling the same outcome again is harmless.

        Args:
            id: the assignment, or its id.
            reward: a number; True and False are 1 and 0.

        Raises:
            UnknownAssignmentError: the id was never given out.
            ConflictingOutcomeError: another reward was told for it before.
            InvalidInputError: the reward is not a finite number, or outside the policy's bounds.
        """
        return self.tell_many([(id, reward)])

    def tell_many(self, outcomes: Outcomes | pd.DataFrame) -> Receipt:
        """Record outcomes: all of them or, on an error, none.

        Raises what `tell` raises.

        Args:
            outcomes: a mapping from id, or assignment, to reward; pairs of them; or a data frame
                with the columns `id` and `reward`.
        """
        ids, rewards = read_outcomes(outcomes)
        self._check_bounds(ids, rewards)
        try:
            return self._record(ids, rewards, hopeful=len(ids) > _FEW)
        except NotAllNewError:
            return self._record(ids, rewards, hopeful=False)

    def tell_each(self, several: Sequence[Outcomes]) -> tuple[Receipt | BestArmError, ...]:
        """Record what several have told, in one go: each of them all, or on an error none.

        Where many tell a little at the same time this is much quicker than one after the other,
        as all of it is on disk after one write. For each there is a receipt, or the error that
        `tell_many` would have raised.
        """
        wrong: dict[int, BestArmError] = {}
        read = []
        for place, outcomes in enumerate(several):
            try:
                read.append(read_outcomes(outcomes))
            except BestArmError as error:
                wrong[place] = error
        if not read:
            return tuple(wrong.values())
        with self._ledger.writing() as tx:
            now = self._stamp(tx)
            found = iter(record_each(tx, read, now=now, bounds=self._bounds))
            due = tx.head.due
        self._advance(due)
        return tuple(wrong[at] if at in wrong else next(found) for at in range(len(several)))

    def _record(self, ids: Ids, rewards: Array, *, hopeful: bool) -> Receipt:
        with self._ledger.writing() as tx:
            now = self._stamp(tx)
            receipt = record(tx, ids, rewards, now=now, hopeful=hopeful)
            due = tx.head.due
        self._advance(due)
        return receipt

    def _check_bounds(self, ids: Ids, rewards: Array) -> None:
        wrong = beyond(rewards, self._bounds)
        if self._bounds is None or not wrong.any():
            return
        with self._ledger.writing() as tx:
            refuse(tx, ids[wrong], rewards[wrong], now=self._stamp(tx))
        raise outside(float(rewards[wrong][0]), self._bounds)

    def fail(self, id: int | Assignment, reason: str = "failed") -> None:  # noqa: A002
        """Record that the outcome of an assignment will never come. Saying it again is harmless.

        Under a closed plan another assignment is drawn in its place. Under an open one it is passed
        over or taken at its worst, as the policy's `missing` says.

        Raises:
            UnknownAssignmentError: the id was never given out.
            ConflictingOutcomeError: an outcome was told for it before.
        """
        self.fail_many([id], reason)

    def fail_many(self, ids: Iterable[int | Assignment], reason: str = "failed") -> None:
        """Record that the outcomes of these assignments will never come: all or, on an error, none.

        Raises what `fail` raises.
        """
        numbers = np.asarray(read_ids(ids), dtype=np.int64)
        said = words(reason)
        with self._ledger.writing() as tx:
            now = self._stamp(tx)
            fail(tx, numbers, reason=said, now=now)
            due = tx.head.due
        self._advance(due)

    def expire(self) -> None:
        """Give up outcomes that are overdue. Asking and telling do this too."""
        with self._ledger.writing() as tx:
            rules.expire(tx, self._stamp(tx))
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
        self._change("stopped", "running", "paused", reason=words(reason))

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
            if kind == "stopped":
                data |= rules.ending(tx)
            log(tx, kind, self._stamp(tx, leaps=True), **data)
            due = head.due
        self._advance(due)

    def change_lease(self, lease: float | str | None) -> None:
        """Set how long outcomes may take from now on; what is lost already stays lost.

        Raises:
            InvalidInputError: this is no length of time, or the experiment is over.
        """
        length = None if lease is None else duration(lease, "lease")
        with self._ledger.writing() as tx:
            head = tx.head
            if head.over:
                raise InvalidInputError(
                    f"The lease of an experiment that is {head.state} cannot be changed.",
                    field="state",
                    value=head.state,
                )
            if length != head.lease:
                now = self._stamp(tx, leaps=True)
                log(tx, "changed", now, lease=length, before=head.lease)
                head.lease = length

    def close(self) -> None:
        """Let go of the database, if there is one."""
        self._ledger.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f" {self._name!r}" if self._name else ""
        return f"<Experiment{name}: {self.status()}>"  # without the seed: it may end up in a log

    def _stamp(self, tx: Writing, *, leaps: bool = False) -> float:
        """The time of a transaction, noted in it.

        Args:
            tx: the transaction.
            leaps: whether years may have passed since the one before: where somebody decides that
                the experiment goes on, or not.
        """
        now = self._now(tx)
        if self._document is not None and not leaps:
            check_leap(tx.head, now)
        return rules.stamp(tx.head, now)

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
                            rules.step(tx, self._player, self._stamp(tx))
                        due = tx.head.due
                except BaseException:
                    self._player.forget()
                    raise
