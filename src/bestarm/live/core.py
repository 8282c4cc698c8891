"""The core of an experiment: calls become transactions, and steps follow them.

Calls that threads make at the same time share a transaction (group commit). The steps that are
pending after it are taken by one thread, and by whichever process comes first.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Condition, Lock, RLock
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakSet

from bestarm.errors import BestArmError, StoreError, StoreUnavailableError
from bestarm.forecasting import Forecaster
from bestarm.live import ask, close, inputs, state, tell
from bestarm.live.ask import Ask, StepPendingError
from bestarm.live.draws import Draws
from bestarm.live.forecasts import make_forecasts
from bestarm.live.guarding import GuardrailReplayer
from bestarm.live.options import Options
from bestarm.live.replay import PolicyReplayer
from bestarm.live.spec import Spec
from bestarm.live.state import Precondition
from bestarm.live.store.contract import Ledger, Snapshot, Transaction
from bestarm.live.tell import Tell
from bestarm.live.values import Batch, Receipt
from bestarm.policies.guardrail import Guardrail
from bestarm.policies.policy import Policy
from bestarm.problem import Problem

T = TypeVar("T")
Call = TypeVar("Call")

# --- group commit -------------------------------------------------------------------------------


class _Entry(Generic[Call, T]):
    """A call, and its answer once there is one."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.answer: T | BaseException | None = None


class GroupCommit(Generic[Call, T]):
    """Carries out the calls of threads: those that come in while one is at work, together.

    A commit waits for the disk, so that eight threads record twice as many outcomes per second like
    this. A call that finds nobody at work is carried out at once, by its own thread; of those that
    wait, the first carries out all. A call returns when it is on disk, or raises; where the thread
    at work is interrupted (Ctrl-C), the calls that it carries out raise as well.

    Args:
        commit: carries out several calls in one transaction, and returns an answer for each: an
            exception is raised to that caller alone. After one that it raises itself nothing is
            kept. A `StoreError` is raised to all callers; after another, such as one of a caller's
            forecaster, each call is carried out alone.
    """

    def __init__(self, commit: Callable[[Sequence[Call]], Sequence[T | Exception]]) -> None:
        self._commit = commit
        self._lock = Lock()  # held by the thread at work
        self._waiting: deque[_Entry[Call, T]] = deque()

    def __call__(self, call: Call) -> T:
        """Have a call carried out, and return its answer."""
        mine = _Entry[Call, T](call)
        self._waiting.append(mine)
        try:
            with self._lock:
                if mine.answer is None:
                    self._carry_out([self._waiting.popleft() for _ in range(len(self._waiting))])
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(mine)  # what was interrupted is not carried out later
            raise
        if mine.answer is None:  # another thread was interrupted as it took the calls
            raise _interrupted()
        if isinstance(mine.answer, BaseException):
            raise mine.answer
        return mine.answer

    def _carry_out(self, group: Sequence[_Entry[Call, T]]) -> None:
        try:
            answers = self._commit([entry.call for entry in group])
            for entry, answer in zip(group, answers, strict=True):
                entry.answer = answer
        except Exception as error:
            if len(group) == 1 or isinstance(error, StoreError):
                for entry in group:
                    entry.answer = error
            else:  # nothing was kept: each alone, so that the error reaches only its own call
                for entry in group:
                    self._carry_out([entry])
        except BaseException:
            for entry in group:
                entry.answer = _interrupted()
            raise


def _interrupted() -> StoreUnavailableError:
    return StoreUnavailableError(
        "The thread that carried out this call together with its own was interrupted.",
        field="thread",
        remedy="Make the same call again: it may be on record or not.",
    )


# --- calls --------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """The answer to a `Tell`; where a step is pending, one caller of a group is to advance."""

    receipt: Receipt
    step_pending: close.StepIdentity | None


_Call = TypeVar("_Call", Ask, Tell)


