"""Simulations that go on where they were cut short, oracles, and worlds taken in turn."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_policies import ArmMeans

from bestarm.defaults import DELTA
from bestarm.environments import InTurn, Semiparametric, small_gap
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.policies import GOpt
from bestarm.simulation import Oracle, Outcome, Results, RunJournal, run_once, simulate
from bestarm.simulation.engine import one_thread

WORLD = small_gap(4, 0.5, noise=3.0)


@cache
def whole_simulation() -> Results:
    return simulate(partial(ArmMeans, plans=2), WORLD, runs=20, seed=4)


@settings(deadline=None, max_examples=40)
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


@pytest.mark.parametrize("known", [[3], [(1, 2)], [Outcome(9, 1, True, True, 0, 1, 1)]])
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


def test_threads_of_one_process_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first to finish must not lift the limit under the others."""
    happened: list[str] = []

    class Limits:
        def restore_original_limits(self) -> None:
            happened.append("lifted")

    def limit(*_: object, **__: object) -> Limits:
        happened.append("set")
        return Limits()

    monkeypatch.setattr(threadpoolctl, "threadpool_limits", limit)
    inside, leave = threading.Barrier(2), threading.Event()

    def stay() -> None:
        with one_thread():
            inside.wait()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    with one_thread():
        inside.wait()
    assert happened == ["set"]
    leave.set()
    thread.join()
    assert happened == ["set", "lifted"]
