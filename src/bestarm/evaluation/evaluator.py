"""Evaluate: judge options on items until it is clear which option is best."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from bestarm.defaults import DELTA, STORE
from bestarm.errors import InvalidInputError
from bestarm.evaluation.book import Book, open_book
from bestarm.evaluation.calling import Judge
from bestarm.evaluation.inputs import Described, Question
from bestarm.evaluation.limits import Limits
from bestarm.evaluation.results import Evaluation
from bestarm.evaluation.run import KEPT, Run
from bestarm.simulation.progress import Progress, reporting

if TYPE_CHECKING:
    from bestarm.live.store.sql import Store

_log = logging.getLogger("bestarm.evaluation")


def evaluate(
    judge: Judge,
    options: Sequence[Described],
    items: Sequence[Described],
    *,
    name: str,
    store: str | Store = STORE,
    delta: float = DELTA,
    bounds: tuple[float, float] = (0, 1),
    concurrency: int = 8,
    retries: int = 3,
    price: float = 1.0,
    max_cost: float | None = None,
    seed: int | None = None,
    progress: Progress = False,
) -> Evaluation:
    """Judge options on items, drawn in random order, until it is clear which option is best.

    It is a stored experiment: every score is kept as soon as it comes. The same call again, after
    whatever ended it, continues where it was; no pair that was told is judged again. The page of
    `bestarm serve` shows it.

    Args:
        judge: scores an option on an item: `judge(option, item)`, as they were given. A plain
            function is called in threads, an async one in the event loop.
        options: what is compared, at least two: texts, or mappings with a `"name"`.
        items: what options are judged on: texts, or mappings. The answer is about their mean
            score over these items.
        name: the name of the experiment in the store.
        store: the database: `sqlite:///store.db` for a file, `postgresql://user@host/name`; or a
            `Store`.
        delta: the allowed probability of naming a wrong option.
        bounds: the lowest and the highest score.
        concurrency: calls of the judge at a time.
        retries: further calls on a pair after one that raised an exception, with pauses that grow
            from a second to a minute.
        price: what a call costs, in any unit.
        max_cost: no call is made that would exceed this: all judgements of the evaluation count,
            the calls of this run that fail, and those that were in flight when an earlier run was
            killed. It then stops, not decided, and can be continued with a larger one.
        seed: fixes the order of the items; random if left out.
        progress: True for a bar on stderr, or a function that is called with the judgements made
            and the most there can be.

    Raises:
        InvalidInputError: an argument is invalid; the experiment of this name is about other
            options, items or settings; or another process runs it now.
        JudgeError: the judge failed on a pair, or returned something that is not a score. All
            other judgements are kept.

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
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # as it should be
        pass
    else:
        raise InvalidInputError(
            "`evaluate` was called from within an event loop, which it would block.",
            field="evaluate",
            remedy="Use `await evaluate_async(…)` with the same arguments.",
        )
    try:
        return asyncio.run(
            evaluate_async(
                judge,
                options,
                items,
                name=name,
                store=store,
                delta=delta,
                bounds=bounds,
                concurrency=concurrency,
                retries=retries,
                price=price,
                max_cost=max_cost,
                seed=seed,
                progress=progress,
            )
        )
    except KeyboardInterrupt as error:
        error.add_note(KEPT)
        raise


async def evaluate_async(
    judge: Judge,
    options: Sequence[Described],
    items: Sequence[Described],
    *,
    name: str,
    store: str | Store = STORE,
    delta: float = DELTA,
    bounds: tuple[float, float] = (0, 1),
    concurrency: int = 8,
    retries: int = 3,
    price: float = 1.0,
    max_cost: float | None = None,
    seed: int | None = None,
    progress: Progress = False,
) -> Evaluation:
    """`evaluate` for callers in an event loop, as in a notebook: `await evaluate_async(…)`.

    Arguments, result and errors are those of `evaluate`. If it is cancelled, it waits for the calls
    in flight, as they are paid for, and tells their scores; cancelled again, it leaves them.
    """
    if not callable(judge):
        raise InvalidInputError(
            f"`judge` must be a function of an option and an item; got {judge!r}.",
            field="judge",
            value=judge,
            remedy="For example `def judge(option, item): return 1`.",
        )
    question = Question.of(options, items)
    limits = Limits(bounds, concurrency, retries, price, max_cost)
    opening = open_book(store, name, question, delta=delta, bounds=limits.bounds, seed=seed)
    stopping = asyncio.Event()
    task = asyncio.create_task(_work(judge, question, limits, opening, stopping, progress))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stopping.set()
        _log.warning("bestarm: waiting for the calls in flight; interrupt again to leave them.")
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
        else:
            task.exception()  # which is of no interest any more
        raise


async def _work(
    judge: Judge,
    question: Question,
    limits: Limits,
    opening: AbstractContextManager[Book],
    stopping: asyncio.Event,
    progress: Progress,
) -> Evaluation:
    """A whole run, with its book in a thread of its own."""
    began, loop = time.monotonic(), asyncio.get_running_loop()
    with (
        ThreadPoolExecutor(1, "evaluation") as thread,
        reporting(progress, question.most, "judging") as report,
    ):
        in_thread = partial(loop.run_in_executor, thread)
        book = await in_thread(opening.__enter__)
        try:
            run = Run(book, question, limits, thread=thread, stopping=stopping, report=report)
            await run.work(judge)
            seconds = time.monotonic() - began
            result = partial(book.result, limits, failures=run.failures, capped=run.capped)
            return await in_thread(partial(result, seconds=seconds))
        finally:
            await in_thread(opening.__exit__, None, None, None)
