"""The transactions in which an experiment is asked, told and advances."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import RLock
from weakref import WeakSet

from bestarm.checks import whole
from bestarm.errors import BestArmError, ConflictingRequestError, InvalidInputError
from bestarm.live import rules
from bestarm.live.draws import MOST, Assigner, Foresee
from bestarm.live.forecasts import Forecasts
from bestarm.live.gathering import Gathering
from bestarm.live.outcomes import Outcomes, record
from bestarm.live.record import Record
from bestarm.live.rehearsal import rehearse
from bestarm.live.spec import Spec
from bestarm.live.store.contract import (
    ChangedMeanwhileError,
    Head,
    Ledger,
    NotAllNewError,
    Writing,
)
from bestarm.live.store.damage import damaged
from bestarm.live.values import Batch, Receipt
from bestarm.policies.policy import Policy

_FEW = 100  # outcomes that are told together with those of other threads
_PATIENCE = 60.0  # seconds until another process that is at work is thought to hang
_NAP, _LONGEST_NAP = 0.001, 0.008  # seconds between looks whether it is done
_MOMENT = 0.02  # seconds for which it is believed to be at work still
_STEPS = 3  # late outcomes, the summary of a phase, the plan of the next

_Request = tuple[int, str | None]  # how many assignments, and the name of the request


class Writer(Record):
    """An experiment to be read and written to; arguments as for `Record`.

    What several threads ask or tell at once goes into one transaction of a stored experiment.
    """

    def __init__(
        self,
        ledger: Ledger,
        made_of: Spec | Policy,
        *,
        seed: int,
        clock: Callable[[], float] | None,
        forecasts: Forecasts | None = None,
    ) -> None:
        super().__init__(ledger, made_of, seed=seed, clock=clock, forecasts=forecasts)
        # What was left to others, since when, and when last.
        self._left: tuple[tuple[int, int], float, float] | None = None
        self._gather()
        _writers.add(self)

    def _gather(self) -> None:
        self._asks: Gathering[_Request, Batch | Exception] = Gathering(self._ask)
        self._tells: Gathering[Outcomes, Receipt | BestArmError] = Gathering(self._tell)

    def begin_in_fork(self) -> None:
        """Wait for no other thread in a forked process: there they are not."""
        self._gather()
        if self._forecasts is not None:
            self._forecasts.begin_in_fork()
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = RLock()
            self._player.forget()  # another thread was at work on the policy

    @cached_property
    def _assigner(self) -> Assigner:
        return Assigner(self.problem.source_labels, self.seed)

    def _ask_one(self, request: _Request, foresee: Foresee | None) -> Batch:
        if foresee is None and self.spec is not None:
            answer = self._asks(request)
        else:
            [answer] = self._ask([request], foresee)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _ask(
        self, requests: Sequence[_Request], foresee: Foresee | None = None
    ) -> Sequence[Batch | Exception]:
        """Make the assignments of several requests, all in one transaction if nothing is due."""
        answers: list[Batch | Exception] = []
        left_to_others, hopeful = False, self._forecasts is None
        try:
            while True:
                rest = requests[len(answers) :]
                try:
                    with self._ledger.writing(assume_unchanged=hopeful) as tx:
                        made, passed = self._assign(tx, rest, foresee, while_due=left_to_others)
                        head = tx.head
                except ChangedMeanwhileError:
                    hopeful = False
                    continue
                answers += made
                if len(answers) == len(requests):
                    if passed and not left_to_others:
                        self._advance(head, wait=False)  # unless the other is still at it
                    return answers
                # Under an open plan nobody waits for another process that closes the phase.
                left_to_others = not self._advance(head, wait=left_to_others)
        except Exception as error:
            if not answers:
                raise
            return answers + [error] * (len(requests) - len(answers))  # the first have theirs

    def _assign(
        self,
        tx: Writing,
        requests: Sequence[_Request],
        foresee: Foresee | None,
        *,
        while_due: bool,
    ) -> tuple[list[Batch | Exception], bool]:
        """Make assignments; of fewer requests where something is due first.

        Returned is also whether something was due that is left to another process.
        """
        now, answers, passed = self._stamp(tx), list[Batch | Exception](), False
        for count, name in requests:
            before = None if name is None else tx.request(name)
            try:
                if before is not None:
                    answers.append(self._assigner.repeat(tx, before, count))
                    continue
                rules.expire(tx, now)
                if tx.head.due:
                    passed = while_due or self._left_lately(tx.head)
                    if not (passed and tx.head.available(tx.head.size)):
                        break
                whole(count, "count", least=1, below=MOST // tx.head.size + 1)
                batch = self._assigner.assign(tx, count, name, now, foresee)
            except (ConflictingRequestError, InvalidInputError) as error:
                answers.append(error)
                continue
            if self._forecasts is not None:
                self._forecasts.drawn(batch.ids, batch.arms)
            answers.append(batch)
        return answers, passed

    def _tell_one(self, outcomes: Outcomes) -> Receipt:
        if self.spec is not None and len(outcomes[0]) <= _FEW:
            answer = self._tells(outcomes)
        else:
            [answer] = self._tell([outcomes])
        if isinstance(answer, BestArmError):
            raise answer
        return answer

    def _tell(
        self,
        batches: Sequence[Outcomes],
        *,
        hopeful: bool = True,
        when_due: Callable[[], object] | None = None,
    ) -> Sequence[Receipt | BestArmError]:
        """Record batches of outcomes; first in the hope that all is new and nobody else writes."""
        bounds = self.traits.bounds
        try:
            with self._ledger.writing(assume_unchanged=hopeful) as tx:
                now = self._stamp(tx)
                answers = record(tx, batches, now=now, bounds=bounds, assume_new=hopeful)
                head = tx.head
        except (NotAllNewError, ChangedMeanwhileError) as error:
            if not hopeful:
                raise damaged("There are outcomes on record without their assignments.") from error
            return self._tell(batches, hopeful=False, when_due=when_due)
        if head.due and when_due is not None:
            when_due()
        else:
            self._advance(head, wait=False)
        if self._forecasts is not None:
            for batch, answer in zip(batches, answers, strict=True):
                if isinstance(answer, Receipt) and not answer.late:
                    self._forecasts.learn(*batch)
        return answers

    def _stamp(self, tx: Writing, *, leaps: bool = False) -> float:
        """The time of a transaction, noted in it.

        Years may have passed since the last (`leaps`) only where somebody decides whether the
        experiment continues.
        """
        return rules.stamp(tx.head, self._now(tx), leaps=leaps or self.spec is None)

    @contextmanager
    def _advancing(self, *, leaps: bool = False) -> Iterator[tuple[Writing, float]]:
        """A transaction and its time; afterwards the experiment advances if something is due."""
        with self._ledger.writing() as tx:
            yield tx, self._stamp(tx, leaps=leaps)
            head = tx.head
        self._advance(head, wait=False)

    def _advance(self, head: Head, *, wait: bool = True) -> bool:
        """Do all that is due by the latest counters, one short transaction after the other.

        Where another process is at it this one does not do the same beside it: it waits for that
        one, or returns False at once.
        """
        nap = _NAP
        while head.due:
            with self._lock, self._ledger.advancing() as alone:
                mine = alone or self._left_for_long(head)
                while mine and self._step():
                    pass
            if not mine:
                if not wait:
                    return False
                time.sleep(nap)
                nap = min(2 * nap, _LONGEST_NAP)
            # Once more: whoever found this process at work has left the rest to it.
            head = self._head()
        return True

    def _advance_once(self, head: Head) -> bool:
        """Do what is due, without what becomes due meanwhile; return whether there is more.

        Where another process is at it the rest is left to that one.
        """
        if not head.due:
            return False
        with self._lock, self._ledger.advancing() as alone:
            if not alone and not self._left_for_long(head):
                return False
            for _ in range(_STEPS):
                if not self._step():
                    break
        return self._head().due  # whoever found this process at work has left the rest to it

    def _left_for_long(self, head: Head) -> bool:
        """Whether other processes, to whom it was left, have long done nothing of what is due."""
        now, what = time.monotonic(), (head.phase, head.summaries)
        since = self._left[1] if self._left is not None and self._left[0] == what else now
        self._left = what, since, now
        return now > since + _PATIENCE

    def _left_lately(self, head: Head) -> bool:
        """Whether another process was at work a moment ago on what is due."""
        if self._left is None or self._left[0] != (head.phase, head.summaries):
            return False
        return time.monotonic() < self._left[2] + _MOMENT

    def _step(self) -> bool:
        """Do the next thing that is due, and return whether there is more."""
        try:
            # Replay and planning come first: others do not wait for them.
            with self.read() as books:
                self._player.policy(books)
                head = books.head
            if not head.planned and not head.over:
                self._player.plan()
            elif self.spec is not None:
                rehearse(self.spec, head, self.read)
            with self._ledger.writing() as tx:
                if tx.head.due:
                    rules.step(tx, self._player, self._stamp(tx))
                return tx.head.due
        except BaseException:
            self._player.forget()
            raise


_writers: WeakSet[Writer] = WeakSet()


def _begin_in_fork() -> None:
    for writer in _writers:
        writer.begin_in_fork()


if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(after_in_child=_begin_in_fork)
