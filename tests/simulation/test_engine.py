"""Replications: the same on any workers, interruptible, and clear about what went wrong."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import threadpoolctl
from simulation_policies import ArmMeans, Failing, Interrupting

from bestarm.environments import Environment, Semiparametric, small_gap, uniform_sphere
from bestarm.errors import BestArmError, InvalidInputError, MissingDependencyError
from bestarm.policies.policy import Method
from bestarm.problem import Problem
from bestarm.records import Summary
from bestarm.simulation import Results, engine, run_once, simulate

FIELDS = ("index", "pulls", "correct", "final", "target", "plans", "rounds")
ENVIRONMENTS: dict[str, Environment] = {
    "fixed": small_gap(4, 0.5, noise=3.0),
    "drawn": uniform_sphere(12, 3),
}


def same(left: Results, right: Results) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert repr(left) == repr(right)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_results_are_the_same_on_any_workers_in_any_pieces(
    name: str, pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, environment = partial(ArmMeans, plans=3), ENVIRONMENTS[name]
    serial = simulate(method, environment, runs=40, seed=5)
    assert 0 < serial.error_rate < 1
    assert len(set(serial.pulls.tolist())) > 20
    assert (serial.plans == 3).all()
    with ThreadPoolExecutor(3) as threads:
        same(serial, simulate(method, environment, runs=40, seed=5, executor=threads))
        monkeypatch.setattr(engine, "_PIECES", 4)
        same(serial, simulate(method, environment, runs=40, seed=5, executor=threads))
    same(serial, simulate(method, environment, runs=40, seed=5, executor=pool))
    monkeypatch.setattr(engine, "_PIECES", 1)
    same(serial, simulate(method, environment, runs=40, seed=5, executor=pool))


def test_runs_are_their_own_whatever_their_number_and_differ_by_seed() -> None:
    environment = ENVIRONMENTS["drawn"]
    few, many = (simulate(ArmMeans, environment, runs=n, seed=1) for n in (5, 15))
    np.testing.assert_array_equal(few.pulls, many.pulls[:5])
    np.testing.assert_array_equal(few.target, many.target[:5])
    other = simulate(ArmMeans, environment, runs=15, seed=2)
    assert not np.array_equal(many.pulls, other.pulls)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_run_once_is_exactly_a_run_of_simulate(name: str) -> None:
    results = simulate(ArmMeans, ENVIRONMENTS[name], runs=8, seed=3, delta=0.2)
    for run in (0, 7):
        answer = run_once(ArmMeans, ENVIRONMENTS[name], run=run, seed=3, delta=0.2)
        assert (answer.pulls, answer.target) == (results.pulls[run], results.target[run])


def test_streams_of_a_run_are_independent_of_its_policy_seed_and_instance() -> None:
    seen: list[tuple[int, float]] = []

    class Spy(ArmMeans):
        def update(self, summary: Summary) -> None:
            seen.append((self.seed, float(summary.sums.sum())))
            super().update(summary)

    simulate(Spy, small_gap(), runs=30)
    seeds, sums = zip(*seen, strict=True)
    assert len(set(seeds)) == 30
    assert len(set(sums)) == 60
    assert all(0 <= seed < 2**53 for seed in seeds)


def test_problems_are_built_once_for_a_fixed_world() -> None:
    problems: list[Problem] = []

    def remember(problem: Problem, *, seed: int) -> ArmMeans:
        problems.append(problem)
        return ArmMeans(problem, seed=seed)

    results = simulate(remember, small_gap(), runs=5)
    assert len({id(problem) for problem in problems}) == 1
    assert results.method == "remember"
    assert results.environment == "small-gap"


def test_linear_algebra_runs_on_one_thread_and_is_given_back(pool: Executor) -> None:
    def threads() -> list[int]:
        pools = threadpoolctl.threadpool_info()
        return [pool["num_threads"] for pool in pools if pool["user_api"] == "blas"]

    inside: list[list[int]] = []

    class Spy(ArmMeans):
        def update(self, summary: Summary) -> None:
            inside.append(threads())
            super().update(summary)

    before = threads()
    simulate(Spy, small_gap(), runs=1)
    with ThreadPoolExecutor(2) as executor:
        simulate(Spy, small_gap(), runs=4, executor=executor)
    assert all(set(counts) == {1} for counts in inside)
    assert threads()[: len(before)] == before


def test_ctrl_c_gives_back_the_finished_runs() -> None:
    whole = simulate(ArmMeans, small_gap(), runs=30)
    part = simulate(Interrupting, small_gap(), runs=30)
    assert part.interrupted
    assert 0 < part.runs < part.requested == 30
    np.testing.assert_array_equal(part.pulls, whole.pulls[: part.runs])
    assert not whole.interrupted
    assert "interrupted" in repr(part)


def interrupt_after(runs: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done >= runs:
            raise KeyboardInterrupt

    return progress


TOO_MANY = 30_000  # runs: they would take minutes, so no machine makes them all before it is told


def assert_part_of_a_whole(part: Results) -> None:
    assert part.interrupted
    assert 20 <= part.runs < TOO_MANY
    whole = simulate(ArmMeans, small_gap(), runs=100)
    first = part.index < 100
    assert first.any()
    np.testing.assert_array_equal(part.pulls[first], whole.pulls[part.index[first]])


def test_ctrl_c_with_threads_stops_them_and_gives_back_the_finished_runs() -> None:
    with ThreadPoolExecutor(2) as executor:
        part = simulate(
            ArmMeans, small_gap(), runs=TOO_MANY, executor=executor, progress=interrupt_after(20)
        )
    assert_part_of_a_whole(part)
    assert (np.diff(part.index) > 0).all()


def test_ctrl_c_with_processes_gives_back_the_finished_runs(pool: Executor) -> None:
    part = simulate(
        ArmMeans, small_gap(), runs=TOO_MANY, executor=pool, progress=interrupt_after(20)
    )
    assert_part_of_a_whole(part)


def test_ctrl_c_in_a_worker_interrupts_the_simulation(pool: Executor) -> None:
    whole = simulate(ArmMeans, small_gap(), runs=40)
    part = simulate(Interrupting, small_gap(), runs=40, executor=pool)
    assert part.interrupted
    assert part.runs < 40
    np.testing.assert_array_equal(part.pulls, whole.pulls[part.index])


def test_nothing_finished_is_still_a_result() -> None:
    def interrupted(problem: Problem, *, seed: int) -> ArmMeans:
        raise KeyboardInterrupt

    results = simulate(interrupted, small_gap(), runs=3)
    assert (results.runs, results.interrupted) == (0, True)
    assert math.isnan(results.mean_pulls)
    assert repr(results) == "Results(interrupted on small-gap: 0 runs of 3, interrupted)"


@pytest.mark.parametrize("workers", ["serial", "threads", "processes"])
def test_an_exception_says_which_run_raised_it(workers: str, pool: Executor) -> None:
    executor = {"serial": None, "threads": ThreadPoolExecutor(2), "processes": pool}[workers]
    with pytest.raises(ZeroDivisionError, match="as asked") as raised:
        simulate(Failing, small_gap(), runs=30, seed=4, executor=executor)
    (note,) = raised.value.__notes__
    run = int(note.split("run ")[1].split()[0])
    assert f"run_once(..., run={run}, seed=4, delta=0.05) repeats it" in note
    with pytest.raises(ZeroDivisionError):
        run_once(Failing, small_gap(), run=run, seed=4)
    if isinstance(executor, ThreadPoolExecutor):
        executor.shutdown()


def test_our_own_errors_cross_processes_whole(pool: Executor) -> None:
    with pytest.raises(InvalidInputError, match=r"No\. Never\.") as raised:
        simulate(partial(Failing, ours=True), small_gap(), runs=30, executor=pool)
    assert (raised.value.field, raised.value.remedy) == ("seed", "Never.")


def test_what_cannot_be_sent_is_refused_in_a_sentence(pool: Executor) -> None:
    def local(problem: Problem, *, seed: int) -> ArmMeans:
        return ArmMeans(problem, seed=seed)

    with pytest.raises(InvalidInputError, match="cannot be sent to another process"):
        simulate(local, small_gap(), runs=3, executor=pool)
    with ThreadPoolExecutor(1) as threads:
        assert simulate(local, small_gap(), runs=3, executor=threads).runs == 3


class Cluster(Executor):
    """An executor of another make: finishes out of order, on a thread of its own."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[object] = Future()
        delay = 0.02 if args[-1][0] == 0 else 0.0
        threading.Timer(delay, lambda: future.set_result(fn(*args, **kwargs))).start()
        return future


