"""Plans in blocks: what several options per round save, in rounds and in outcomes."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem, environments, simulate
from bestarm.environments.baselines import Independent
from bestarm.errors import InvalidInputError
from bestarm.planning import Drift, ExperimentPlan, PlanRequest, Scenario, plan_experiment

PROBLEM = Problem(np.eye(3), delta=0.05, noise=0.3, baseline=2.0)


def planned(**options: Any) -> ExperimentPlan:
    given = {"gap": 0.4, "block": 2, "runs": 8, "per_day": 20} | options
    return plan_experiment(PlanRequest(PROBLEM, **given))


@pytest.fixture(scope="module")
def plan() -> ExperimentPlan:
    return planned()


def test_rounds_and_pulls_are_those_of_the_simulation(plan: ExperimentPlan) -> None:
    theta = np.array(plan.scenarios[0].theta)
    level = -(theta.max() + theta.min()) / 2
    world = environments.Semiparametric.for_problem(
        PROBLEM, theta, baseline=Independent(2.0, level), noise=0.3, block=2
    )
    assert [(each.policy, each.block) for each in plan.forecasts] == [
        ("anytime", 2),
        ("anytime", 1),
    ]
    for each in plan.forecasts:
        found = simulate(partial(AnytimeBAI, block=each.block), world, runs=8, delta=0.05)
        assert each.pulls.mean == found.mean_pulls
        assert each.rounds.mean == found.mean_rounds
        assert each.rounds.median == np.median(found.rounds)
        assert each.pulls.mean_interval == pytest.approx(found.pulls_interval())
    pairs, single = plan.forecasts
    assert single.rounds == single.pulls
    assert pairs.pulls.mean == 2 * pairs.rounds.mean


def test_days_are_of_rounds(plan: ExperimentPlan) -> None:
    """`per_day` counts people, however many outcomes each of them gives."""
    pairs = plan.to_dict()["forecasts"][0]
    assert (
        pairs["days"]["median"] == pairs["rounds"]["median"] / 20 != pairs["pulls"]["median"] / 20
    )
    assert plan.scenarios[0].period == 20


def test_what_blocks_save_is_the_quotient_of_means(plan: ExperimentPlan) -> None:
    pairs, single = plan.forecasts
    (saved,) = plan.savings
    assert (saved.scenario, saved.policy) == ("people", "anytime")
    assert saved.rounds == pairs.rounds.mean / single.rounds.mean
    assert saved.pulls == pytest.approx(2 * saved.rounds)
    assert saved.rounds_interval[0] < saved.rounds < saved.rounds_interval[1]
    # People differ by far more than their own outcomes do: pairs need few of them.
    assert saved.rounds_interval[1] < 0.4
    assert json.loads(json.dumps(plan.to_dict()))["savings"][0]["rounds"] == saved.rounds


def test_nothing_is_said_to_be_saved_from_experiments_that_were_cut() -> None:
    cut = planned(max_pulls=60, runs=2)
    assert [each.capped for each in cut.forecasts] == [2, 2]
    assert [each.rounds.most for each in cut.forecasts] == [30, 60]  # the cap is on pulls
    assert cut.savings == ()
    assert any(each.startswith("anytime ×2 had no winner in 2 of 2") for each in cut.warnings)


def test_yes_and_no_in_blocks() -> None:
    problem = Problem(np.eye(2), delta=0.1, noise=0.5)
    apart = [Scenario("apart", gap=0.3, drift=Drift("switches", size=0.35, period=2))]
    plan = plan_experiment(
        PlanRequest(problem, scenarios=apart, bounds=(0, 1), block=2, runs=10, policies=["anytime"])
    )
    pairs, single = plan.forecasts
    assert pairs.rounds.mean < single.rounds.mean / 2  # half of it as of two options, and more
    assert single.wrong + pairs.wrong <= 5


def test_a_plan_without_blocks_has_one_size(plan: ExperimentPlan) -> None:
    request = PlanRequest(PROBLEM, gap=0.4)
    assert request.sizes == (1,)
    assert [each.name for each in request.wanted_scenarios()] == ["sine"]
    assert list(request.methods()) == ["anytime", "sp-bai-sharp", "sp-bai"]
    assert list(PlanRequest(PROBLEM, gap=0.4, block=2).methods()) == ["anytime"]
    assert plan.block == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"block": 4}, "`block` must be a whole number from 1 to 3; got 4"),
        ({"block": 0}, "`block` must be a whole number from 1 to 3; got 0"),
        ({"policies": ["anytime", "sp-bai"]}, "sp-bai does not take `block`"),
        ({"policies": {"mine": lambda problem, seed: None}}, "mine does not take `block`"),
        ({"max_pulls": 1}, "One round alone has 2 pulls"),
    ],
)
def test_what_cannot_be_planned_in_blocks_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        planned(**options)


def test_without_a_baseline_there_is_nothing_that_blocks_cancel() -> None:
    still = PROBLEM.with_baseline(0)
    with pytest.raises(InvalidInputError, match="nothing that blocks could cancel"):
        plan_experiment(PlanRequest(still, gap=0.4, block=2))
