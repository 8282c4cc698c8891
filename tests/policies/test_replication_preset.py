"""SP-BAI as the paper's experiments ran it, and the caps on single phases they ran under."""

from __future__ import annotations

import math
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm import RAGE, SBE, SPBAI, Problem, Recommendation, Summary, bounds, design, simulate
from bestarm.environments import Semiparametric, small_gap
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, centered_diameter
from bestarm.policies import Method, Policy

REPLICATION = partial(SPBAI, preset="replication")
SHARP = partial(SPBAI, design="centered", stability="actual")


def _weights(policy: Policy) -> Array:
    plan = policy.plan()
    assert plan is not None
    assert plan.weights is not None
    return plan.weights


def _told(policy: Policy, scores: Array) -> None:
    """Carry out a plan under rewards without noise, as often as its weights say on average."""
    plan = policy.plan()
    assert plan is not None
    counts = plan.counts
    if counts is None:
        assert plan.weights is not None
        counts = np.floor(plan.pulls * plan.weights).astype(np.int64)
        counts[np.argmax(plan.weights)] += plan.pulls - counts.sum()
    policy.update(Summary(counts, counts * scores, counts * scores**2))


def _play(policy: Policy, world: Semiparametric, *, seed: int) -> Recommendation:
    stream = world.begin(np.random.default_rng(seed))
    while (plan := policy.plan()) is not None:
        policy.update(stream.pull(plan))
    return policy.recommend()


# --- the preset ------------------------------------------------------------------------------


def test_xor_pulls_active_arms_only_around_the_best_of_them() -> None:
    problem = Problem(np.random.default_rng(7).normal(size=(9, 3)), delta=0.1)
    policy = REPLICATION(problem, seed=2)
    spread = design.deo(problem.source).weights
    anchor = int(np.random.default_rng(2).integers(9))
    expected = design.xor(problem.source, problem.target, anchor=anchor).weights
    np.testing.assert_allclose(_weights(policy), 0.5 * expected + 0.5 * spread, atol=1e-12)
    _told(policy, problem.source @ [0.6, 0.3, 0.0])
    active = np.array(policy.recommend().active)
    assert 2 <= len(active) < 9
    weights = _weights(policy)
    contrasting = 2 * (weights - 0.5 * spread)
    out = np.setdiff1d(np.arange(9), active)
    np.testing.assert_allclose(contrasting[out], 0.0, atol=1e-12)
    leader = policy.recommend().trace[0].leader
    assert contrasting[leader] == pytest.approx(0.5)
    arms = problem.source[active]
    best = design.xor(arms, arms, anchor=active.tolist().index(leader))
    np.testing.assert_allclose(contrasting[active], best.weights, atol=1e-12)
    # The length follows from the mixture's own value over the active contrasts.
    plan = policy.plan()
    assert plan is not None
    assert plan.pulls == bounds.phase_length(
        centered_diameter(problem.source, weights, arms),
        epsilon=0.25,
        delta=bounds.phase_delta(0.1, active=len(active), phase=2),
        stability=32.0 * 3,
        dimension=3,
    )


def test_the_ridge_takes_the_delta_of_the_whole_run() -> None:
    problem = small_gap(3, 0.5).problem(0.1)
    policy = REPLICATION(problem, seed=3)
    weights, plan = _weights(policy), policy.plan()
    assert plan is not None
    rng = np.random.default_rng(8)
    arms = rng.choice(problem.arms, size=plan.pulls, p=weights)
    rewards = problem.source[arms] @ [2.0, 0, 0] + rng.normal(size=plan.pulls)
    policy.update(Summary.from_pulls(arms, rewards, size=problem.arms))
    centered = problem.source[arms] - weights @ problem.source
    gram = centered.T @ centered + math.log(plan.pulls / 0.1) * np.eye(3)
    scores = problem.target @ np.linalg.solve(gram, centered.T @ rewards)
    contrasts = policy.recommend().trace[0].contrasts
    np.testing.assert_allclose(contrasts, scores.max() - scores, atol=1e-9)


