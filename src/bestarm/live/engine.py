"""The engine of an experiment: one queue of writes, and the steps that they leave pending.

Who asks or tells puts a call into the queue. Those that come in while a transaction is at work
share the next one (group commit): a commit waits for the disk, so that eight threads record twice
as many outcomes per second like this. What one call is refused is raised to its caller alone.

A transaction may leave a step of the policy pending. One thread takes it, and whichever process
comes first; what the policy computes is computed between transactions, while others write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition, Lock, RLock
from typing import Any, Generic, NamedTuple, TypeVar

from bestarm.errors import BestArmError, StoreError, StoreUnavailableError
from bestarm.forecasting import Forecaster
from bestarm.live import ask, change, close, inputs, state, tell
from bestarm.live.ask import Ask, StepPendingError
from bestarm.live.draws import Draws
from bestarm.live.events import recommendation_data
from bestarm.live.forecasts import check_given, make_forecasts
from bestarm.live.guardrails import GuardrailReplayer
from bestarm.live.options import Options
from bestarm.live.replay import PolicyReplayer, recommend
from bestarm.live.spec import Spec
from bestarm.live.state import Precondition
from bestarm.live.store.head import Head
from bestarm.live.store.ledger import Ledger, Snapshot, Transaction
from bestarm.live.tell import Tell
from bestarm.live.values import Assignment, Batch, Receipt
from bestarm.policies.guardrail import Guardrail
from bestarm.policies.policy import Policy

Call = TypeVar("Call")

_STEP_WAIT = 0.05  # seconds until an `ask` that waits for another thread's step looks again


# --- the queue ----------------------------------------------------------------------------------


class WriteQueue(ABC, Generic[Call]):
    """Calls that wait to be carried out, those that come in during a transaction together.

    A call that finds nobody at work is carried out at once, by its own thread; of those that wait,
    the first carries out all. A call returns when it is on disk, or raises; where the thread at
    work is interrupted (Ctrl-C), the calls that it carries out raise as well.
    """

    def __init__(self) -> None:
        self._at_work = Lock()  # held by the thread at work
        self._queueing = Lock()  # held while the queue changes
        self._waiting: deque[tuple[Call, Future[Any]]] = deque()

    @abstractmethod
    def commit(self, calls: Sequence[Call]) -> Sequence[object]:
        """Carry out several calls in one transaction, and return an answer for each.

        An exception among the answers is raised to that caller alone. After one that is raised here
        nothing is kept. A `StoreError` is raised to all callers; after another, such as one of a
        caller's forecaster, each call is carried out alone.
        """

    def write(self, call: Call) -> Any:
        """Have a call carried out, and return its answer."""
        answer: Future[Any] = Future()
        with self._queueing:
            self._waiting.append((call, answer))
        try:
            with self._at_work:
                if not answer.done():
                    self._carry_out(self._take())
        except BaseException:
            answer.cancel()  # what was interrupted is not carried out later
            raise
        if not answer.done():  # another thread was interrupted as it took the calls
            raise _interrupted()
        return answer.result()

    def submit(self, call: Call) -> Future[Any]:
        """Have a call carried out by the next `carry_out`, whichever thread calls that.

        Where the future is cancelled before that takes the call, it is left out.
        """
        answer: Future[Any] = Future()
        with self._queueing:
            self._waiting.append((call, answer))
        return answer

    @property
    def has_waiting(self) -> bool:
        """Whether calls wait to be carried out."""
        return bool(self._waiting)

    def carry_out(self) -> None:
        """Carry out the calls that wait by now."""
        with self._at_work:
            group = self._take()
            if group:
                self._carry_out(group)

    def _take(self) -> list[tuple[Call, Future[Any]]]:
        """The calls that wait, without those whose callers have gone."""
        with self._queueing:
            group = [self._waiting.popleft() for _ in range(len(self._waiting))]
        return [entry for entry in group if entry[1].set_running_or_notify_cancel()]

    def _carry_out(self, group: Sequence[tuple[Call, Future[Any]]]) -> None:
        try:
            answers = self.commit([call for call, _ in group])
        except Exception as error:
            if len(group) == 1 or isinstance(error, StoreError):
                answers = [error] * len(group)
            else:  # nothing was kept: each alone, so that the error reaches only its own call
                for entry in group:
                    self._carry_out([entry])
                return
        except BaseException:
            for _, future in group:
                future.set_exception(_interrupted())
            raise
        for (_, future), answer in zip(group, answers, strict=True):
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)


def _interrupted() -> StoreUnavailableError:
    return StoreUnavailableError(
        "The thread that carried out this call together with its own was interrupted.",
        field="thread",
        remedy="Make the same call again: it may be on record or not.",
    )


# --- the engine ---------------------------------------------------------------------------------


class Answer(NamedTuple):
    """The answer to a `Tell`; where a step is pending, one caller of a group is to advance."""

    receipt: Receipt
    step_pending: bool


class Engine(WriteQueue[Ask | Tell]):
    """Carries out the calls of one experiment for threads and for servers.

    Args:
        ledger: where the experiment is kept.
        made_of: what its policy is made of; or a policy that cannot be made again.
        seed: the seed of the draws.
        clock: the clock, or None for that of the ledger.
        forecaster: what makes its forecasts.
        guardrails: its guardrails.

    Attributes:
        ledger: where the experiment is kept.
        spec: what its policy is made of; None where it cannot be made again.
        traits: what the policy declares about itself.
        seed: the seed of the draws.
        forecasts: what makes its forecasts, or None.
        guardrails: its guardrails.
        first_options: the options that it began with.
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
        super().__init__()
        inputs.check_clock(clock)
        self.ledger, self.seed, self._clock = ledger, seed, clock
        self.spec = made_of if isinstance(made_of, Spec) else None
        self.traits, self.guardrails = made_of.traits, tuple(guardrails)
        self.forecasts = make_forecasts(forecaster, self.spec)
        self.first_options = self._options = Options(made_of.problem, made_of.traits)
        self._replayer = PolicyReplayer(made_of)  # its policy computes the steps
        self._recorded = PolicyReplayer(made_of)  # its policy is told nothing that is not on record
        self._guards: GuardrailReplayer | None = None
        # For each guardrail, an assignment before which all have a value.
        self._complete = [0] * len(self.guardrails)
        self._draws = Draws(seed)
        self._served: int | None = None  # the target that `ask` serves, once it is known to be over
        self._lock = RLock()  # held by whoever uses the policy
        self._stepping = False  # whether a thread takes steps
        self._steps_left = False  # whether to look for steps once more
        self._stepped = Condition()  # notified after every step

    # --- reading ---

    @contextmanager
    def read(self, precondition: Precondition | None = None) -> Iterator[Snapshot]:
        """A transaction that reads one state of the ledger."""
        with self.ledger.snapshot() as snapshot:
            if precondition is not None:
                precondition(snapshot)
            yield snapshot

    @contextmanager
    def reading_policy(self) -> Iterator[tuple[Policy, Snapshot]]:
        """The policy and one state of the ledger, while nobody else uses the policy."""
        self.ledger.store.check_process()
        with self._lock, self.read() as snapshot:
            yield self._replayer.policy(snapshot), snapshot

    @contextmanager
    def reading_guardrails(self) -> Iterator[tuple[GuardrailReplayer | None, Snapshot]]:
        """The evidence of the guardrails, if there are any, while nobody else uses it."""
        self.ledger.store.check_process()
        with self._lock, self.read() as snapshot:
            yield self._guarding(), snapshot

    def options_at(self, snapshot: Snapshot) -> Options:
        """The options in one state of the ledger, whichever process changed them."""
        options = self._options
        if options.changes != snapshot.head.changes:
            self._options = options = self.first_options.after_all(snapshot.changes())
        return options

    def now(self, snapshot: Snapshot) -> float:
        """The time by the clock of the experiment, or else of the ledger."""
        now = snapshot.now() if self._clock is None else self._clock()
        return inputs.read_time(now, stored=self.spec is not None)

    # --- writing ---

    def commit(self, calls: Sequence[Ask | Tell]) -> Sequence[Batch | Answer | Exception]:
        """Carry out several calls in one transaction.

        No step is taken: an `ask` that a step comes before is answered with a `StepPendingError`.
        """
        answers: list[Batch | Answer | Exception] = []
        bounds, rails = self.traits.bounds, self.guardrails
        draws, forecasts = self._draws, self.forecasts
        with self.ledger.transaction() as tx:
            # After the end who asks leaves nothing on record, not even the time.
            quiet = tx.head.over and all(isinstance(call, Ask) for call in calls)
            now = tx.head.last_time if quiet else self.stamp(tx)
            for call in calls:
                try:
                    if call.precondition is not None:
                        call.precondition(tx)
                    if isinstance(call, Tell):
                        receipt = tell.record(tx, call, bounds=bounds, guardrails=rails, now=now)
                        answers.append(Answer(receipt, step_pending=False))
                    else:
                        options = self.options_at(tx)
                        batch = ask.assign(
                            tx, call, options=options, draws=draws, forecasts=forecasts, now=now
                        )
                        answers.append(batch)
                except StoreError:
                    raise  # nothing of the transaction is kept
                except (BestArmError, StepPendingError) as error:
                    answers.append(error)
            pending = tx.head.stage.is_pending
            entered = tx.head.window is None  # a report within its window is not learned
        for place, (call, answer) in enumerate(zip(calls, answers, strict=True)):
            if not isinstance(answer, Answer):
                continue
            try:
                if forecasts is not None and entered and not answer.receipt.late:
                    assert isinstance(call, Tell)
                    forecasts.learn(call.ids, call.rewards)
                answers[place], pending = answer._replace(step_pending=pending), False
            except Exception as error:  # of a user's forecaster: the outcomes are on record
                answers[place] = error
        return answers

    def stamp(self, tx: Transaction, *, leaps: bool = False) -> float:
        """The time of a transaction, noted in it; years may have passed since the last (`leaps`)
        only where somebody decides whether the experiment continues."""
        return state.stamp(tx.head, self.now(tx), leaps=leaps or self.spec is None)

    @contextmanager
    def changing(
        self, precondition: Precondition | None = None, *, leaps: bool = False
    ) -> Iterator[tuple[Transaction, float]]:
        """A transaction and its time; afterwards the experiment advances."""
        with self.ledger.transaction() as tx:
            if precondition is not None:
                precondition(tx)
            yield tx, self.stamp(tx, leaps=leaps)
        self.advance()

    def ask(self, call: Ask) -> Batch:
        """Make assignments: see `Experiment.ask`."""
        self.ledger.store.check_process()
        if call.keys is not None:  # first without waiting for those who write
            with self.read(call.precondition) as snapshot:
                labels = self.options_at(snapshot).problem.source_labels
                before = ask.repeat(snapshot, call, ask.find_rounds(snapshot, call), labels)
            if before is not None:
                return before
        if call.available:
            check_given(self.forecasts, call.forecasts)
            if self.forecasts is not None and not self.forecasts.is_ready:
                with self.read() as snapshot:
                    self.forecasts.begin(snapshot, self.options_at(snapshot).problem.source)
        while self._served is None:
            try:
                batch: Batch = self.write(call)
                if batch or not batch.finished:
                    return batch
                self._served = self._find_served()
            except StepPendingError:
                if not self.advance():
                    with self._stepped:
                        self._stepped.wait(_STEP_WAIT)
                call = call._replace(after_steps=False)
        return self._serve(self._served, call)

    def served(self) -> Assignment | None:
        """What `ask` serves once the experiment is over; None before."""
        if self._served is None:
            with self.read() as snapshot:
                over = snapshot.head.over
            self._served = self._find_served() if over else None
        return None if self._served is None else self._serve(self._served, Ask(1))[0]

    def _find_served(self) -> int:
        with self.read() as snapshot:
            end = state.last_recommendation(snapshot)
        if end is None:
            with self.reading_policy() as (policy, snapshot):
                end = recommendation_data(recommend(policy, snapshot.head.state))
        return ask.served_target(end, self.traits.control)

    def _serve(self, target: int, call: Ask) -> Batch:
        with self.read(call.precondition) as snapshot:
            return ask.serve(snapshot, call, self.options_at(snapshot).problem, target)

    def tell(self, call: Tell) -> Receipt:
        """Record outcomes, and take the steps that they leave pending: see `Experiment.tell`."""
        self.ledger.store.check_process()  # before any lock, which a thread of the parent may hold
        if call.is_of_served:
            with self.read(call.precondition) as snapshot:
                tell.check_served(snapshot.head)
            return Receipt(0, 0, 0, served=call.served)
        answer: Answer = self.write(call)
        if answer.step_pending:
            self.advance()
        return answer.receipt

    def stop(self, reason: str, precondition: Precondition | None) -> None:
        """End the experiment: see `Experiment.stop`."""
        # A policy of its own: another thread may be taking a step, and is not waited for. In memory
        # steps are transactions, which come one after the other.
        replayer = self._replayer if self.spec is None else PolicyReplayer(self.spec)
        with self.read() as snapshot:
            change.recommend_at_stop(replayer, snapshot)  # what takes long, while others write
        with self.changing(precondition, leaps=True) as (tx, now):
            final = change.recommend_at_stop(replayer, tx)
            change.set_state(tx, "stopped", now, reason=reason, recommendation=final)

    # --- steps ---

    def advance(self, *, to_plan: bool = False) -> bool:
        """Take all steps that are pending: close phases, and plan the next.

        Where another thread is at it they are left to that one, which looks once more.

        Args:
            to_plan: stop once there is a plan: what is pending then was left by others.

        Returns:
            False where steps are left: to another thread, or after a plan.
        """
        self._steps_left, tried = True, False
        while self._steps_left and not self._stepping:
            tried = True
            with self._lock:
                try:
                    self._stepping, self._steps_left = True, False
                    while (head := self._take_step()) is not None:
                        with self._stepped:
                            self._stepped.notify_all()
                        if to_plan and head.planned:
                            break
                except BaseException:
                    self._replayer.forget()
                    self._guards = None
                    raise
                finally:
                    self._stepping = False
            if to_plan and head is not None:
                return not (self._steps_left or head.stage.is_pending)
        return tried

    def _take_step(self) -> Head | None:
        """Take the pending step, unless another process takes it first.

        What the policy computes may take long, so others can write meanwhile. A policy in memory,
        which cannot be made again, is told nothing that is not recorded in the same transaction.

        Returns:
            The counters then; None if no step is pending.
        """
        if self.spec is None:
            with self.ledger.transaction() as tx:
                if not tx.head.stage.is_pending:
                    return None
                now = self.stamp(tx)  # first: a clock may raise
                complete = tell.end_guardrail_windows(tx, self.guardrails, self._complete, now)
                options = self.options_at(tx)
                step = close.prepare(tx, self._replayer, self._guarding(), options.retired)
                close.apply(tx, step, options, now)
            self._complete = complete
            return tx.head
        with self.read() as snapshot:
            if not snapshot.head.stage.is_pending:
                return None
        if any(each.window is not None for each in self.guardrails):
            with self.ledger.transaction() as tx:
                now = self.stamp(tx)
                complete = tell.end_guardrail_windows(tx, self.guardrails, self._complete, now)
            self._complete = complete
        with self.read() as snapshot:
            if not snapshot.head.stage.is_pending:
                return None
            gone = self.options_at(snapshot).retired
            step = close.prepare(snapshot, self._replayer, self._guarding(), gone)
        with self.ledger.transaction() as tx:
            fits = step.fits(tx.head)
            if fits:
                close.apply(tx, step, self.options_at(tx), self.stamp(tx))
            changed = tx.head.changes > step.changes
        # The policy was told what is not on record, or it has a plan made before a change.
        if not fits and (step.plan is None or changed):
            with self.read() as snapshot:
                self._recorded.policy(snapshot)
            self._replayer = self._recorded.copy()
        return tx.head

    def _guarding(self) -> GuardrailReplayer | None:
        """The evidence of the guardrails, if there are any. The caller holds `_lock`."""
        if self.guardrails and self._guards is None:
            options = self.first_options.problem.arms
            self._guards = GuardrailReplayer(self.guardrails, options, self.traits)
        return self._guards
