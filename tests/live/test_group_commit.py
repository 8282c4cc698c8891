"""Calls of threads that share a transaction: each is answered for itself, and none is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import pytest
from databases import wait_until
from recorded import told

from bestarm import AnytimeBAI, Problem
from bestarm.errors import (
    ConflictingOutcomeError,
    ConflictingRequestError,
    StoreUnavailableError,
)
from bestarm.forecasting import Forecaster
from bestarm.live import Experiment
from bestarm.live.engine import WriteQueue
from bestarm.numerics.geometry import Array

HANG_TIMEOUT = 60.0


def begin(url: str) -> Experiment:
    """An experiment that never ends by itself: one plan of very many pulls."""
    problem = Problem([[1, 0], [0, 1]], delta=0.01)
    return Experiment.create(
        url, "offer", problem, policy="sp-bai", policy_options={"r1": 1e6}, seed=0
    )


class Gate(WriteQueue[str]):
    """Commits that wait until they are let through, and the groups that were carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.let = Event(), Event()
        self.groups: list[list[str]] = []

    def commit(self, calls: Sequence[str]) -> Sequence[str | Exception]:
        self.groups.append(list(calls))
        self.begun.set()
        assert self.let.wait(HANG_TIMEOUT)
        if "interrupt" in calls:
            raise KeyboardInterrupt
        if "fail" in calls:
            raise ArithmeticError
        if "unavailable" in calls:
            raise StoreUnavailableError("The disk is full.", field="url")
        return [KeyError(each) if each == "wrong" else each.upper() for each in calls]

    def submit_together(self, pool: ThreadPoolExecutor, *names: str) -> list[Any]:
        """The first call, and then the others while it is at work."""
        first = pool.submit(self.write, names[0])
        assert self.begun.wait(HANG_TIMEOUT)
        others = [pool.submit(self.write, name) for name in names[1:]]
        wait_until(lambda: len(self._waiting) == len(others))
        self.let.set()
        return [first, *others]


@pytest.mark.parametrize(
    ("calls", "results", "alone"),
    [
        (["a", "b", "c", "d"], ["A", "B", "C", "D"], False),
        (["a", "wrong", "c"], ["A", KeyError, "C"], False),
        (["a", "fail", "c"], ["A", ArithmeticError, "C"], True),
        # Not tried again for each call: each might wait until the timeout.
        (["a", "unavailable", "c"], ["A", StoreUnavailableError, StoreUnavailableError], False),
    ],
)
def test_calls_that_come_in_meanwhile_are_carried_out_together(
    calls: list[str], results: list[object], alone: bool
) -> None:
    """What one is refused is raised to it alone, and where a commit fails each is tried alone."""
    gate = Gate()
    with ThreadPoolExecutor(4) as pool:
        futures = gate.submit_together(pool, *calls)
        errors = [each.exception() for each in futures]
    found = [type(e) if e else each.result() for e, each in zip(errors, futures, strict=True)]
    assert found == results
    first, together, *others = gate.groups
    assert (first, sorted(together)) == (calls[:1], sorted(calls[1:]))
    assert others == ([[each] for each in together] if alone else [])
    assert gate.write("next") == "NEXT"


def test_ctrl_c_fails_the_group_at_work_and_holds_nobody_up() -> None:
    gate = Gate()
    with ThreadPoolExecutor(4) as pool:
        first, *group = gate.submit_together(pool, "a", "interrupt", "c")
        assert first.result() == "A"
        kinds = {type(each.exception()) for each in group}
        assert kinds == {KeyboardInterrupt, StoreUnavailableError}
    assert gate.write("next") == "NEXT"


def test_a_call_that_is_interrupted_while_it_waits_is_not_carried_out_later() -> None:
    class InterruptedLock:
        """A lock at which a thread is interrupted."""

        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None:
            raise AssertionError

    gate = Gate()
    gate.let.set()
    lock, gate._at_work = gate._at_work, InterruptedLock()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        gate.write("interrupted")
    gate._at_work = lock
    assert gate.write("next") == "NEXT"
    assert gate.groups == [["next"]]


