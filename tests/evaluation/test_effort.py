"""Plans of evaluations, beside the judgements that real evaluations take."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bestarm import Problem, evaluate
from bestarm.errors import InvalidInputError
from bestarm.evaluation import plan_evaluation
from bestarm.evaluation.effort import judge_table, simulated_table
from bestarm.evaluation.inputs import Question
from bestarm.evaluation.log import policy_of
from bestarm.policies.registry import load

OPTIONS, ITEMS = ["a", "b", "c"], [f"item {number}" for number in range(120)]
KINDS: list[dict[str, Any]] = [
    {},
    {"tolerance": 0.05, "control": "b"},
    {"gate": True, "control": "c", "tolerance": 0.02},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lead", [0.05, 0.3])
def test_a_simulated_evaluation_judges_what_a_real_one_does(
    kind: dict[str, Any], lead: float, tmp_path: Path
) -> None:
    """One call at a time, on the same table in the same order, option by option."""
    question = Question(OPTIONS, ITEMS, **kind)
    table = simulated_table(question, lead, 0.5, np.random.default_rng(1))
    store = f"sqlite:///{tmp_path / 'store.db'}"

    def judge(option: str, item: str) -> float:
        return float(table[ITEMS.index(item), OPTIONS.index(option)])

    usual: dict[str, Any] = {"name": "real", "store": store, "seed": 7, "concurrency": 1}
    found = evaluate(judge, OPTIONS, ITEMS, **usual, **kind)
    name, options = policy_of(question)
    policy = load(name)(Problem(OPTIONS), **options)
    made = judge_table(policy, table[question.order(7)])
    assert made.tolist() == [score.judged for score in found.scores]
    assert policy.recommend().label == found.recommendation.label


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(("lead", "noise"), [(0.05, 0.5), (0.1, 0.5), (0.0, 0.6)])
def test_leads_of_a_simulated_table_are_exact(lead: float, noise: float, spread: bool) -> None:
    question = Question(OPTIONS, ["any"] * 2000, bounds=(0, 10))
    table = simulated_table(
        question, 10 * lead, 10 * noise, np.random.default_rng(2), spread=spread
    )
    means = np.sort(table.mean(axis=0))[::-1]
    assert means[0] - means == pytest.approx(10 * lead * np.array([0, 1, 2 if spread else 1]))
    apart = (table[:, 0] - table[:, 1]).std()
    wanted = 10 * max(noise, np.sqrt(lead))
    # Over 2,000 items the deviation of a share differs by some 3 % from table to table.
    assert wanted * 0.85 < apart < wanted * 1.15
    gate = Question(OPTIONS, ["any"] * 200, control="b", gate=True)
    below, control, _ = simulated_table(gate, -0.1, 0.5, np.random.default_rng(2)).mean(axis=0)
    assert below - control == pytest.approx(-0.1)


def test_comparisons_take_as_many_as_real_ones(tmp_path: Path) -> None:
    """Means of 60 simulated and 20 real ones are within 4.5 standard errors, but once in 10⁵."""
    lead, rng, names = 0.5, np.random.default_rng(3), count()
    items = ["any"] * 100
    best = {"preferred": "b"}

    def prefer(first: str, second: str, item: str) -> str:
        gain = lead * ((first == best["preferred"]) - (second == best["preferred"]))
        return first if rng.random() < (1 + gain) / 2 else second

    usual: dict[str, Any] = {"store": f"sqlite:///{tmp_path / 'store.db'}", "concurrency": 1}
    real = np.array(
        [
            evaluate(
                None, OPTIONS, items, compare=prefer, name=f"x{next(names)}", seed=seed, **usual
            ).judgements
            for seed in range(20)
        ]
    )
    plans = [
        plan_evaluation(OPTIONS, items, compare=True, leads=[lead], runs=1, seed=seed)
        for seed in range(60)
    ]
    planned = np.array([plan.efforts[0].judgements for plan in plans])
    error = np.sqrt(real.var() / len(real) + planned.var() / len(planned))
    assert abs(real.mean() - planned.mean()) < 4.5 * error


def test_a_larger_lead_takes_less_and_nothing_takes_more_than_everything() -> None:
    """The quantiles of 10 runs at such leads overlap once in 10⁶ times or so."""
    plan = plan_evaluation(OPTIONS, ["any"] * 400, leads=[0.01, 0.3], price=0.5)
    small, large = plan.efforts
    assert large.high < small.low <= small.judgements <= small.high <= plan.all_judgements == 1200
    assert large.spread is not None
    assert large.spread < large.judgements
    assert (plan.all_cost, small.decided) == (600.0, 1.0)
    assert large.cost == large.judgements / 2
    words = str(plan)
    assert words.startswith(
        "3 options on 400 items: judging everything takes 1,200 judgements, which cost 600."
    )
    assert "if evenly spread" in words
    assert "with a standard deviation of 0.5 (`noise`)" in words


def test_costs_are_of_the_options_that_are_judged() -> None:
    plan = plan_evaluation(["a", "b"], ["any"] * 50, leads=[0.5], price={"a": 3, "b": 1})
    assert plan.all_cost == 200
    for effort in plan.efforts:  # both are judged on the same items
        assert effort.cost == pytest.approx(2 * effort.judgements, abs=2)


def test_a_plan_is_the_same_for_the_same_seed_and_reports_its_progress() -> None:
    seen: list[tuple[int, int]] = []
    usual: dict[str, Any] = {"leads": [0.3, 0.4], "runs": 3}
    plan = plan_evaluation(OPTIONS, ["any"] * 90, progress=lambda *done: seen.append(done), **usual)
    assert plan == plan_evaluation(OPTIONS, ["any"] * 90, **usual)
    assert seen == [(done, 6) for done in range(1, 7)]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"noise": 2}, "`noise` must be at most 1, the range of the scores; got 2"),
        ({"noise": 0}, "`noise` must"),
        ({"leads": [1.5]}, "`leads` must be at most 1"),
        ({"leads": [float("nan")]}, "`leads` must be at most 1"),
        ({"runs": 0}, "`runs` must"),
        ({"compare": True, "price": {"a": 1, "b": 1, "c": 1}}, "`price` is one number"),
        ({"gate": True}, "A gate compares options with a control"),
    ],
)
def test_what_cannot_be_planned_is_refused(other: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        plan_evaluation(OPTIONS, ITEMS, **other)
