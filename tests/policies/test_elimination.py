"""Elimination in phases: caps that all methods share, SBE and RAGE against published figures."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import carry_out, next_plan, next_weights, without_noise

from bestarm import RAGE, SBE, SPBAI, Problem, design, simulate
from bestarm.environments import small_gap
from bestarm.policies import Method

REPLICATION = partial(SPBAI, preset="replication")


# --- a cap on every phase --------------------------------------------------------------------


@pytest.mark.parametrize("method", [SPBAI, REPLICATION, SBE])
def test_a_phase_over_the_cap_is_the_last_and_names_the_best_of_all(method: Method) -> None:
    """Phases drop arms as the first is the best; a cut one then sees the second far ahead."""
    problem = small_gap(4, 0.4).problem(0.1)
    free = method(problem)
    while not (free.recommend().trace and free.recommend().trace[-1].eliminated):
        without_noise(free, problem.source @ [2.0, 0, 0, 0], 1)
    lengths = [phase.pulls for phase in free.recommend().trace]
    cap = max(lengths)
    capped = method(problem, max_phase_pulls=cap)
    without_noise(capped, problem.source @ [2.0, 0, 0, 0], len(lengths))  # the cap is not over it
    before = capped.recommend()
    assert before.reason == "running"
    assert before.active == free.recommend().active
    assert next_plan(capped).pulls == cap < next_plan(free).pulls
    without_noise(capped, problem.source @ [-50.0, 10.0, 0, 0], 1)
    answer = capped.recommend()
    assert answer.target == 1
    assert 1 not in answer.active
    assert (answer.reason, answer.final) == ("max_phase_pulls", False)
    assert answer.active == before.active
    assert answer.trace[-1].eliminated == ()
    assert answer.target == answer.trace[-1].leader
    assert min(answer.trace[-1].contrasts) >= 0
    assert capped.plan() is None


@settings(deadline=None, max_examples=40)
@given(
    cap=st.integers(1, 20_000),
    total=st.none() | st.integers(1, 40_000),
    phases=st.none() | st.integers(1, 4),
    kind=st.sampled_from(["paper", "replication", "sbe", "rage"]),
    seed=st.integers(0, 5),
)
def test_no_phase_is_ever_longer_than_its_cap(
    cap: int, total: int | None, phases: int | None, kind: str, seed: int
) -> None:
    methods = {"paper": SPBAI, "replication": REPLICATION, "sbe": SBE, "rage": RAGE}
    world = small_gap(3, 0.5)
    problem = world.problem(0.1)
    if kind == "rage":
        phases = phases or 6
    caps = {"max_phase_pulls": cap, "max_pulls": total, "max_phases": phases}
    answer = carry_out(methods[kind](problem, **caps), world, seed=seed)  # type: ignore[operator]
    lengths = [phase.pulls for phase in answer.trace]
    assert max(lengths) <= cap
    assert answer.pulls == sum(lengths) <= (total or answer.pulls)
    assert answer.final == (len(answer.active) == 1) == (answer.reason == "identified")
    if answer.reason == "max_phase_pulls":
        assert kind != "rage"
        assert lengths[-1] == cap
    elif kind != "rage":
        # Whoever did not meet the cap runs as if there were none.
        caps["max_phase_pulls"] = None
        free = carry_out(methods[kind](problem, **caps), world, seed=seed)  # type: ignore[operator]
        assert [phase.pulls for phase in free.trace] == lengths
        assert free.target == answer.target


# --- SBE -------------------------------------------------------------------------------------


def test_sbe_replicates_on_the_small_gap_instance() -> None:
    """Published over 100 runs: 1 881 513.94 ± 1 228 628.36, no error; inside our central 99.8 %."""
    results = simulate(SBE, small_gap(declared_baseline=1.0), runs=70)
    hundreds = np.random.default_rng(0).choice(results.pulls, size=(5_000, 100))
    for published, ours in (
        (1_881_513.94, hundreds.mean(axis=1)),
        (1_228_628.36, hundreds.std(axis=1, ddof=1)),
    ):
        low, high = np.quantile(ours, [0.001, 0.999])
        assert low <= published <= high
    assert results.error_rate == 0


def test_sbe_draws_only_active_arms() -> None:
    world = small_gap(3, 0.5)
    policy = SBE(world.problem(0.1))
    policy.update(world.begin(np.random.default_rng(1)).pull(next_plan(policy)))
    active, weights = policy.recommend().active, next_weights(policy)
    assert set(np.flatnonzero(weights).tolist()) == set(active)
    assert weights[min(active)] == 0.5  # the anchor is the lowest-indexed active arm


# --- RAGE ------------------------------------------------------------------------------------


def test_rage_pulls_what_was_published_but_for_its_design() -> None:
    """22 212 pulls come from a design value of 20.37; the optimum is 20, certified."""
    problem = small_gap(declared_baseline=1.0).problem(0.1)
    for sigma, published in ((1, 22_212), (2, 88_848), (3, 199_908), (4, 355_392)):
        pulls = next_plan(RAGE(problem, sigma=sigma)).pulls
        exact = design.linear_xy(problem.source, problem.target).value
        assert published / pulls == pytest.approx(20.37 / exact, rel=1e-3)
        assert published / pulls == pytest.approx(1.0184, abs=2e-3)


@pytest.mark.parametrize(("factor", "left"), [(0.999, (0, 1)), (1.001, (0,))])
def test_a_phase_drops_what_lags_by_its_accuracy(factor: float, left: tuple[int, ...]) -> None:
    """Phase t knows contrasts within 2^−(t+2): 1/8, then 1/16. Rewards here have no noise."""
    policy = RAGE(Problem(np.eye(2)))
    for phase, lead in ((1, 0.999 / 8), (2, factor / 16)):
        without_noise(policy, np.array([lead, 0.0]), 1)
        assert policy.recommend().trace[-1].radii == (2.0 ** -(phase + 2),) * 2
    assert policy.recommend().active == left


def test_rage_goes_on_from_phases_it_was_cut_short() -> None:
    """Cut at 1 000, every phase of the small-gap instance draws that, and arms are dropped."""
    world = small_gap(declared_baseline=1.0)
    policy = RAGE(world.problem(0.1), max_phase_pulls=1000, max_phases=10)
    answer = carry_out(policy, world, seed=0)
    assert {phase.pulls for phase in answer.trace} == {1000}
    assert answer.final
    assert answer.pulls == 1000 * len(answer.trace)
    assert sum(len(phase.eliminated) for phase in answer.trace) == 10


def test_rage_survives_a_tie_for_as_many_phases_as_it_is_given() -> None:
    policy = RAGE(Problem(np.eye(2)), max_phase_pulls=10, max_phases=600)
    without_noise(policy, np.zeros(2))
    answer = policy.recommend()
    assert (answer.pulls, answer.reason) == (6000, "max_phases")
    assert answer.active == (0, 1)
