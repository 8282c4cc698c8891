"""Evaluate: judge options on items until it is clear which option is best.

Pairs are asked for as calls become free, and their scores are told as soon as they come. A judge is
called in threads if it is a plain function, in the event loop if it is async.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import os
import random
import reprlib
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from fractions import Fraction
from functools import partial, wraps
from numbers import Real
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import CodeType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from bestarm.checks import interval
from bestarm.defaults import DELTA, STORE
from bestarm.errors import InvalidInputError, JudgeError, describe_error
from bestarm.evaluation.inputs import Description, Limits, Question
from bestarm.evaluation.log import JudgementLog, Pair, open_log
from bestarm.evaluation.result import JUDGE_CHANGED, Evaluation
from bestarm.simulation.progress import Progress, reporting

if TYPE_CHECKING:
    from bestarm.live.store import Store

#: Scores an option on an item: `judge(option, item)`, or says which of two options is better on
#: it: `prefer(first, second, item)`; a plain or an async function.
Judge = Callable[..., Any]

P = ParamSpec("P")
T = TypeVar("T")
_Result = tuple[Any, BaseException | None]

_MAX_BACKOFF = 60.0  # seconds
_SLOW = 60.0  # seconds after which a call that has not ended is mentioned
_MOST_WARNINGS = 5  # that are printed: a model may refuse hundreds of times
_AGAIN = "start the same evaluation again (without `fresh`)"
_RESUMABLE = f"Everything judged so far is kept: to continue, {_AGAIN}."
_FAILED = (
    f"Correct the judge, or give `on_failure` (`--on-failure`), the score of pairs that cannot be "
    f"judged, and {_AGAIN}: everything judged so far is kept."
)
_COMPARISON_FAILED = (
    f"Correct the judge, or give `on_failure=0` (`--on-failure 0`), so that neither option is "
    f"preferred where it fails, and {_AGAIN}: everything judged so far is kept."
)
_log = logging.getLogger("bestarm.evaluation")


async def evaluate_async(
    judge: Judge | None,
    options: Sequence[Description],
    items: Sequence[Description],
    *,
    name: str,
    store: str | Store = STORE,
    delta: float = DELTA,
    bounds: tuple[float, float] = (0, 1),
    tolerance: float = 0.0,
    control: str | None = None,
    gate: bool = False,
    compare: Judge | None = None,
    concurrency: int = 8,
    retries: int = 3,
    price: float | Mapping[str, float] = 1.0,
    max_cost: float | None = None,
    on_failure: float | None = None,
    seed: int | None = None,
    fresh: bool = False,
    progress: Progress = False,
) -> Evaluation:
    """Judge options on items, drawn in random order, until it is clear which option is best.

    It is a stored experiment: every score is kept as soon as it comes. The same call again, after
    whatever ended it, continues where it was; no pair that was told is judged again. The page of
    `bestarm serve` shows it.

    In an event loop, as in a notebook, use `await evaluate_async(…)`; elsewhere `evaluate(…)`, with
    the same arguments. If it is cancelled or interrupted, it waits for the calls in flight, as they
    are paid for, and tells their scores; cancelled again, it leaves them.

    Args:
        judge: scores an option on an item: `judge(option, item)`, as they were given. A plain
            function is called in threads, an async one in the event loop. It returns a score, or a
            pair of a score and an answer, which the report then shows.
        options: what is compared, at least two: texts, or mappings with a `"name"`.
        items: what options are judged on: texts, or mappings. The answer is about their mean
            score over these items.
        name: the name of the experiment in the store.
        store: the database: `sqlite:///store.db` for a file, `postgresql://user@host/name`; or a
            `Store`.
        delta: the allowed probability of naming a wrong option.
        bounds: the lowest and the highest score.
        tolerance: how much worse than the best the named option may be, in units of the score: the
            evaluation then ends earlier, with an option that is good enough.
        control: the name of the option in use now. The result has every option's lead over it,
            with an interval; a tenth of `delta` is spent on these.
        gate: whether to ask instead if each option is not worse than the control by more than the
            tolerance: see `verdicts` and `exit_code` of the result. A gate goes on with an earlier
            run only if that was interrupted, and with nothing else.
        compare: in the place of `judge`, which is then None: `prefer(first, second, item)` returns
            the name of the option that is better on an item, or None for neither. Which of the two
            is shown first is drawn at random. The answer is the option that beats all others, or
            that none does: see `outcome` and `wins` of the result.
        concurrency: calls of the judge at a time.
        retries: further calls on a pair after one that raised an exception, with pauses that grow
            from a second to a minute.
        price: what a call costs, in any unit: one number, or one for each option by its name.
        max_cost: no call is made that would exceed this: all judgements of the evaluation count,
            the calls of this run that fail, and those that were in flight when an earlier run was
            killed. It then stops, not decided, and can be continued with a larger one.
        on_failure: the score of a pair that cannot be judged: where all calls failed, or what the
            judge returned is not a score. If left out, such a pair ends the run with an exception.
        seed: fixes the order of the items; random if left out.
        fresh: whether to judge everything anew. What was judged under this name stays on record;
            the new scores are in an experiment of their own, `name-2` say, which the same call
            without `fresh` then continues.
        progress: True for a bar on stderr, or a function that is called with the judgements made
            and the most there can be.

    Raises:
        InvalidInputError: an argument is invalid; the experiment of this name is about other
            options, items or settings; or another process runs it now.
        JudgeError: the judge failed on a pair, or returned something that is not a score, and
            there is no `on_failure`. All other judgements are kept.

    Example:
        >>> from bestarm import evaluate
        >>> questions = [{"text": f"{n} + {n}", "answer": str(2 * n)} for n in range(500)]
        >>> def judge(prompt, question):  # instead of a language model
        ...     answer = question["answer"] if prompt == "Think first." else "4"
        ...     return float(answer == question["answer"])
        >>> prompts = ["Think first.", "Be quick."]
        >>> found = evaluate(judge, prompts, questions, name="sums")  # doctest: +SKIP
        >>> found.recommendation.label, found.judgements < 100  # doctest: +SKIP
        ('Think first.', True)
    """
    if compare is not None and judge is not None:
        raise InvalidInputError(
            "`judge` and `compare` were both given.",
            field="compare",
            value=compare,
            remedy="To compare options with each other, give None in the place of `judge`.",
        )
    field, called, example = "judge", "an option", "def judge(option, item): return 1"
    if compare is not None:
        judge, field, called = compare, "compare", "two options"
        example = "def prefer(first, second, item): return None"
    if not callable(judge):
        raise InvalidInputError(
            f"`{field}` must be a function of {called} and an item; got {judge!r}.",
            field=field,
            value=judge,
            remedy=f"For example `{example}`.",
        )
    low, high = interval(bounds, "bounds")
    question = Question(
        options, items, delta, (low, high), tolerance, control, gate, compare is not None
    )
    _check_signature(judge, question)
    limits = Limits(question, concurrency, retries, price, max_cost, on_failure)
    opening = open_log(
        store,
        name,
        question,
        seed=seed,
        judge=_file_fingerprint(judge),
        fresh=fresh,
    )
    stopping = asyncio.Event()
    task = asyncio.create_task(_work(judge, question, limits, opening, stopping, progress))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stopping.set()
        _log.warning("waiting for the calls in flight; interrupt again to leave them.")
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
        else:
            task.exception()  # which is of no interest any more
        raise


def _blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same function for callers that are not in an event loop."""

    @wraps(function)
    def evaluate(*args: P.args, **kwargs: P.kwargs) -> T:
        with suppress(RuntimeError):  # there is no loop, as it should be
            asyncio.get_running_loop()
            raise InvalidInputError(
                "`evaluate` was called from within an event loop, which it would block.",
                field="evaluate",
                remedy="Use `await evaluate_async(…)` with the same arguments.",
            )
        try:
            return asyncio.run(function(*args, **kwargs))
        except KeyboardInterrupt as error:
            error.add_note(_RESUMABLE)
            raise

    evaluate.__name__ = evaluate.__qualname__ = "evaluate"
    return evaluate