def test_any_executor_will_do() -> None:
    serial = simulate(ArmMeans, small_gap(), runs=6)
    same(serial, simulate(ArmMeans, small_gap(), runs=6, executor=Cluster()))


def test_progress_is_called_with_runs_done_and_total() -> None:
    calls: list[tuple[int, int]] = []
    simulate(ArmMeans, small_gap(), runs=3, progress=lambda *call: calls.append(call))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_progress_bar_shows_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    simulate(ArmMeans, small_gap(), runs=3, progress=True)
    shown = capsys.readouterr()
    assert "3/3" in shown.err
    assert not shown.out


def test_a_missing_bar_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rich", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bestarm\[cli\]'"):
        simulate(ArmMeans, small_gap(), runs=3, progress=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": 0}, "`runs` must be a whole number of at least 1; got 0"),
        ({"runs": 2.5}, "`runs` must be a whole number"),
        ({"runs": True}, "`runs` must be a whole number"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0; got -1"),
        ({"seed": None}, "`seed` must be a whole number"),
        ({"delta": 5}, r"`delta` must lie in \(0, 0.5\]; got 5"),
        ({"delta": "0.1"}, r"`delta` must"),
        ({"delta": math.nan}, r"`delta` must"),
        ({"method": "SPBAI"}, "`method` must make a policy from a problem and a seed; got 'SPBAI'"),
        ({"environment": 3}, "`environment` must have a name"),
        ({"executor": 4}, r"`executor` must be a concurrent\.futures executor; got 4"),
        ({"progress": "yes"}, "`progress` must be True, False or a function; got 'yes'"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(
    changes: dict[str, object], message: str
) -> None:
    arguments: dict[str, object] = {"method": ArmMeans, "environment": small_gap(), "runs": 2}
    with pytest.raises(BestArmError, match=message):
        simulate(**(arguments | changes))  # type: ignore[arg-type]


def test_wide_worlds_and_callable_environments_fit_the_protocol() -> None:
    class Own:
        name = "own"

        def instance(self, rng: np.random.Generator) -> Semiparametric:
            return Semiparametric(np.eye(500), np.arange(500.0), noise=0.1)

    environment: Environment = Own()
    method: Method = partial(ArmMeans, plans=1, pulls=20_000)
    results = simulate(method, environment, runs=2)
    assert results.error_rate == 0.0
    assert results.method == "ArmMeans(plans=1, pulls=20000)"