def _answers(
    tx: Transaction, calls: Sequence[_Call], carry_out: Callable[[_Call], T]
) -> list[T | Exception]:
    """Carry out calls in one transaction; what one of them is refused is raised to it alone."""
    answers: list[T | Exception] = []
    for call in calls:
        try:
            if call.precondition is not None:
                call.precondition(tx)
            answers.append(carry_out(call))
        except StoreError:
            raise  # nothing of the transaction is kept
        except (BestArmError, StepPendingError) as error:
            answers.append(error)
    return answers


# --- the experiment -----------------------------------------------------------------------------


class ExperimentCore:
    """An open experiment: its ledger, its clock, its policy, and the locks of this process.

    It is made of a spec, or of a policy that cannot be made again.
    """

    def __init__(
        self,
        ledger: Ledger,
        made_of: Spec | Policy,
        seed: int,
        clock: Callable[[], float] | None,
        forecaster: Forecaster | str | None,
        guardrails: Sequence[Guardrail],
    ) -> None:
        inputs.check_clock(clock)
        self.traits, self.seed = made_of.traits, seed
        self._first_options = self._options = Options(made_of.problem, made_of.traits)
        self._ledger, self._clock = ledger, clock
        self.spec = made_of if isinstance(made_of, Spec) else None
        self._forecasts = make_forecasts(forecaster, self.spec)
        make = made_of.make if isinstance(made_of, Spec) else made_of
        self._replayer = PolicyReplayer(make)  # its policy computes the steps
        self._recorded = PolicyReplayer(make)  # its policy is told nothing that is not on record
        self._guardrails = guardrails
        self._guards: GuardrailReplayer | None = None
        self._draws = Draws(seed)
        self._served: int | None = None  # the target that `ask` serves, once it is known to be over
        self._set_up_locks()
        _experiments.add(self)

    def _set_up_locks(self) -> None:
        self._lock = RLock()  # held by whoever uses the policy
        self._stepping = False  # whether a thread takes steps
        self._steps_left = False  # whether to look for steps once more
        self._stepped = Condition()  # notified after every step
        self._asks = GroupCommit(self._commit_asks)
        self._tells = GroupCommit(self.commit_tells)

    @property
    def _guardrail_names(self) -> list[str]:
        return [each.name for each in self._guardrails]

    def _guarding(self) -> GuardrailReplayer | None:
        """What computes the evidence of the guardrails, if there are any; for who has the lock."""
        if self._guardrails and self._guards is None:
            known = self._first_options.problem.arms, self.traits
            self._guards = GuardrailReplayer(self._guardrails, *known)
        return self._guards

    @contextmanager
    def read(self, precondition: Precondition | None = None) -> Iterator[Snapshot]:
        """A transaction that reads one state of the ledger, for programs that watch it."""
        with self._ledger.snapshot() as snapshot:
            if precondition is not None:
                precondition(snapshot)
            yield snapshot

    @property
    def problem(self) -> Problem:
        """The options with their features, as they are now: those that were added come last, and
        those that were retired are still there."""
        if not self.traits.changes:
            return self._first_options.problem
        with self.read() as snapshot:
            return self.options_at(snapshot).problem

    def options_at(self, snapshot: Snapshot) -> Options:
        """The options in one state of the ledger, whichever process changed them."""
        options = self._options
        if options.changes_hash != snapshot.head.changes_hash:
            self._options = options = self._first_options.after_all(snapshot.changes())
        return options

    def _now(self, snapshot: Snapshot) -> float:
        now = snapshot.now() if self._clock is None else self._clock()
        return inputs.read_time(now, stored=self.spec is not None)

    def _commit_asks(self, calls: Sequence[Ask]) -> Sequence[Batch | Exception]:
        """Make the assignments of several calls in one transaction, unless a step is pending."""
        with self._ledger.transaction() as tx:
            # After the end nothing is recorded, not even the time.
            now = tx.head.last_time if tx.head.over else self._stamp(tx)
            options, draws, forecasts = self.options_at(tx), self._draws, self._forecasts
            return _answers(
                tx,
                calls,
                lambda call: ask.assign(
                    tx, call, options=options, draws=draws, forecasts=forecasts, now=now
                ),
            )

    def commit_tells(self, calls: Sequence[Tell]) -> Sequence[Answer | Exception]:
        """Record the outcomes of several calls in one transaction, for programs that gather them.

        No step is taken: `advance` is called for the answer with a step pending.
        """
        with self._ledger.transaction() as tx:
            bounds, rails, now = self.traits.bounds, self._guardrails, self._stamp(tx)
            receipts = _answers(
                tx,
                calls,
                lambda call: tell.record(tx, call, bounds=bounds, guardrails=rails, now=now),
            )
            pending = close.pending_step(tx.head)
            entered = tx.head.window is None  # a report within its window is not learned
        answers: list[Answer | Exception] = []
        for call, receipt in zip(calls, receipts, strict=True):
            answer = receipt if isinstance(receipt, Exception) else Answer(receipt, pending)
            if isinstance(answer, Answer):
                try:
                    if self._forecasts is not None and entered and not answer.receipt.late:
                        self._forecasts.learn(call.ids, call.rewards)
                    pending = None
                except Exception as error:  # of a user's forecaster: the outcomes are on record
                    answer = error
            answers.append(answer)
        return answers

    def _stamp(self, tx: Transaction, *, leaps: bool = False) -> float:
        """The time of a transaction, noted in it; years may have passed since the last (`leaps`)
        only where somebody decides whether the experiment continues."""
        return state.stamp(tx.head, self._now(tx), leaps=leaps or self.spec is None)

    @contextmanager
    def _changing(
        self, precondition: Precondition | None = None, *, leaps: bool = False
    ) -> Iterator[tuple[Transaction, float]]:
        """A transaction and its time; afterwards the experiment advances."""
        with self._ledger.transaction() as tx:
            if precondition is not None:
                precondition(tx)
            yield tx, self._stamp(tx, leaps=leaps)
        self.advance()

    def advance(self) -> bool:
        """Take all steps that are pending: close phases, and plan the next.

        Where another thread is at it they are left to that one, which looks once more; then the
        answer is False.
        """
        self._steps_left, tried = True, False
        while self._steps_left and not self._stepping:
            tried = True
            with self._lock:
                try:
                    self._stepping, self._steps_left = True, False
                    while self._take_step():
                        with self._stepped:
                            self._stepped.notify_all()
                except BaseException:
                    self._replayer.forget()
                    self._guards = None
                    raise
                finally:
                    self._stepping = False
        return tried

    def _take_step(self) -> bool:
        """Take the pending step, unless another process takes it first; False if there is none.

        What the policy computes may take long, so others can write meanwhile. A policy in memory,
        which cannot be made again, is told nothing that is not recorded in the same transaction.
        """
        if self.spec is None:
            with self._ledger.transaction() as tx:
                if not tx.head.has_pending_step:
                    return False
                now = self._stamp(tx)  # first: a clock may raise
                options = self.options_at(tx)
                step = close.prepare(tx, self._replayer, self._guarding(), options.retired)
                close.apply(tx, step, options, now)
            return True
        with self.read() as snapshot:
            if not snapshot.head.has_pending_step:
                return False
            gone = self.options_at(snapshot).retired
            step = close.prepare(snapshot, self._replayer, self._guarding(), gone)
        with self._ledger.transaction() as tx:
            fits = step.fits(tx.head)
            if fits:
                close.apply(tx, step, self.options_at(tx), self._stamp(tx))
            changed = tx.head.changes > step.changes
        # The policy was told what is not on record, or it has a plan made before a change.
        if not fits and (step.plan is None or changed):
            with self.read() as snapshot:
                self._recorded.policy(snapshot)
            self._replayer = self._recorded.copy()
        return True


_experiments: WeakSet[ExperimentCore] = WeakSet()


def _after_fork_in_child() -> None:
    """Wait for no thread of the parent: in a forked process there is only one."""
    for experiment in _experiments:
        experiment._set_up_locks()
        for replayer in (experiment._replayer, experiment._recorded):
            replayer.forget()  # another thread may have been using the policy
        experiment._guards = None
        if experiment._forecasts is not None:
            experiment._forecasts.begin_in_fork()


if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(after_in_child=_after_fork_in_child)
