"""Evaluations that finished earlier, whose judge has changed, that begin anew, or cannot judge."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judges import ITEMS, OPTIONS, item_of, score

from bestarm import Experiment, evaluate
from bestarm.errors import InvalidInputError, JudgeError
from bestarm.evaluation import Evaluation, run

Evaluator = Callable[..., Evaluation]
CHANGED = "The judge's file has changed"


@pytest.fixture
def evaluated(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Evaluator:
    """Evaluate on a few items, one call at a time, without pauses between retries."""
    monkeypatch.setattr(run, "backoff", lambda _: 0)
    usual: dict[str, Any] = {"name": "usual", "store": sqlite_url, "seed": 3, "concurrency": 1}
    return lambda judge, items=ITEMS[:12], **other: evaluate(judge, OPTIONS, items, **usual | other)


def judge_in(path: Path, text: str) -> Callable[[str, str], float]:
    """The judge of a file with this text."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("judge_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, path, "exec"), vars(module))
    judge: Callable[[str, str], float] = module.judge
    return judge


def constant(option: str) -> str:
    return f"def judge(option, item):\n    return float(option == {option!r})\n"


def test_one_that_finished_earlier_says_that_nothing_was_judged(evaluated: Evaluator) -> None:
    first = evaluated(score)
    assert first.judged_now == first.judgements == 32
    assert "Finished earlier" not in str(first)
    again = evaluated(score)
    assert (again.judgements, again.judged_now) == (32, 0)
    assert str(again).startswith("Finished earlier: nothing was judged. To judge everything anew, ")
    assert "`fresh=True` (`--fresh`)" in str(again)


def test_a_run_that_continues_says_what_it_judged_itself(evaluated: Evaluator) -> None:
    first = evaluated(score, max_cost=5)
    assert (first.judgements, first.judged_now) == (5, 5)
    second = evaluated(score, max_cost=5)
    assert (second.judgements, second.judged_now) == (5, 0)
    assert "Finished earlier" not in str(second)  # it is capped, not finished
    third = evaluated(score)
    assert (third.judgements, third.judged_now) == (32, 27)