def test_ctrl_c_as_a_thread_takes_the_calls_is_said_to_the_others() -> None:
    class Taken(deque[Any]):
        """The calls are taken by a thread that is interrupted before it carries them out."""

        def append(self, _: object) -> None:
            pass

    gate = Gate()
    gate.let.set()
    gate._waiting = Taken()
    with pytest.raises(StoreUnavailableError, match="interrupted"):
        gate.write("taken")


@pytest.mark.parametrize("kind", ["memory", "stored"])
def test_an_error_of_a_caller_fails_no_call_that_shares_its_transaction(
    kind: str, sqlite_url: str
) -> None:
    """Whatever a precondition or a forecaster raises."""

    class Forecasts(Forecaster):
        def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
            return 0.5 if covariates is None else 1 / float(covariates[0])

        def learn(self, number: int, features: Array, reward: float) -> None:
            pass

    def fail(_: object) -> None:
        raise KeyError("mine")

    problem = Problem([[1, 0], [0, 1]])
    if kind == "memory":
        policy = AnytimeBAI(problem, bounds=(0, 1), forecasts=True)
        experiment = Experiment(policy, seed=0, forecaster=Forecasts())
    else:
        options: dict[str, Any] = {"bounds": [0, 1]}
        experiment = Experiment.create(
            sqlite_url, "offer", problem, policy_options=options, seed=0, forecaster=Forecasts()
        )
    with experiment, ThreadPoolExecutor(6) as pool:
        experiment.ask(1, covariates=[[1.0]])

        def submit_together(*calls: Callable[[], Any]) -> list[Any]:
            with experiment.engine._at_work:
                futures = [pool.submit(call) for call in calls]
                wait_until(lambda: len(experiment.engine._waiting) == len(calls))
            return futures

        ask = partial(experiment.ask, 1)
        asked = submit_together(
            partial(ask, covariates=[[1.0]]),
            partial(ask, covariates=[[0.0]]),
            partial(ask, covariates=[[1.0]], precondition=fail),
            partial(ask, covariates=[[2.0]]),
        )
        kinds = [type(each.exception()) for each in asked]
        assert kinds == [type(None), ZeroDivisionError, KeyError, type(None)]
        assert {asked[0].result().ids[0], asked[3].result().ids[0]} == {1, 2}
        tell = experiment.tell_many
        told_together = submit_together(
            partial(tell, {0: 0.5}), partial(tell, {1: 0.5}, precondition=fail)
        )
        assert told_together[0].result().recorded == 1
        with pytest.raises(KeyError, match="mine"):
            told_together[1].result()
        assert told(experiment) == {0: 0.5}
        assert experiment.verify().sound


def test_threads_ask_and_tell_one_experiment(store_url: str) -> None:
    """Each is answered for itself, and nothing is given out or counted twice."""
    threads, turns = 8, 12
    options: dict[str, Any] = {"policy": "anytime", "policy_options": {"bounds": [0, 1]}, "seed": 3}
    problem = Problem([[1, 0], [0, 1]])
    with Experiment.create(store_url, "offer", problem, **options) as experiment:

        def work(thread: int) -> list[int]:
            mine = []
            for turn in range(turns):
                name = f"{thread} {turn}"
                (number,) = experiment.ask(1, request_id=name).ids
                assert experiment.ask(1, request_id=name).ids == range(number, number + 1)
                with pytest.raises(ConflictingRequestError):
                    experiment.ask(2, request_id=name)
                assert experiment.tell(number, 0.5).recorded == 1
                assert experiment.tell(number, 0.5).repeated == 1
                with pytest.raises(ConflictingOutcomeError):
                    experiment.tell(number, 0.75)
                mine.append(number)
            return mine

        with ThreadPoolExecutor(threads) as pool:
            ids = [number for mine in pool.map(work, range(threads)) for number in mine]
        assert sorted(ids) == list(range(threads * turns))
        assert told(experiment) == dict.fromkeys(range(threads * turns), 0.5)
        assert experiment.verify().sound
