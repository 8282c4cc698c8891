"""A plan states how precise a figure is only where that is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bestarm import Problem
from bestarm.planning import ExperimentPlan, PlanRequest, Spread, plan_experiment

PROBLEM = Problem(np.eye(3), delta=0.05)


def spread(numbers: list[int], cut: int = 0) -> Spread:
    """Of experiments, the last of which were cut."""
    return Spread.of(np.array(numbers), np.arange(len(numbers)) >= len(numbers) - cut)


@pytest.mark.parametrize("runs", range(1, 11))
def test_a_median_has_no_interval_below_six_runs(runs: int) -> None:
    """The range of n runs misses the median with probability 2/2ⁿ, which is 0.0625 for n = 5."""
    found = spread(list(range(1, runs + 1)))
    if runs < 6:
        assert (found.median_interval, found.precision) == (None, None)
    else:
        assert found.median_interval == (1, runs)
    assert found.cut == ()


def test_the_interval_of_a_median_covers_it() -> None:
    """Of 4,000 medians at 95 %, fewer than 3,745 are covered with probability below 10⁻⁴."""
    rng = np.random.default_rng(0)
    for runs in (6, 25, 200):
        drawn = rng.integers(0, 10**9, (4000, runs))
        ends = [spread(each.tolist()).median_interval for each in drawn]
        assert sum(low <= 5 * 10**8 <= high for low, high in filter(None, ends)) >= 3745


@pytest.mark.parametrize(
    ("cut", "names", "precise"),
    [
        (0, (), True),
        (1, ("mean", "most"), True),
        (2, ("mean", "high", "most"), True),
        (4, ("mean", "high", "most"), True),
        (5, ("mean", "high", "most"), False),  # the interval goes up to run 16
        (10, ("mean", "median", "high", "most"), False),  # the median lies between runs 10 and 11
        (17, ("mean", "median", "high", "most"), False),
        (18, ("mean", "low", "median", "high", "most"), False),  # 10 % is between runs 2 and 3
        (20, ("mean", "low", "median", "high", "most"), False),
    ],
)
def test_figures_that_depend_on_cut_runs_are_marked(
    cut: int, names: tuple[str, ...], precise: bool
) -> None:
    """A mark is right if the figure changes once the runs that were cut go on."""
    numbers = [*range(100, 120 - cut), *[200] * cut]
    found, longer = spread(numbers, cut), spread([*numbers[: 20 - cut], *[900] * cut])
    assert found.cut == names
    assert [name for name in ("mean", "low", "median", "high", "most")
            if getattr(found, name) != getattr(longer, name)] == list(names)  # fmt: skip
    assert (found.median_interval is not None) == precise
    assert (found.precision is not None) == precise
    assert (found.mean_interval is not None) == (cut == 0)


def test_a_run_that_was_cut_early_casts_doubt_on_all_later_ones() -> None:
    """Runs are cut by pulls: those with larger blocks have had fewer rounds then."""
    found = spread([*range(20, 39), 30], cut=1)
    assert found.cut == ("mean", "high", "most")
    found = spread([*range(20, 39), 25], cut=1)
    assert found.cut == ("mean", "median", "high", "most")


def planned(**options: Any) -> ExperimentPlan:
    return plan_experiment(PlanRequest(PROBLEM, policies=["anytime"], **options))


def test_experiments_that_were_cut_are_marked_in_words_and_in_json() -> None:
    plan = planned(gap=0.1, runs=8, max_pulls=300, per_day=10)
    assert any("had no winner in 8 of 8" in sentence for sentence in plan.warnings)
    document = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert (document["interrupted"], document["scenarios"][0]["drift"]) == (False, "sine")
    (found,) = document["forecasts"]
    assert (found["capped"], found["wrong"], found["pulls"]["median"]) == (8, 0, 300)
    assert found["rounds"]["cut"] == ["mean", "low", "median", "high", "most"]
    assert found["rounds"]["median_interval"] is found["rounds"]["mean_interval"] is None
    assert found["days"]["cut"] == ["mean", "low", "median", "high"]


def test_years_of_experiments_that_were_cut_are_a_least() -> None:
    (sentence,) = [each for each in planned(gap=0.1, runs=1, max_pulls=800, per_day=2).warnings
               if "Even the quickest" in each]  # fmt: skip
    assert sentence.startswith("Even the quickest takes at least 1.1 years")
    plan = planned(gap=0.5, runs=1, per_day=1)
    (sentence,) = [each for each in plan.warnings if "Even the quickest" in each]
    years = plan.forecasts[0].rounds.median / 365
    assert sentence.startswith(f"Even the quickest takes {years:.1f} years at 1 outcome per day.")
    quick = planned(gap=0.5, runs=1, per_day=10**6)
    assert not any("Even the quickest" in each for each in quick.warnings)


def test_one_experiment_is_one() -> None:
    plan = planned(gap=0.5, runs=1)
    assert any(each.startswith("1 simulated experiment is too few") for each in plan.warnings)
    assert plan.to_dict()["forecasts"][0]["days"] is None