@pytest.mark.parametrize("cost", [5, None])
def test_a_judge_whose_file_has_changed_is_noticed(
    cost: float | None, evaluated: Evaluator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where it goes on and where it had finished; in every later run, as scores are mixed."""
    path = tmp_path / "judge.py"
    first = evaluated(judge_in(path, constant("good")), max_cost=cost)
    assert not first.judge_changed
    assert not evaluated(judge_in(path, constant("good")), max_cost=cost).judge_changed
    assert CHANGED not in caplog.text
    other = judge_in(path, constant("poor"))
    for most in (7, None):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found = evaluated(other, max_cost=most)
        assert found.judge_changed
        assert CHANGED in caplog.text
        assert CHANGED in str(found)


def test_a_judge_without_a_file_is_not_said_to_have_changed(
    evaluated: Evaluator, tmp_path: Path
) -> None:
    evaluated(judge_in(tmp_path / "judge.py", constant("good")), max_cost=5)
    (tmp_path / "judge.py").unlink()
    namespace: dict[str, Any] = {}
    exec(compile(constant("good"), "<input>", "exec"), namespace)
    assert not evaluated(namespace["judge"]).judge_changed


def test_fresh_judges_anew_and_keeps_what_was_judged(
    evaluated: Evaluator, sqlite_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "judge.py"
    first = evaluated(judge_in(path, constant("good")))
    other = judge_in(path, constant("poor"))
    fresh = evaluated(other, fresh=True, seed=4, max_cost=5)
    assert (fresh.name, fresh.judged_now, fresh.judge_changed) == ("usual-2", 5, False)
    found = evaluated(other, seed=4)  # without it, the last one goes on
    assert (found.name, found.judged_now) == ("usual-2", found.judgements - 5)
    assert (first.recommendation.label, found.recommendation.label) == ("good", "poor")
    assert evaluated(other, ITEMS[:3], fresh=True).name == "usual-3"  # even of other items
    with Experiment.open(sqlite_url, "usual") as experiment:
        assert len(experiment.outcomes()) == first.judgements
        assert experiment.recommendation().label == "good"
        assert experiment.verify().sound


def test_fresh_takes_no_name_of_another_experiment_and_none_where_nothing_was_judged(
    evaluated: Evaluator, sqlite_url: str
) -> None:
    assert evaluated(score, fresh=True).name == "usual"
    Experiment.create(sqlite_url, "usual-2", ["a", "b"], bounds=(0, 1)).close()
    assert evaluated(score, fresh=True).name == "usual-3"
    assert evaluated(score).name == "usual-3"


def hard_on(question: int) -> Callable[[str, str], float]:
    """A judge that fails on one item."""

    def judge(option: str, item: str) -> float:
        if item_of(item) == question:
            raise ValueError("no answer")
        return score(option, item)

    return judge


def test_pairs_that_cannot_be_judged_may_have_a_score(
    evaluated: Evaluator, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = evaluated(hard_on(4), retries=1, on_failure=0.25)
    assert found.recommendation.final
    assert found.unjudged == 3
    assert found.cost == found.judgements + 3  # two calls for each of these pairs
    assert "3 pairs could not be judged" in str(found)
    assert "the judge failed 2 times, last with ValueError: no answer" in caplog.text
    with Experiment.open(sqlite_url, "usual") as experiment:
        rows = experiment.assignments().merge(experiment.outcomes(), on="id")
        assert experiment.verify().sound
    assert rows.loc[rows["unit"] == "5", "reward"].tolist() == [0.25] * 3
    assert evaluated(score).unjudged == 3  # the log has it


@pytest.mark.parametrize("wrong", [None, "no answer", 2, float("nan")])
def test_what_is_not_a_score_has_that_score_as_well(wrong: object, evaluated: Evaluator) -> None:
    found = evaluated(
        lambda option, item: wrong if item_of(item) == 4 else score(option, item), on_failure=0
    )
    assert (found.recommendation.final, found.unjudged) == (True, 3)
    assert found.cost == found.judgements


def test_the_advice_where_a_pair_cannot_be_judged_names_the_score(evaluated: Evaluator) -> None:
    with pytest.raises(JudgeError, match="ValueError: no answer") as failed:
        evaluated(hard_on(4), retries=0)
    assert "give `on_failure` (`--on-failure`), the score of pairs" in str(failed.value)
    assert evaluated(hard_on(4), retries=0, on_failure=0).recommendation.final


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "low", True])
def test_the_score_of_a_failure_lies_within_the_bounds(
    value: object, evaluated: Evaluator, sqlite_url: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        evaluated(score, on_failure=value)
    assert refused.value.field == "on_failure"


class Grader:
    def __call__(self, option: str) -> float:
        return 0.5


def two_more(option: str, item: str, model: str, key: str) -> float:
    return 0.5


async def none_async() -> float:
    return 0.5


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (lambda item: 0.5, "<lambda>(item) (too many positional arguments)"),
        (two_more, "two_more(option: 'str', item: 'str', model: 'str', key: 'str') -> 'float'"),
        (none_async, "none_async() -> 'float' (too many positional arguments)"),
        (Grader(), "Grader(option: 'str') -> 'float' (too many positional arguments)"),
        (lambda *, option, item: 0.5, "<lambda>(*, option, item) (too many positional arguments)"),
    ],
)
def test_a_judge_of_other_arguments_is_refused_before_its_first_call(
    judge: Any, words: str, evaluated: Evaluator, sqlite_url: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        evaluated(judge)
    assert refused.value.field == "judge"
    assert str(refused.value).startswith(
        f"`judge` must accept an option and an item, as two positional arguments; got {words}"
    )
    assert not Experiment.list(sqlite_url)


def test_a_judge_may_have_further_arguments_with_values(evaluated: Evaluator) -> None:
    def judge(option: str, item: str, scale: float = 1.0, *rest: str, **more: str) -> float:
        return scale * score(option, item)

    assert evaluated(partial(judge, scale=0.5), ITEMS[:3]).judged_now == 9
