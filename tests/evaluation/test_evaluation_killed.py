"""Evaluations that are killed at any moment: what was told stays, and is not judged again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from databases import wait_until
from judges import ITEMS, OPTIONS, Call, CallLog, score, told_calls
from workers_killed import die_at
from workers_started import HANG_TIMEOUT, processes

from bestarm import Experiment, evaluate
from bestarm.errors import InvalidInputError
from bestarm.evaluation import evaluate_async
from bestarm.live.store import Store

CONCURRENCY = 4
NAME = "killed"


def exit_code(target: Callable[..., None], *arguments: object) -> int | None:
    """Run a function in a process of its own."""
    process = processes.Process(target=target, args=arguments)
    process.start()
    process.join(HANG_TIMEOUT)
    return process.exitcode


def judge_until_killed(url: str, path: Path, statement: int | None, call: int | None) -> None:
    """Evaluate, and be killed before a statement to the database, or within a call."""
    log, calls = CallLog(path), count(1)

    def judge(option: str, item: str) -> float:
        log.add(option, item)
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return score(option, item)

    if statement is not None:
        die_at(statement)
    evaluate(judge, OPTIONS, ITEMS, name=NAME, store=url, concurrency=CONCURRENCY, seed=3)


# Before a statement to the database, or within a call of the judge; the last one comes through.
MOMENTS = [(13, None), (34, None), (None, 1), (55, None), (None, 6), (144, None), (None, None)]


def test_what_was_told_is_never_lost_nor_judged_again(sqlite_url: str, tmp_path: Path) -> None:
    store = Store(sqlite_url)
    store.prepare()  # who makes the tables is killed in `tests/live/store/test_schema.py`
    store.close()
    log = CallLog(tmp_path / "calls")
    told: dict[int, Call] = {}
    for moment in MOMENTS:
        before = len(log.read())
        code = exit_code(judge_until_killed, sqlite_url, log.path, *moment)
        assert code == (0 if moment == (None, None) else -signal.SIGKILL)
        calls = log.read()[before:]
        assert not set(calls) & set(told.values())
        known, told = told, told_calls(sqlite_url, NAME)
        assert known.items() <= told.items()
        assert len(set(told.values())) == len(told)
        # Only calls in flight may have to be made again.
        assert len(calls) - (len(told) - len(known)) <= CONCURRENCY
    assert len(log.read()) > len(told)  # some calls were in flight
    with Experiment.open(sqlite_url, NAME) as experiment:
        assert experiment.recommendation().final
        # What was asked for and not judged came first: only some of the last item is left.
        rows = experiment.assignments()
        left = rows.loc[rows["state"] == "outstanding", "round"]
        assert set(left) <= {rows["round"].max()}
        assert experiment.verify().sound
    assert not list(tmp_path.glob(".*.lock"))


def judge_under_a_cap(url: str, path: Path, cap: int, call: int | None) -> None:
    """Evaluate with a cap on calls, and be killed within one of them, with others in flight."""
    log, calls = CallLog(path), count(1)

    async def judge(option: str, item: str) -> float:
        log.add(option, item)
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0)
        return score(option, item)

    capped = {"concurrency": CONCURRENCY, "max_cost": cap, "seed": 3}
    evaluate(judge, OPTIONS, ITEMS, name=NAME, store=url, **capped)  # type: ignore[arg-type]


def test_kills_do_not_exceed_the_cap(store_url: str, tmp_path: Path) -> None:
    """Each kill is within another call: some repeat calls that were lost before."""
    cap, log = 20, CallLog(tmp_path / "calls")
    for call in (1, 2, 3, 1, 5, 2, None, None):
        code = exit_code(judge_under_a_cap, store_url, log.path, cap, call)
        assert code in {0, -signal.SIGKILL}
        assert len(log.read()) <= cap
    made, told = len(log.read()), len(told_calls(store_url, NAME))
    assert told < made  # some were lost,
    assert cap - made < 6 * CONCURRENCY  # and no more count than may have been in flight
    # A larger cap continues from there.
    found = evaluate(score, OPTIONS, ITEMS, name=NAME, store=store_url, max_cost=10**4)
    assert found.recommendation.label == "good"
    assert found.lost >= made - told
    assert found.cost == found.judgements + found.lost
    with Experiment.open(store_url, NAME) as experiment:
        assert experiment.verify().sound


def test_calls_that_are_left_count_towards_the_cap(sqlite_url: str) -> None:
    """As those of a second Ctrl-C."""

    async def leave() -> None:
        started = asyncio.Event()

        async def judge(option: str, item: str) -> float:
            started.set()
            await asyncio.sleep(HANG_TIMEOUT)
            return score(option, item)

        usual = {"name": NAME, "store": sqlite_url, "concurrency": 3, "seed": 3}
        task = asyncio.create_task(evaluate_async(judge, OPTIONS, ITEMS, **usual))  # type: ignore[arg-type]
        await started.wait()
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # What it left behind ends a moment later.
        await asyncio.gather(
            *asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True
        )

    asyncio.run(leave())
    found = evaluate(score, OPTIONS, ITEMS, name=NAME, store=sqlite_url, max_cost=5, seed=3)
    assert (found.lost, found.judgements, found.cost, found.capped) == (3, 2, 5, True)


def judge_until_allowed(url: str, log: Path, go: Path) -> None:
    """Evaluate with a judge that waits for a file."""

    def judge(option: str, item: str) -> float:
        CallLog(log).add(option, item)
        wait_until(go.exists)
        return score(option, item)

    evaluate(judge, OPTIONS, ITEMS, name=NAME, store=url)


def test_of_two_processes_the_second_is_refused_until_the_first_is_dead(
    store_url: str, tmp_path: Path
) -> None:
    log = CallLog(tmp_path / "calls")
    arguments = (store_url, log.path, tmp_path / "go")
    process = processes.Process(target=judge_until_allowed, args=arguments)
    process.start()
    try:
        wait_until(lambda: len(log.read()) == 8)
        with pytest.raises(InvalidInputError, match="Another process runs") as refused:
            evaluate(score, OPTIONS, ITEMS, name=NAME, store=store_url)
        assert refused.value.field == "name"
        other = evaluate(score, OPTIONS, ITEMS[:3], name="another", store=store_url)
        assert other.judgements == 9
    finally:
        process.kill()
        process.join(HANG_TIMEOUT)
    found = evaluate(score, OPTIONS, ITEMS, name=NAME, store=store_url)
    assert found.recommendation.label == "good"
    assert len(told_calls(store_url, NAME)) == found.judgements