evaluate = _blocking(evaluate_async)


async def _work(
    judge: Judge,
    question: Question,
    limits: Limits,
    opening: AbstractContextManager[JudgementLog],
    stopping: asyncio.Event,
    progress: Progress,
) -> Evaluation:
    """A whole run, with its log in a thread of its own."""
    began, loop = time.monotonic(), asyncio.get_running_loop()
    with (
        ThreadPoolExecutor(1, "evaluation") as thread,
        reporting(progress, question.pairs, "judging") as report,
    ):
        in_thread = partial(loop.run_in_executor, thread)
        log = await in_thread(opening.__enter__)
        if log.judge_changed:
            _log.warning("%s. They are kept.", JUDGE_CHANGED)
        try:
            run = Run(log, limits, thread=thread, stopping=stopping, report=report)
            await run.work(judge)
            seconds = time.monotonic() - began
            result = partial(
                log.result,
                limits,
                failures=run.failures,
                failed_cost=run.failed_cost,
                answers=run.answers,
                capped=run.capped,
            )
            return await in_thread(partial(result, seconds=seconds))
        finally:
            await in_thread(opening.__exit__, None, None, None)


def _check_signature(judge: Judge, question: Question) -> None:
    """Raise if a call of the judge would fail, whatever it does."""
    try:
        signature = inspect.signature(judge)
    except (TypeError, ValueError):  # of some functions written in C it is not known
        return
    field, called, what = "judge", "option, item", "an option and an item, as two"
    if question.compare:
        field, called, what = "compare", "first, second, item", "two options and an item, as three"
    try:
        signature.bind(*question.options[: 1 + question.compare], question.items[0])
    except TypeError as error:
        name = getattr(judge, "__name__", type(judge).__name__)
        raise InvalidInputError(
            f"`{field}` must accept {what} positional arguments; got {name}{signature} ({error}).",
            field=field,
            value=judge,
            remedy=f"Define it as {name}({called}).",
        ) from None


