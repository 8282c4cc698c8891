"""Calls of several threads that are carried out together."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from databases import wait_until
from interrupting import Interrupting
from kept import told

from bestarm import Experiment, Problem
from bestarm.errors import ConflictingOutcomeError, ConflictingRequestError
from bestarm.live import gathering
from bestarm.live.gathering import Gathering

PATIENCE = 60.0  # seconds


class Work:
    """Doubles numbers, once it is let; notes which came together."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.let = threading.Semaphore(0)
        self.wrong: BaseException | None = None
        self.over = False

    def is_begun(self) -> bool:
        return len(self.groups) == 1

    def __call__(self, calls: Sequence[int]) -> list[int]:
        self.groups.append(sorted(calls))
        assert self.let.acquire(timeout=PATIENCE)
        if self.wrong is not None:
            wrong, self.wrong = self.wrong, None
            raise wrong
        return [2 * call for call in calls]


def begin(work: Work, pool: ThreadPoolExecutor) -> tuple[Gathering[int, int], list[Future[int]]]:
    """One call is being carried out, and five wait."""
    gathered = Gathering(work)
    answers = [pool.submit(gathered, 0)]
    wait_until(lambda: len(work.groups) == 1)
    answers += [pool.submit(gathered, call) for call in range(1, 6)]
    wait_until(lambda: len(gathered._waiting) == 5)
    return gathered, answers


def test_calls_that_come_in_meanwhile_are_carried_out_together() -> None:
    work = Work()
    with ThreadPoolExecutor(6) as pool:
        _, answers = begin(work, pool)
        work.let.release(2)
        assert [each.result(PATIENCE) for each in answers] == [0, 2, 4, 6, 8, 10]
    assert work.groups == [[0], [1, 2, 3, 4, 5]]


def test_an_error_is_everybodys_in_its_group_and_no_one_elses() -> None:
    work = Work()
    with ThreadPoolExecutor(6) as pool:
        gathered, answers = begin(work, pool)
        work.let.release()
        assert answers[0].result(PATIENCE) == 0
        work.wrong = ValueError("no")
        work.let.release()
        for each in answers[1:]:
            with pytest.raises(ValueError, match="no"):
                each.result(PATIENCE)
        work.let.release()
        assert gathered(7) == 14  # it goes on


@pytest.mark.parametrize("first", [True, False])
def test_who_is_interrupted_leaves_the_rest_to_another(first: bool) -> None:
    """Be it the one that found nobody at work, or one that works for a group."""
    work = Work()
    with ThreadPoolExecutor(6) as pool:
        gathered, answers = begin(work, pool)
        if not first:
            work.let.release()
            assert answers[0].result(PATIENCE) == 0
            wait_until(lambda: len(work.groups) == 2)
        work.wrong = KeyboardInterrupt()
        work.let.release(3)
        interrupted = [each for each in answers if each.exception(PATIENCE) is not None]
        assert len(interrupted) == 1
        assert isinstance(interrupted[0].exception(), KeyboardInterrupt)
        rest = [2 * call for call, each in enumerate(answers) if each not in interrupted]
        assert [each.result() for each in answers if each not in interrupted] == rest
        work.let.release()
        assert gathered(7) == 14


class Interrupted:
    """A lock whose holder is interrupted at some of the times that it is taken."""

    def __init__(self, *times: int) -> None:
        self.lock, self.taken, self.times = threading.Lock(), 0, times

    def __enter__(self) -> None:
        self.taken += 1
        if self.taken in self.times:
            raise KeyboardInterrupt
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        if -self.taken in self.times:
            raise KeyboardInterrupt


@pytest.mark.parametrize("time", [1, -1, 2, -2])
def test_who_is_interrupted_beside_its_work_holds_nobody_up(time: int) -> None:
    work = Work()
    gathered = Gathering(work)
    gathered._lock = Interrupted(time)  # type: ignore[assignment]
    work.let.release(2)
    with pytest.raises(KeyboardInterrupt):
        gathered(1)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(gathered, 2).result(PATIENCE) == 4


@pytest.mark.parametrize("time", [3, -3])
def test_who_is_interrupted_before_it_waits_is_left_out(time: int) -> None:
    work = Work()
    gathered = Gathering(work)
    gathered._lock = Interrupted(time)  # type: ignore[assignment]
    work.let.release()
    assert gathered(1) == 2
    with ThreadPoolExecutor(2) as pool:
        gathered._lock.taken = 1  # type: ignore[attr-defined]
        first = pool.submit(gathered, 2)
        wait_until(lambda: len(work.groups) == 2)
        with pytest.raises(KeyboardInterrupt):
            gathered(3)
        work.let.release(2)
        assert first.result(PATIENCE) == 4
        assert pool.submit(gathered, 4).result(PATIENCE) == 8


