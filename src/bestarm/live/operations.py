"""The writing half of an experiment: asking, telling, failing, pausing and stopping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm.checks import duration, whole
from bestarm.errors import BestArmError
from bestarm.geometry import Array
from bestarm.live import rules
from bestarm.live.assignments import Assigner
from bestarm.live.inputs import Outcomes, clean_text, read_ids, read_label, read_outcomes
from bestarm.live.outcomes import (
    NotAllNewError,
    fail,
    out_of_bounds,
    out_of_bounds_error,
    record,
    record_each,
    refuse,
)
from bestarm.live.record import Record
from bestarm.live.store.contract import Ids, Writing
from bestarm.live.values import Assignment, Batch, Receipt

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Operations"]

_MOST = 10_000_000  # assignments at a time: more would keep others waiting for minutes
_FEW = 32  # outcomes: up to so many are looked up first, more are assumed to be new


class Operations(Record):
    """What changes an experiment. Its parameters are those of `Record`."""

    def __init__(self, *args: Any, **parts: Any) -> None:
        super().__init__(*args, **parts)
        self._assigner = Assigner(self._problem.source_labels, self._seed)

    def ask(self, count: int = 1, *, request_id: str | None = None) -> Batch:
        """Make up to `count` assignments of the open phase; fewer where its plan ends.

        Args:
            count: how many are wanted.
            request_id: a name for this request: asking again under it, after an answer that got
                lost on its way, returns the same assignments and no others.
        """
        count = whole(count, "count", least=1, below=_MOST + 1)
        name = None if request_id is None else read_label(request_id, "request_id")
        while True:
            with self._ledger.writing() as tx:
                now = self._stamp(tx)
                before = None if name is None else tx.request(name)
                if before is not None:
                    return self._assigner.repeat(tx, before, count)
                rules.expire(tx, now)
                if not tx.head.due:
                    return self._assigner.assign(tx, count, name, now)
            self._advance()

    def tell(self, id: int | Assignment, reward: float) -> Receipt:  # noqa: A002  (the field's name)
        """Record the outcome of one assignment. Telling the same outcome again is harmless.

        Args:
            id: the assignment, or its id.
            reward: a number; True and False are 1 and 0.

        Raises:
            UnknownAssignmentError: there is no assignment of this id.
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
            return self._record(ids, rewards, assume_new=len(ids) > _FEW)
        except NotAllNewError:
            return self._record(ids, rewards, assume_new=False)

    def tell_each(self, several: Sequence[Outcomes]) -> tuple[Receipt | BestArmError, ...]:
        """Record several batches of outcomes at once: each of them whole or, on an error, not.

        Where many programs tell a few outcomes each, this is much faster than one after the other,
        as one write brings all of them to disk. Returns a receipt for each batch, or the error that
        `tell_many` would have raised.
        """
        errors: dict[int, BestArmError] = {}
        batches = []
        for place, outcomes in enumerate(several):
            try:
                batches.append(read_outcomes(outcomes))
            except BestArmError as error:
                errors[place] = error
        if not batches:
            return tuple(errors.values())
        with self._advancing() as (tx, now):
            found = iter(record_each(tx, batches, now=now, bounds=self._bounds))
        return tuple(errors[at] if at in errors else next(found) for at in range(len(several)))

    def _record(self, ids: Ids, rewards: Array, *, assume_new: bool) -> Receipt:
        with self._advancing() as (tx, now):
            return record(tx, ids, rewards, now=now, assume_new=assume_new)

    def _check_bounds(self, ids: Ids, rewards: Array) -> None:
        wrong = out_of_bounds(rewards, self._bounds)
        if self._bounds is None or not wrong.any():
            return
        with self._ledger.writing() as tx:
            refuse(tx, ids[wrong], rewards[wrong], now=self._stamp(tx))
        raise out_of_bounds_error(float(rewards[wrong][0]), self._bounds)

    def fail(self, id: int | Assignment, reason: str = "failed") -> None:  # noqa: A002
        """Record that the outcome of an assignment will never come. Repeating it is harmless.

        Under a closed plan another assignment is drawn in its place. Under an open plan the policy
        leaves it out or assumes the worst, as its option `missing` says.

        Raises:
            UnknownAssignmentError: there is no assignment of this id.
            ConflictingOutcomeError: an outcome was told for it before.
        """
        self.fail_many([id], reason)

    def fail_many(self, ids: Iterable[int | Assignment], reason: str = "failed") -> None:
        """Record that the outcomes of these assignments will never come: all or, on an error, none.

        Raises what `fail` raises.
        """
        numbers = np.asarray(read_ids(ids), dtype=np.int64)
        with self._advancing() as (tx, now):
            fail(tx, numbers, reason=clean_text(reason), now=now)

    def expire(self) -> bool:
        """Give up overdue outcomes, and return whether there were any. `ask` and `tell` do it too.

        As long as nothing is overdue it only reads.
        """
        with self.read() as books:
            if not books.head.due and not rules.overdue(books.head, self._now(books)):
                return False
        with self._advancing() as (tx, now):
            before = tx.head.losses
            rules.expire(tx, now)
            return tx.head.losses > before

    def pause(self) -> None:
        """Make no assignments until `resume`. Outcomes are still recorded, and leases go on."""
        self._change("paused", "running")

    def resume(self) -> None:
        """Continue after `pause`."""
        self._change("resumed", "paused")

    def stop(self, reason: str = "") -> None:
        """End it for good. Outcomes that come later are kept and flagged, and not used."""
        self._change("stopped", "running", "paused", reason=clean_text(reason))

    def _change(self, kind: str, *states: str, **data: Any) -> None:
        with self._advancing(leaps=True) as (tx, now):
            if tx.head.state != ("running" if kind == "resumed" else kind):
                rules.change_state(tx, kind, states, now, **data)

    def change_lease(self, lease: float | str | None) -> None:
        """Set how long outcomes may take from now on; what is lost already stays lost.

        Raises:
            InvalidInputError: this is not a length of time, or the experiment is over.
        """
        seconds = None if lease is None else duration(lease, "lease")
        with self._advancing(leaps=True) as (tx, now):
            rules.change_lease(tx, seconds, now)

    def _stamp(self, tx: Writing, *, leaps: bool = False) -> float:
        """The time of a transaction, noted in it.

        Args:
            tx: the transaction.
            leaps: whether years may have passed since the last: where somebody decides whether the
                experiment continues.
        """
        now = self._now(tx)
        if self._spec is not None and not leaps:
            rules.check_leap(tx.head, now)
        return rules.stamp(tx.head, now)

    @contextmanager
    def _advancing(self, *, leaps: bool = False) -> Iterator[tuple[Writing, float]]:
        """A transaction and its time; afterwards the experiment advances if something is due."""
        with self._ledger.writing() as tx:
            yield tx, self._stamp(tx, leaps=leaps)
            due = tx.head.due
        self._advance(due)

    def _advance(self, due: bool = True) -> None:
        """Do all that is due, one short transaction after the other."""
        while due:
            with self._lock:
                try:
                    # Replay and planning come first: others do not wait for them.
                    with self.read() as books:
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