def _code_of(judge: Any) -> CodeType | None:
    while isinstance(judge, partial):
        judge = judge.func
    plain = judge if inspect.isroutine(judge) else judge.__call__
    return getattr(inspect.unwrap(plain), "__code__", None)


def _file_fingerprint(judge: Judge) -> int | None:
    """A number that differs if the file that defines a judge does; None without a file.

    It is a hint: what the judge imports may have changed as well.
    """
    code = _code_of(judge)
    try:
        content = Path("" if code is None else code.co_filename).read_bytes()
    except OSError:
        return None
    return int.from_bytes(hashlib.sha256(content).digest()[:6], "big")  # exact in JSON


def backoff(retry: int) -> float:
    """Seconds to wait before a retry: about 1, 2, 4, …, a minute at most.

    They differ at random, so that calls that failed at once are not made again at once.
    """
    return random.uniform(0.5, 1) * min(2.0 ** (retry - 1), _MAX_BACKOFF)


class Run:
    """One run of an evaluation.

    Args:
        log: says what is to be judged, and keeps scores.
        limits: what it must not exceed.
        thread: the one thread that uses the log, as others would wait for its disk.
        stopping: set where no more calls are to be started; those in flight are waited for.
        report: called with the judgements made and the most there can be, whenever they change.

    Attributes:
        failures: calls that failed.
        failed_cost: what they cost.
        answers: what the judge returned besides scores, by option and item.
        capped: whether a call was not made because it would have exceeded the cost.
    """

    def __init__(
        self,
        log: JudgementLog,
        limits: Limits,
        *,
        thread: Executor,
        stopping: asyncio.Event,
        report: Callable[[int, int], object],
    ) -> None:
        self._log, self._question, self._limits = log, log.question, limits
        self._thread, self._stopping, self._report = thread, stopping, report
        self._queue = deque(log.pending)
        self._calls: dict[asyncio.Task[float | None], Pair] = {}
        self._prices, self._left = limits.prices, limits.budget
        if self._left is not None:
            judged = zip(self._prices, log.judged_before, strict=True)
            self._left -= sum((price * made for price, made in judged), Fraction(0))
            self._left -= log.lost * max(self._prices)
        self._error: JudgeError | None = None
        self._judging = False  # whether a call was made
        self._warnings = 0
        self.failures, self.failed_cost, self.capped = 0, Fraction(0), False
        self.answers: dict[tuple[int, int], Any] = {}

    async def work(self, judge: Judge) -> None:
        """Judge until it is clear, or a limit is reached, or it is stopped.

        Raises:
            JudgeError: the judge failed too often on a pair, or gave something that is not a score.
        """
        remaining = max(self._log.max_judgements - self._log.judged, 1)
        caller = JudgeCaller(judge, min(self._limits.concurrency, remaining))
        self._report(self._log.judged, self._log.max_judgements)
        try:
            while await self._start_calls(caller):
                await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
                # Scores that come while others are told may decide it too.
                while done := [call for call in self._calls if call.done()]:
                    await self._record(done)
        finally:
            caller.close()
            for call in self._calls:
                call.cancel()
            if self._judging:
                await self._in_thread(self._log.note_end, len(self._calls))
        if self._error is not None and not self._log.finished:
            raise self._error

    async def _start_calls(self, caller: JudgeCaller) -> bool:
        """Start as many calls as are free; whether there are any then."""
        while len(self._calls) < self._limits.concurrency and not self._over():
            if not self._queue:
                if not self._affords(min(self._prices)):
                    break
                self._queue.extend(await self._in_thread(self._log.ask))
            if not self._queue or not self._pay(self._queue[0]):
                break
            if not self._judging:
                await self._in_thread(self._log.note_start, self._limits.concurrency)
                self._judging = True
            pair = self._queue.popleft()
            self._calls[asyncio.create_task(self._judge(caller, pair))] = pair
        return bool(self._calls)

    def _over(self) -> bool:
        return self._stopping.is_set() or self._log.finished

    def _affords(self, price: Fraction) -> bool:
        """Whether one more call of this price is within the cost."""
        self.capped = self._left is not None and self._left < price
        return not self.capped

    def _pay(self, pair: Pair) -> bool:
        """Pay for a call, if that is within the cost; whether it is."""
        price = self._prices[pair.option]
        if not self._affords(price):
            return False
        if self._left is not None:
            self._left -= price
        return True

    async def _judge(self, caller: JudgeCaller, pair: Pair) -> float | None:
        """The score of a pair, or None if it is left for another run."""
        shown = [pair.option] if pair.second is None else [pair.option, pair.second]
        options, item = [self._question.options[each] for each in shown], pair.item
        for attempt in range(self._limits.retries + 1):
            if attempt and (await self._pause(attempt) or not self._pay(pair)):
                return None
            slow = asyncio.get_running_loop().call_later(_SLOW, self._warn_of_slow, pair)
            try:
                value = await caller(*options, self._question.items[item])
            except (Exception, SystemExit) as error:
                self.failures += 1
                self.failed_cost += self._prices[pair.option]
                cause: BaseException = error
            else:
                return self._read_score(value, pair)
            finally:
                slow.cancel()
        why = caller.describe(cause)
        times = "once" if not self._limits.retries else f"{self._limits.retries + 1} times"
        raise self._judge_error(pair, f"failed {times}, last with {why}.", why) from cause

    async def _pause(self, attempt: int) -> bool:
        """Wait before a retry; whether it was stopped meanwhile."""
        try:
            await asyncio.wait_for(self._stopping.wait(), backoff(attempt))
        except TimeoutError:
            return self._over()
        return True

    def _read_score(self, value: Any, pair: Pair) -> float:
        if pair.second is not None:
            return self._read_preference(value, pair, pair.second)
        low, high = self._question.bounds
        score: Any = value
        if isinstance(value, tuple) and len(value) == 2:
            score, self.answers[pair.option, pair.item] = value
        is_number = isinstance(score, (Real, np.bool_))
        if is_number and low <= score <= high:
            return float(score)
        what = f"returned {reprlib.repr(value)}, which is not a number from {low:g} to {high:g}."
        raise self._judge_error(pair, what, value)

    def _read_preference(self, value: Any, pair: Pair, second: int) -> float:
        """1 if the option shown first is preferred, −1 if the second, and 0 if neither."""
        if value is None:
            return 0.0
        labels = [self._question.labels[place] for place in (pair.option, second)]
        if isinstance(value, str) and value in labels:
            return 1.0 if value == labels[0] else -1.0
        what = f"returned {reprlib.repr(value)}, which is neither {labels[0]!r} nor {labels[1]!r}, "
        raise self._judge_error(pair, what + "nor None.", value)

    def _warn_of_slow(self, pair: Pair) -> None:
        self._warn(
            f"{self._where(pair)}, the judge has not answered for {_SLOW:g} s. Set a time limit in "
            "your client: its exception is retried. To leave the calls in flight, interrupt twice; "
            "the same evaluation then continues without them."
        )

    def _warn(self, sentences: str) -> None:
        self._warnings += 1
        if self._warnings <= _MOST_WARNINGS:
            _log.warning(sentences)
        if self._warnings == _MOST_WARNINGS:
            _log.warning("Further warnings are left out: the result has the number of such pairs.")

    def _where(self, pair: Pair) -> str:
        labels, item = self._question.labels, self._question.items[pair.item]
        options = f"the option {labels[pair.option]!r}"
        if pair.second is not None:
            options = f"the options {labels[pair.option]!r} and {labels[pair.second]!r}"
        return f"On {options} and item {self._question.ids[pair.item]!r} ({reprlib.repr(item)})"

    def _judge_error(self, pair: Pair, what: str, value: object) -> JudgeError:
        return JudgeError(
            f"{self._where(pair)}, the judge {what}",
            field="judge",
            value=value,
            remedy=_FAILED if pair.second is None else _COMPARISON_FAILED,
        )

    async def _record(self, done: Iterable[asyncio.Task[float | None]]) -> None:
        """Tell the scores of calls that ended."""
        scores: dict[int, float] = {}
        unjudged = 0
        for call in done:
            pair = self._calls.pop(call)
            try:
                score = call.result()
            except (JudgeError, asyncio.CancelledError) as cause:  # cancelled by the judge itself
                error = cause
                if not isinstance(error, JudgeError):
                    error = self._judge_error(pair, "was cancelled.", None)
                score = self._limits.on_failure
                if score is None:
                    self._error = self._error or error
                    self._stopping.set()
                else:
                    self._warn(f"{error.message} It counts as {score:g}.")
                    unjudged += 1
                    # Its last call is counted as that of its judgement.
                    if error.__cause__ is not None:
                        self.failures -= 1
                        self.failed_cost -= self._prices[pair.option]
            if score is not None:
                scores[pair.id] = score
        if scores:
            await self._in_thread(partial(self._log.tell, scores, unjudged=unjudged))
            self._report(self._log.judged, self._log.max_judgements)
            if self._log.finished:
                self._stopping.set()  # also for pauses between attempts

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)


