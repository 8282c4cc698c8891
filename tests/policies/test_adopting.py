"""A recorded plan is adopted as it is: no design is solved, and its own probabilities are used."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from golden import CASES, KEPT, Case, Run, change_options, read_plan, read_summary
from plans import next_plan

from bestarm import SPBAI, AnytimeBAI, BernsteinElimination, Plan, Problem, Summary, estimation
from bestarm.design import memo, solver
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies import SequentialHalving
from bestarm.policies.anytime import sampler
from bestarm.policies.policy import Policy, same_plan
from bestarm.testing import LinearRewards

RUNS: dict[str, Run] = json.loads(KEPT.read_text(encoding="utf-8"))
PLANE = Problem([[1, 0], [0, 1], [0.6, 0.8], [-0.3, 0.5]], delta=0.05)


def update(policy: Any, case: Case, number: int, steps: list[Run]) -> None:
    plan = read_plan(steps[number]["plan"])
    summary = read_summary(steps[number]["told"], plan)
    if case.losses and number % 4 == 3:
        policy.amend(summary, phase=steps[number - 1]["plan"]["phase"])
    else:
        policy.update(summary)


@pytest.mark.parametrize("name", CASES)
def test_no_design_is_solved_for_plans_on_record(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a design was solved")

    for home, step in (
        (solver, "_minimise"),
        (sampler, "solve_designs"),
    ):
        monkeypatch.setattr(home, step, refuse)
    memo.forget()
    # The same problem once more: what an earlier test solved for it is not remembered.
    problem = Problem(
        (old := CASES[name].make().problem).source,
        None if old.target is old.source else old.target,
        delta=old.delta,
        noise=old.noise,
        baseline=old.baseline,
    )
    case = CASES[name]
    policy: Policy = case.policy(problem, **case.options)
    for number, step in enumerate(RUNS[name]["steps"]):
        policy.adopt(read_plan(step["plan"]))
        update(policy, case, number, RUNS[name]["steps"])
        assert policy.recommend().target == step["said"]["target"]
        change_options(policy, number)


def tilted(plan: Plan) -> Plan:
    assert plan.weights is not None
    weights = plan.weights * np.linspace(1, 2, plan.arms)
    return replace(plan, weights=weights / weights.sum(), pulls=plan.pulls + 3)


def adopted(policy: Policy, seed: int = 0) -> tuple[Plan, Array, Summary]:
    """A plan that the policy would not have made, adopted in place of its own; with its weights."""
    plan = tilted(next_plan(policy))
    policy.adopt(plan)
    assert same_plan(next_plan(policy), plan)
    assert plan.weights is not None
    return plan, plan.weights, LinearRewards(policy.problem)(plan, np.random.default_rng(seed))


def test_bets_use_the_probabilities_on_record_to_the_last_bit() -> None:
    policy = AnytimeBAI(PLANE, bounds=(-3, 3))
    for number in range(4):
        _, weights, summary = adopted(policy, number)
        frame = policy._open.frame  # type: ignore[union-attr]
        assert np.array_equal(frame.weights[0], weights)
        # E w(a) = 0 and E w(a) x_a = y, under the probabilities on record.
        rows = np.eye(PLANE.rank)
        w = frame.bets(rows).w
        np.testing.assert_allclose(w @ weights, 0, atol=1e-12)
        x = PLANE.span.coordinates(PLANE.source)
        np.testing.assert_allclose((w * weights) @ x, rows, atol=1e-12)
        policy.update(summary)


def test_estimates_of_a_phase_use_the_probabilities_on_record() -> None:
    policy = SPBAI(PLANE, anchor=1)
    plan, weights, summary = adopted(policy)
    policy.update(summary)
    (phase,) = policy.recommend().trace
    ridge = np.log(plan.pulls / phase.delta)
    theta = estimation.orthogonalized(PLANE, summary, weights, ridge=ridge)
    best = PLANE.target[phase.leader]
    np.testing.assert_allclose(phase.contrasts, (best - PLANE.target) @ theta, rtol=1e-12)
    assert np.array_equal(phase.weights, weights)
    assert (phase.pulls, phase.gap) == (plan.pulls, None)


def test_halving_centers_at_the_mean_on_record() -> None:
    policy = SequentialHalving(PLANE, budget=400, batches=1)
    _, weights, summary = adopted(policy)
    policy.update(summary)
    arms = PLANE.span.coordinates(PLANE.source)
    centered = arms - weights @ arms
    gram = centered.T @ ((summary.counts + weights)[:, None] * centered)
    level = summary.sums.sum() / summary.pulls
    slope = np.linalg.solve(gram, centered.T @ (summary.sums - level * summary.counts))
    np.testing.assert_allclose(policy.theta, PLANE.span.dual @ slope, rtol=1e-9)


def test_a_plan_that_was_not_told_yet_leaves_no_trace_when_another_is_adopted() -> None:
    asked, fresh = (AnytimeBAI(PLANE, bounds=(-3, 3)) for _ in range(2))
    rng = np.random.default_rng(3)
    for _ in range(6):
        plan = tilted(next_plan(asked))
        asked.adopt(plan)
        fresh.adopt(plan)
        summary = LinearRewards(PLANE)(plan, rng)
        asked.update(summary)
        fresh.update(summary)
        assert asked.evidence().tolist() == fresh.evidence().tolist()
        assert same_plan(next_plan(asked), next_plan(fresh))


def test_a_late_summary_leaves_an_adopted_plan_as_it_was() -> None:
    one, other = (AnytimeBAI(PLANE, mean_bound=3) for _ in range(2))
    rewards, rng = LinearRewards(PLANE), np.random.default_rng(3)
    first = next_plan(one)
    summary, late = rewards(first, rng), rewards(first, rng)
    for policy in (one, other):
        policy.adopt(first)
        policy.update(summary)
    second = next_plan(one)
    one.amend(late, phase=1)
    one.adopt(second)  # again, as whoever opens the experiment then does
    other.adopt(second)
    other.amend(late, phase=1)
    summary = rewards(second, rng)
    one.update(summary)
    other.update(summary)
    assert one.evidence().tolist() == other.evidence().tolist()


def test_plans_that_cannot_be_followed_are_refused() -> None:
    uneven = Plan.fixed([1, 2, 1, 1], phase=1)
    with pytest.raises(ProtocolError, match="equally often"):
        BernsteinElimination(PLANE, bounds=(0, 1)).adopt(uneven)
    with pytest.raises(ProtocolError, match="do not inform about all contrasts"):
        AnytimeBAI(PLANE).adopt(Plan.randomised([0.5, 0.5, 0, 0], 32, phase=1, open=True))
    with pytest.raises(ProtocolError, match="randomised plans"):
        AnytimeBAI(PLANE).adopt(uneven)
    with pytest.raises(ProtocolError, match=r"phase 1; got one of phase 2"):
        AnytimeBAI(PLANE).adopt(Plan.randomised(np.full(4, 0.25), 32, phase=2, open=True))
    with pytest.raises(ProtocolError, match="over 3 arms; the problem has 4"):
        SPBAI(PLANE).adopt(Plan.randomised(np.full(3, 1 / 3), 32, phase=1))


def test_a_length_that_rounding_moves_is_not_taken_for_a_phase_cut_short() -> None:
    """What a phase wants is computed from its plan, and may come out a pull longer elsewhere."""
    policy = SPBAI(PLANE, anchor=1, max_pulls=10**9)
    plan = next_plan(policy)
    fewer = replace(plan, pulls=plan.pulls - 1)
    policy.adopt(fewer)
    policy.update(LinearRewards(PLANE)(fewer, np.random.default_rng(0)))
    assert policy.recommend().reason == "running"
