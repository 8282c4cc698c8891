"""Replications: the same on any workers, interruptible, resumable, clear about what went wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_policies import ArmMeans, Failing, Interrupting

from bestarm import LUCB, AnytimeBAI
from bestarm.defaults import DELTA
from bestarm.environments import (
    Environment,
    InTurn,
    Ratings,
    Semiparametric,
    Stream,
    World,
    baselines,
    small_gap,
    uniform_sphere,
)
from bestarm.errors import (
    BestArmError,
    InvalidInputError,
    MissingDependencyError,
    ProtocolError,
)
from bestarm.policies import GOpt
from bestarm.policies.policy import Method
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem
from bestarm.records import Summary
from bestarm.simulation import (
    Oracle,
    Outcome,
    Results,
    RunJournal,
    engine,
    run_once,
    simulate,
)
from bestarm.simulation.engine import Simulation

FIELDS = ("index", *Outcome._fields[1:])
MATRIX = np.random.default_rng(14).integers(-5, 6, size=(1000, 4)) + np.arange(4) / 9
ENVIRONMENTS: dict[str, Environment] = {
    "fixed": small_gap(4, 0.5, noise=3.0),
    "drawn": uniform_sphere(12, 3),
    "users": Ratings(MATRIX),
    "users once": Ratings(MATRIX, replacement=False),
}


def same(left: Results, right: Results) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert repr(left) == repr(right)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_results_are_the_same_on_any_workers_in_any_batches(
    name: str, pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, environment = partial(ArmMeans, plans=3), ENVIRONMENTS[name]
    serial = simulate(method, environment, runs=40, seed=5)
    assert 0 < serial.error_rate < 1
    assert len(set(serial.pulls.tolist())) > 20
    assert (serial.plans == 3).all()
    with ThreadPoolExecutor(3) as threads:
        same(serial, simulate(method, environment, runs=40, seed=5, executor=threads))
        monkeypatch.setattr(engine, "_BATCHES", 4)
        same(serial, simulate(method, environment, runs=40, seed=5, executor=threads))
    same(serial, simulate(method, environment, runs=40, seed=5, executor=pool))
    monkeypatch.setattr(engine, "_BATCHES", 1)
    same(serial, simulate(method, environment, runs=40, seed=5, executor=pool))


def test_runs_are_their_own_whatever_their_number_and_differ_by_seed() -> None:
    environment = ENVIRONMENTS["drawn"]
    few, many = (simulate(ArmMeans, environment, runs=n, seed=1) for n in (5, 15))
    np.testing.assert_array_equal(few.pulls, many.pulls[:5])
    np.testing.assert_array_equal(few.target, many.target[:5])
    other = simulate(ArmMeans, environment, runs=15, seed=2)
    assert not np.array_equal(many.pulls, other.pulls)


@pytest.mark.parametrize("name", ["fixed", "drawn"])
def test_run_once_is_exactly_a_run_of_simulate(name: str) -> None:
    results = simulate(ArmMeans, ENVIRONMENTS[name], runs=8, seed=3, delta=0.2)
    for run in (0, 7):
        answer = run_once(ArmMeans, ENVIRONMENTS[name], run=run, seed=3, delta=0.2)
        assert (answer.pulls, answer.target) == (results.pulls[run], results.target[run])


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


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_ctrl_c_stops_workers_and_gives_back_the_finished_runs(
    workers: str, pool: Executor
) -> None:
    with ThreadPoolExecutor(2) as threads:
        executor = {"threads": threads, "processes": pool}[workers]
        part = simulate(
            ArmMeans, small_gap(), runs=TOO_MANY, executor=executor, progress=interrupt_after(20)
        )
    assert part.interrupted
    assert 20 <= part.runs < TOO_MANY
    assert (np.diff(part.index) > 0).all()
    whole = simulate(ArmMeans, small_gap(), runs=100)
    first = part.index < 100
    assert first.any()
    np.testing.assert_array_equal(part.pulls[first], whole.pulls[part.index[first]])


def test_ctrl_c_in_a_worker_interrupts_the_simulation(pool: Executor) -> None:
    whole = simulate(ArmMeans, small_gap(), runs=40)
    part = simulate(Interrupting, small_gap(), runs=40, executor=pool)
    assert part.interrupted
    assert part.runs < 40
    np.testing.assert_array_equal(part.pulls, whole.pulls[part.index])


def test_nothing_finished_is_still_a_result() -> None:
    def interrupted(problem: Problem) -> ArmMeans:
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
    assert f"on small-gap: {small_gap().problem(0.05)!r}" in note
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
    with pytest.raises(MissingDependencyError, match=r"pip install 'bestarmid\[cli\]'"):
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
        ({"method": "SPBAI"}, "`method` must make a policy from a problem; got 'SPBAI'"),
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


# --- resumed simulations --------------------------------------------------------------------------

WORLD = small_gap(4, 0.5, noise=3.0)


@cache
def whole_simulation() -> Results:
    return simulate(partial(ArmMeans, plans=2), WORLD, runs=20, seed=4)


@settings(deadline=None, max_examples=25)
@given(kept=st.sets(st.integers(0, 19)))
def test_known_runs_are_not_made_again_and_change_nothing(kept: set[int]) -> None:
    method, whole = partial(ArmMeans, plans=2), whole_simulation()
    made: list[Outcome] = []
    known = [outcome for outcome in whole.outcomes() if outcome.run in kept]
    again = simulate(
        method, WORLD, runs=20, seed=4, journal=RunJournal(known=known, record=made.extend)
    )
    assert again.outcomes() == whole.outcomes()
    assert sorted(outcome.run for outcome in made) == sorted(set(range(20)) - kept)


def test_what_was_recorded_before_an_interruption_is_enough_to_go_on() -> None:
    whole = simulate(ArmMeans, WORLD, runs=30, seed=4)
    journal: list[Outcome] = []
    stopped: list[bool] = []

    def record(outcomes: Sequence[Outcome]) -> None:
        journal.extend(outcomes)
        if not stopped and len(journal) > 7:
            stopped.append(True)
            raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as threads:
        cut = simulate(
            ArmMeans, WORLD, runs=30, seed=4, executor=threads, journal=RunJournal(record=record)
        )
    assert cut.interrupted
    assert {outcome.run for outcome in cut.outcomes()} <= {outcome.run for outcome in journal}
    seen: list[tuple[int, int]] = []
    finished = simulate(
        ArmMeans,
        WORLD,
        runs=30,
        seed=4,
        progress=lambda done, total: seen.append((done, total)),
        journal=RunJournal(known=journal),
    )
    assert finished.outcomes() == whole.outcomes()
    assert seen[0] == (len({outcome.run for outcome in journal}), 30)
    assert seen[-1] == (30, 30)


def test_a_record_that_cannot_be_kept_stops_the_simulation() -> None:
    def full(_: Sequence[Outcome]) -> None:
        raise OSError("no space left")

    with ThreadPoolExecutor(2) as threads:
        for executor in (None, threads):
            with pytest.raises(OSError, match="no space"):
                simulate(
                    ArmMeans, WORLD, runs=50, executor=executor, journal=RunJournal(record=full)
                )


@pytest.mark.parametrize("known", [[3], [(1, 2)], [Outcome(9, 1, True, True, False, 0, 1, 1)]])
def test_known_runs_must_be_runs_of_the_simulation(known: list[Outcome]) -> None:
    with pytest.raises(InvalidInputError):
        simulate(ArmMeans, WORLD, runs=9, journal=RunJournal(known=known))


def test_an_oracle_is_told_the_truth_of_each_world() -> None:
    worlds = InTurn([small_gap(3, angle) for angle in (0.9, 0.6, 0.7)], "three")
    results = simulate(Oracle(GOpt, gap="gap"), worlds, runs=6)
    expected = []
    for world in worlds.worlds:
        assert isinstance(world, Semiparametric)
        plan = GOpt(world.problem(DELTA), gap=world.gap).plan()
        assert plan is not None
        expected.append(plan.pulls)
    assert results.pulls.tolist() == expected * 2
    assert results.method == "GOpt(gap=the world's gap)"
    assert run_once(Oracle(GOpt, gap="gap"), worlds, run=4).pulls == expected[1]
    with pytest.raises(BestArmError, match="no attribute 'secret'"):
        simulate(Oracle(GOpt, gap="secret"), worlds, runs=1)
    with pytest.raises(InvalidInputError, match="`method` must make a policy"):
        simulate(Oracle(3, gap="gap"), worlds, runs=1)  # type: ignore[arg-type]


def test_worlds_in_turn_serve_whoever_does_not_number_runs() -> None:
    worlds = InTurn([small_gap(3), small_gap(4)], "two")
    rng = np.random.default_rng(0)
    dimensions = {
        world.problem(0.1).dimension
        for world in (worlds.instance(rng) for _ in range(20))
        if isinstance(world, Semiparametric)
    }
    assert dimensions == {3, 4}
    with pytest.raises(InvalidInputError):
        InTurn([], "none")


def test_a_run_recorded_before_ctrl_c_is_not_recorded_again() -> None:
    """Ctrl-C comes after a batch's runs were recorded and before the batch is put away."""
    recorded: list[int] = []
    calls: list[int] = []

    def record(outcomes: object) -> None:
        assert isinstance(outcomes, list)
        recorded.extend(outcome.run for outcome in outcomes if isinstance(outcome, Outcome))

    def interrupt(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as threads:
        results = simulate(
            ArmMeans,
            small_gap(),
            runs=3,
            executor=threads,
            progress=interrupt,
            journal=RunJournal(record=record),
        )
    assert results.interrupted
    assert recorded
    assert sorted(recorded) == sorted(set(recorded)) == results.index.tolist()


# --- seeds of a run -------------------------------------------------------------------------------


class Watched:
    """A world, and an environment of it, that keep the seeds they were begun with."""

    name = "watched"

    def __init__(self) -> None:
        self._world = Semiparametric(np.eye(2), [1.0, 0.0])
        self.best = self._world.best
        self.seeds: list[int] = []

    def problem(self, delta: float) -> Problem:
        return self._world.problem(delta)

    def instance(self, rng: np.random.Generator) -> World:
        self.seeds.append(number_of(rng))
        return self

    def begin(self, rng: np.random.Generator) -> Stream:
        self.seeds.append(number_of(rng))
        return self._world.begin(rng)


def number_of(rng: np.random.Generator) -> int:
    """The number that a policy would have been given in place of this generator."""
    sequence = rng.bit_generator.seed_seq
    assert isinstance(sequence, np.random.SeedSequence)
    return int(sequence.generate_state(1, np.uint64)[0] >> 11)


def seeds_of(seed: int, run: int) -> list[int]:
    """Of the instance, of the stream and of the policy."""
    world, found = Watched(), list[int]()

    class Spy(ArmMeans):
        def __init__(self, problem: Problem, *, seed: int) -> None:
            super().__init__(problem, seed=seed)
            found.append(seed)

    run_once(Spy, world, seed=seed, run=run)
    return [*world.seeds, *found]


def test_seeds_are_the_children_of_one_sequence_per_run() -> None:
    """Results stay the same from version to version: a seed that is not used is not made, and does
    not change the others. A policy that draws from its seed does not draw the noise, or another
    run, once more: 53 bits agree by chance once in 10¹³ times here."""
    every: list[int] = []
    for seed, run in itertools.product(range(5), repeat=2):
        instance, policy, stream = np.random.SeedSequence(seed, spawn_key=(run,)).spawn(3)
        expected = [number_of(np.random.default_rng(each)) for each in (instance, stream, policy)]
        assert seeds_of(seed, run) == expected
        every += expected
    assert len(set(every)) == 75
    assert max(every) < 2**53


class Drawn(Semiparametric):
    """A world of one kind that draws the instance of every run, as only subclasses do."""

    def instance(self, rng: np.random.Generator) -> Drawn:
        return Drawn(np.eye(2), rng.permutation([1.0, 0.0]))


def test_a_world_that_draws_its_instance_gets_the_generator_of_the_run() -> None:
    kind = Drawn(np.eye(2), [1.0, 0.0])
    found = []
    for run in range(20):
        seed = np.random.SeedSequence(7, spawn_key=(run,)).spawn(3)[0]
        drawn = np.random.Generator(np.random.PCG64DXSM(seed)).permutation([1.0, 0.0])
        _, _, world = Simulation(ArmMeans, kind, delta=0.1, seed=7).begin(run)
        assert world.best == np.argmax(drawn)
        found.append(world.best)
    assert set(found) == {0, 1}


# --- runs side by side whose worlds, streams or options differ -----------------------------------


def short(rounds: int, gap: float = 1.0) -> Semiparametric:
    """A world whose baseline has values for so many rounds."""
    path = np.zeros(rounds)
    return Semiparametric(np.eye(3), [gap, 0.0, 0.0], baseline=path, declared_baseline=0.1)


def alone(method: Method | Oracle, environment: Environment, runs: int) -> list[int]:
    return [run_once(method, environment, run=run).pulls for run in range(runs)]


def test_no_run_is_lost_where_another_had_fewer_rounds_left() -> None:
    """Runs in easy worlds end, with less left of their short baselines than the others have."""
    worlds = InTurn([short(400, gap=3.0), short(5_000, gap=0.1)], "short and long")
    method = partial(LUCB, sigma=0.5, max_pulls=3_000)
    results = simulate(method, worlds, runs=8)
    assert results.pulls.tolist() == alone(method, worlds, 8)
    assert results.pulls.max() > 400


def test_a_run_that_needs_more_rounds_than_there_are_has_no_second_try() -> None:
    """To make it again with other numbers would favour short runs."""
    pulls = simulate(AnytimeBAI, short(50_000), runs=12).pulls
    world = short(int(np.median(pulls)))
    assert 2 <= (pulls > np.median(pulls)).sum() <= 6
    for run in range(12):
        if pulls[run] <= np.median(pulls):
            assert run_once(AnytimeBAI, world, run=run).pulls == pulls[run]
        else:
            with pytest.raises(InvalidInputError, match="baseline has values for"):
                run_once(AnytimeBAI, world, run=run)
    with pytest.raises(InvalidInputError, match="baseline has values for") as raised:
        simulate(AnytimeBAI, world, runs=12)
    (note,) = raised.value.__notes__
    assert f"run={np.argmax(pulls > np.median(pulls))}, seed=0" in note


class ShortSighted:
    """A run that presamples fewer rounds than are left."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.pull, self.skip = stream, stream.pull, stream.skip

    def presample(self, rounds: int) -> PresampledRewards | None:
        presampled: PresampledRewards = self._stream.presample(min(rounds, 7))
        return presampled


class PlansOnly:
    """A run that presamples nothing."""

    def __init__(self, stream: Any) -> None:
        self.pull = stream.pull


class EverySecond:
    """Every second run of a simulation has a stream of another kind."""

    name = "every second"

    def __init__(self, kind: Callable[[Any], Any]) -> None:
        self._kind, self._turn = kind, short(50_000)
        self.best = self._turn.best

    def instance(self, rng: np.random.Generator) -> World:
        return self._turn

    def of_run(self, run: int) -> World:
        return self if run % 2 else self._turn

    def problem(self, delta: float) -> Problem:
        return self._turn.problem(delta)

    def begin(self, rng: np.random.Generator) -> Stream:
        stream: Stream = self._kind(self._turn.begin(rng))
        return stream


def test_runs_that_must_be_made_alone_are() -> None:
    worlds = EverySecond(PlansOnly)
    assert simulate(AnytimeBAI, worlds, runs=6).pulls.tolist() == alone(AnytimeBAI, worlds, 6)


def test_a_stream_that_presamples_too_few_rounds_is_refused() -> None:
    with pytest.raises(ProtocolError, match="presamples fewer than"):
        simulate(AnytimeBAI, EverySecond(ShortSighted), runs=6)


def test_an_exception_in_a_run_among_others_names_the_run() -> None:
    def path(number: float) -> float:
        if number > 3_000:
            raise ZeroDivisionError("as asked")
        return 0.0

    baseline = baselines.custom(path, bound=1.0)
    world = Semiparametric(np.eye(2), [0.01, 0.0], baseline=baseline)
    with pytest.raises(ZeroDivisionError, match="as asked") as raised:
        simulate(LUCB, world, runs=3)
    (note,) = raised.value.__notes__
    assert "run_once(..., run=0, seed=0" in note


class WithFloors(Semiparametric):
    floors: ClassVar[dict[str, float]] = {}


class WithAFloor(WithFloors):
    floors: ClassVar[dict[str, float]] = {"2": 0.8}


def test_options_that_an_oracle_binds_are_those_of_each_run() -> None:
    kinds: list[type[WithFloors]] = [WithFloors, WithAFloor]
    worlds = InTurn([kind(np.eye(3), [1.0, 0.0, 0.0]) for kind in kinds], "floors")
    method = Oracle(AnytimeBAI, floors="floors")
    pulls = simulate(method, worlds, runs=8).pulls.tolist()
    assert pulls == alone(method, worlds, 8)