class JudgeCaller:
    """Calls a judge from an event loop, without ever blocking it.

    Threads are daemons: a call that hangs does not keep the process from ending.

    Args:
        judge: the judge.
        concurrency: how many calls there are at most at a time.

    Raises:
        InvalidInputError: there cannot be as many threads.
    """

    def __init__(self, judge: Judge, concurrency: int) -> None:
        self._judge, self._loop = judge, asyncio.get_running_loop()
        self._calls = SimpleQueue[tuple[asyncio.Future[_Result], tuple[Any, ...]] | None]()
        function: Any = judge
        plain = function if inspect.isroutine(function) else function.__call__
        self._code = _code_of(judge)
        self._async = inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(plain)
        self._threads = 0 if self._async else concurrency
        for started in range(self._threads):
            try:
                Thread(target=self._serve, name="judge", daemon=True).start()
            except RuntimeError as error:  # the system gives no more
                self.close()
                raise InvalidInputError(
                    f"`concurrency` asks for {concurrency:,} threads, and the system gives no more "
                    f"than {started:,}.",
                    field="concurrency",
                    value=concurrency,
                    remedy="Make fewer calls at a time, or give an async judge, which needs no "
                    "threads.",
                ) from error

    async def __call__(self, *arguments: Any) -> Any:
        """What the judge returns, or raises."""
        if self._async:
            return await self._judge(*arguments)
        future: asyncio.Future[_Result] = self._loop.create_future()
        self._calls.put((future, arguments))
        value, error = await future
        if error is not None:
            raise error
        return await value if isinstance(value, Awaitable) else value  # as of a lambda

    def describe(self, error: BaseException) -> str:
        """An exception of the judge in words, with the line of the judge that it passed last."""
        what = describe_error(error)
        file = "" if self._code is None else self._code.co_filename
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        return f"{what} ({os.path.basename(file)}, line {lines[-1]})" if lines else what

    def close(self) -> None:
        """Let threads end as soon as their calls have."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            future, arguments = call
            try:
                result: _Result = self._judge(*arguments), None
            except BaseException as error:  # raised again where it is awaited
                result = None, error
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(_set_result, future, result)


def _set_result(future: asyncio.Future[_Result], result: _Result) -> None:
    if not future.done():  # nor cancelled
        future.set_result(result)