@pytest.mark.parametrize("waits", [False, True])
def test_who_is_interrupted_anywhere_holds_nobody_up(waits: bool) -> None:
    found = 0
    with ThreadPoolExecutor(2) as pool:
        for number in range(1, 100):
            work = Work()
            gathered = Gathering(work)
            if waits:
                at_work = pool.submit(gathered, 0)
                wait_until(work.is_begun)
                pool.submit(let_once_there_is_one, gathered, work)
            else:
                work.let.release()
            interrupting = Interrupting(number, gathering)
            try:
                with interrupting:
                    assert gathered(1) == 2
            except KeyboardInterrupt:
                found += 1
            work.over = True
            work.let.release(3)
            if waits:
                assert at_work.result(PATIENCE) == 0
            assert pool.submit(gathered, 2).result(PATIENCE) == 4
            if not interrupting.done:
                break
    assert 5 < found < number < 99


def let_once_there_is_one(gathered: Gathering[int, int], work: Work) -> None:
    wait_until(lambda: work.over or len(gathered._waiting) == 1)
    work.let.release(2)


def test_a_group_is_carried_out_by_a_thread_that_ctrl_c_does_not_reach() -> None:
    """Or else the calls of others would be made again, though they may be on record."""
    work, workers = Work(), list[int]()

    def noted(calls: Sequence[int]) -> list[int]:
        workers.append(threading.get_ident())
        return work(calls)

    gathered = Gathering(noted)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(gathered, 0)
        wait_until(lambda: len(work.groups) == 1)
        late = pool.submit(join_behind_main, gathered, work)
        assert gathered(1) == 2  # waits first
        assert first.result(PATIENCE) == 0
        assert late.result(PATIENCE) == 4
    assert work.groups == [[0], [1, 2]]
    assert threading.main_thread().ident not in workers


def join_behind_main(gathered: Gathering[int, int], work: Work) -> int:
    wait_until(lambda: len(gathered._waiting) == 1)
    threading.Thread(target=let_both, args=(gathered, work)).start()
    return gathered(2)


def let_both(gathered: Gathering[int, int], work: Work) -> None:
    wait_until(lambda: len(gathered._waiting) == 2)
    work.let.release(2)


def test_who_calls_from_within_its_work_does_not_wait_for_itself() -> None:
    """As a signal handler may."""

    def work(calls: Sequence[int]) -> list[int]:
        return [call if call < 2 else gathered(call - 1) + gathered(call - 2) for call in calls]

    gathered: Gathering[int, int] = Gathering(work)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(gathered, 10).result(PATIENCE) == 55


def test_who_is_called_by_a_signal_while_it_waits_does_not_wait_for_itself() -> None:
    work, answers = Work(), list[int]()
    gathered = Gathering(work)
    before = signal.signal(signal.SIGUSR1, lambda *_: answers.append(gathered(2)))
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        wait_until(lambda: len(gathered._waiting) == 1)
        signal.pthread_kill(main, signal.SIGUSR1)
        wait_until(lambda: len(work.groups) == 2)
        work.let.release(3)

    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(gathered, 0)
            wait_until(work.is_begun)
            pool.submit(interrupt)
            assert gathered(1) == 2
            assert first.result(PATIENCE) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert answers == [4]


def test_a_forked_process_waits_for_no_thread_of_its_parent(sqlite_url: str) -> None:
    problem = Problem([[1, 0], [0, 1]])
    options: dict[str, Any] = {"policy": "anytime", "options": {"bounds": [0, 1]}, "seed": 3}
    with Experiment.create(sqlite_url, "offer", problem, **options) as experiment:
        ids = experiment.ask(2).ids
        work = Work()
        experiment._tells._carry_out = work  # type: ignore[assignment]
        with ThreadPoolExecutor(2) as pool:
            pool.submit(experiment._tells, ([0], [0.5]))
            wait_until(lambda: len(work.groups) == 1)
            held, let = threading.Event(), threading.Event()
            pool.submit(hold, experiment._lock, held, let)
            assert held.wait(PATIENCE)
            child = os.fork()
            if not child:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(30)
                experiment.tell(ids[0], 0.5)
                experiment.recommendation()
                os._exit(0)
            let.set()
            work.wrong = ValueError()
            work.let.release()
        assert os.waitpid(child, 0)[1] == 0
        assert told(experiment) == {0: 0.5}


def hold(lock: Any, held: threading.Event, let: threading.Event) -> None:
    with lock:
        held.set()
        assert let.wait(PATIENCE)


def test_threads_ask_and_tell_one_experiment(store_url: str) -> None:
    """Each is answered for itself, and nothing is given out or counted twice."""
    threads, turns = 8, 12
    options: dict[str, Any] = {"policy": "anytime", "options": {"bounds": [0, 1]}, "seed": 3}
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