def test_a_tie_ends_after_ten_phases() -> None:
    problem = Problem(np.eye(2), noise=1e-3, baseline=0.0)
    for method, phases in ((REPLICATION, 10), (partial(REPLICATION, max_phases=3), 3)):
        policy = method(problem, seed=0)
        while policy.plan() is not None:
            _told(policy, np.zeros(2))
        answer = policy.recommend()
        assert (len(answer.trace), answer.reason, answer.final) == (phases, "max_phases", False)


def test_other_targets_than_the_source_are_refused() -> None:
    problem = Problem(np.eye(3), [[1, 0, 0], [0.5, 0.5, 0]])
    with pytest.raises(InvalidInputError, match="replication preset chooses among the arms"):
        REPLICATION(problem)


def test_a_method_with_a_preset_can_be_sent_to_a_worker() -> None:
    method = partial(SPBAI, preset="replication", max_phase_pulls=5000)
    sent = pickle.loads(pickle.dumps(method))
    world = small_gap(3, 0.5)
    ours, theirs = (simulate(it, world, runs=4, seed=9) for it in (method, sent))
    np.testing.assert_array_equal(ours.pulls, theirs.pulls)
    np.testing.assert_array_equal(ours.target, theirs.target)


# --- a cap on every phase --------------------------------------------------------------------


@pytest.mark.parametrize("method", [SPBAI, REPLICATION, SBE])
def test_a_phase_over_the_cap_is_the_last_and_names_the_best_of_all(method: Method) -> None:
    """Phases drop arms as the first is the best; a cut one then sees the second far ahead."""
    problem = small_gap(4, 0.4).problem(0.1)
    free = method(problem, seed=0)
    while not (free.recommend().trace and free.recommend().trace[-1].eliminated):
        _told(free, problem.source @ [2.0, 0, 0, 0])
    lengths = [phase.pulls for phase in free.recommend().trace]
    cap = max(lengths)
    capped = method(problem, seed=0, max_phase_pulls=cap)  # type: ignore[call-arg]
    for _ in lengths:  # a phase of just the cap is not over it
        _told(capped, problem.source @ [2.0, 0, 0, 0])
    before = capped.recommend()
    assert before.reason == "running"
    assert before.active == free.recommend().active
    plan, wanted = capped.plan(), free.plan()
    assert plan is not None
    assert wanted is not None
    assert plan.pulls == cap < wanted.pulls
    _told(capped, problem.source @ [-50.0, 10.0, 0, 0])
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
    kind=st.sampled_from(["paper", "replication", "sharp", "sbe", "rage"]),
    seed=st.integers(0, 5),
)
def test_no_phase_is_ever_longer_than_its_cap(
    cap: int, total: int | None, phases: int | None, kind: str, seed: int
) -> None:
    methods = {"paper": SPBAI, "replication": REPLICATION, "sharp": SHARP, "sbe": SBE, "rage": RAGE}
    world = small_gap(3, 0.5)
    problem = world.problem(0.1)
    if kind == "rage":
        phases = phases or 6
    caps = {"max_phase_pulls": cap, "max_pulls": total, "max_phases": phases}
    answer = _play(methods[kind](problem, seed=seed, **caps), world, seed=seed)  # type: ignore[operator]
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
        free = _play(methods[kind](problem, seed=seed, **caps), world, seed=seed)  # type: ignore[operator]
        assert [phase.pulls for phase in free.trace] == lengths
        assert free.target == answer.target


def test_rage_goes_on_from_phases_it_was_cut_short() -> None:
    """Cut at 1 000, every phase of the small-gap instance draws that, and arms are dropped."""
    world = small_gap()
    policy = RAGE(world.problem(0.1), max_phase_pulls=1000, max_phases=10)
    answer = _play(policy, world, seed=0)
    assert {phase.pulls for phase in answer.trace} == {1000}
    assert answer.final
    assert answer.pulls == 1000 * len(answer.trace)
    assert sum(len(phase.eliminated) for phase in answer.trace) == 10


def test_rage_survives_a_tie_for_as_many_phases_as_it_is_given() -> None:
    policy = RAGE(Problem(np.eye(2)), max_phase_pulls=10, max_phases=600)
    while policy.plan() is not None:
        _told(policy, np.zeros(2))
    answer = policy.recommend()
    assert (answer.pulls, answer.reason) == (6000, "max_phases")
    assert answer.active == (0, 1)
