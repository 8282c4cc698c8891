"""Plans with a window simulate the delay of outcomes, and count it in days."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem, simulate
from bestarm.errors import InvalidInputError
from bestarm.planning import Effort, ExperimentPlan, PlanRequest, plan_experiment
from bestarm.planning.worlds import ScenarioWorld

PROBLEM = Problem(np.eye(3), delta=0.1, noise=0.5)
ASKED: dict[str, Any] = {
    "gap": 0.4,
    "drift": "none",
    "bounds": (0, 1),
    "policies": ["anytime", "sp-bai-sharp"],
    "per_day": 200,
    "runs": 12,
    "seed": 5,
}


@pytest.fixture(scope="module")
def plan() -> ExperimentPlan:
    return plan_experiment(PlanRequest(PROBLEM, **ASKED, window="2d"))


def test_figures_are_those_of_a_simulation_with_the_delay(plan: ExperimentPlan) -> None:
    assert (plan.window, plan.delay) == (2 * 86_400, 400)
    request = PlanRequest(PROBLEM, **ASKED)
    environment, _ = ScenarioWorld(request, request.wanted_scenarios()[0]).make()
    method = partial(AnytimeBAI, bounds=(0, 1), max_pulls=10**6)
    results = simulate(method, environment, runs=12, seed=5, delta=0.1, delay=400)
    found = plan.forecasts[0]
    assert found.pulls.mean == results.mean_pulls
    assert found.rounds.mean == results.rounds.mean()
    assert found.counted is found.pulls


def test_an_open_plan_goes_on_and_a_closed_one_waits(plan: ExperimentPlan) -> None:
    prompt = plan_experiment(PlanRequest(PROBLEM, **ASKED))
    opened, closed = plan.forecasts
    assert plan.waiting(opened) == 0
    assert opened.pulls.mean > prompt.forecasts[0].pulls.mean + 400
    assert closed.pulls == prompt.forecasts[1].pulls
    # A phase or more, each of which ends two days after its last pull.
    waiting = plan.waiting(closed)
    assert waiting is not None
    assert waiting == pytest.approx((closed.rounds.mean - closed.pulls.mean) / 200)
    assert waiting > 399 / 200
    assert plan.days(closed.rounds.median) == closed.rounds.median / 200
    assert [prompt.waiting(each) for each in prompt.forecasts] == [None, None]


def test_a_document_has_the_window_and_the_waiting(plan: ExperimentPlan) -> None:
    document = plan.to_dict()
    assert (document["window"], document["delay"]) == (172_800, 400)
    days = [each["days"] for each in document["forecasts"]]
    assert [each["waiting"] for each in days] == [plan.waiting(each) for each in plan.forecasts]
    assert days[1]["median"] == plan.forecasts[1].rounds.median / 200


@pytest.mark.parametrize(
    ("window", "per_day", "delay"),
    [(None, 500, 0), ("7d", 500, 3500), (86_400, 10.5, 11), ("1h", 5, 1), ("90s", 960, 1)],
)
def test_the_delay_in_rounds(window: Any, per_day: float, delay: int) -> None:
    assert PlanRequest(PROBLEM, gap=1, window=window, per_day=per_day).delay == delay


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"window": "7d"}, "per_day", "A window needs `per_day`"),
        ({"window": 0, "per_day": 10}, "window", "`window` must be positive"),
        ({"window": "soon", "per_day": 10}, "window", "a time like 90s"),
        ({"window": "7d", "per_day": 10, "block": 2}, "window", "together with blocks"),
        ({"window": "7d", "per_day": 1e9}, "window", "7e.09 outcomes are assigned; at most 10,000"),
    ],
)
def test_windows_that_cannot_be_planned_are_refused(
    options: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words) as refused:
        PlanRequest(PROBLEM, gap=1, **options)
    assert refused.value.field == field
    assert refused.value.remedy or field == "window"


def test_the_estimate_is_of_runs_with_the_delay() -> None:
    found: list[Effort] = []
    for options in ({"window": "20d"}, {}):
        request = PlanRequest(PROBLEM, **ASKED | {"runs": 1}, **options)  # type: ignore[arg-type]
        plan_experiment(request, on_estimate=found.append)
    late, prompt = (effort.jobs for effort in found)
    assert late[0].pulls > 4000 > prompt[0].pulls  # made before the first outcome is known
    assert late[1].pulls == prompt[1].pulls
