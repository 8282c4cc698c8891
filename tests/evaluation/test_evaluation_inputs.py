"""What evaluations are made of: what is refused, what a resumed run compares, what is printed."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from judges import ITEMS, OPTIONS, score

from bestarm import Experiment, Problem, evaluate
from bestarm.errors import InvalidInputError
from bestarm.evaluation import Evaluation, Score, run
from bestarm.evaluation.inputs import Question
from bestarm.recommendation import Recommendation

PROMPTS = [{"name": name, "prompt": f"{name}: "} for name in OPTIONS]


def never(option: Any, item: Any) -> float:
    raise AssertionError("no call may be made")


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("judge", {"judge": "judge.py"}),
        ("options", {"options": "good,fair"}),
        ("options", {"options": ["good"]}),
        ("options", {"options": ["good", "good"]}),
        ("options", {"options": ["good", 3]}),
        ("options", {"options": ["good", " "]}),
        ("options", {"options": ["good", "two\nlines"]}),
        ("options", {"options": ["good", "long" * 51]}),
        ("options", {"options": ["good", {"prompt": "without a name"}]}),
        ("options", {"options": ["good", {"name": "fair", "judge": object()}]}),
        ("items", {"items": []}),
        ("items", {"items": "question 1"}),
        ("items", {"items": [1, 2]}),
        ("items", {"items": [{"answer": {1, 2}}]}),
        ("name", {"name": "a/b"}),
        ("delta", {"delta": 5}),
        ("bounds", {"bounds": (1, 0)}),
        ("concurrency", {"concurrency": 0}),
        ("retries", {"retries": -1}),
        ("price", {"price": 0}),
        ("max_cost", {"max_cost": float("nan")}),
        ("seed", {"seed": -1}),
        ("progress", {"progress": "yes"}),
        ("url", {"store": "bestarm.db"}),
    ],
)
def test_an_invalid_argument_is_refused_before_any_call(
    field: str, settings: dict[str, Any], sqlite_url: str
) -> None:
    usual: dict[str, Any] = {
        "judge": never,
        "options": OPTIONS,
        "items": ITEMS,
        "name": "x",
        "store": sqlite_url,
    }
    with pytest.raises(InvalidInputError) as refused:
        evaluate(**usual | settings)
    assert refused.value.field == field


class FewThreads(threading.Thread):
    """A thread of a system that gives as many as `left` says."""

    left, started = 0, list["FewThreads"]()

    def start(self) -> None:
        if not self.left:
            raise RuntimeError("can't start new thread")
        type(self).left -= 1
        self.started.append(self)
        super().start()


@pytest.fixture
def few_threads(monkeypatch: pytest.MonkeyPatch) -> type[FewThreads]:
    FewThreads.left, FewThreads.started = 6, []
    monkeypatch.setattr(run, "Thread", FewThreads)
    return FewThreads


def test_there_are_no_more_threads_than_pairs(
    few_threads: type[FewThreads], sqlite_url: str
) -> None:
    found = evaluate(score, OPTIONS, ITEMS[:2], name="x", store=sqlite_url, concurrency=10**6)
    assert found.judgements == len(few_threads.started) == 2 * len(OPTIONS)


def test_more_threads_than_the_system_gives_are_refused(
    few_threads: type[FewThreads], sqlite_url: str
) -> None:
    with pytest.raises(InvalidInputError, match="gives no more than 6") as refused:
        evaluate(never, OPTIONS, ITEMS, name="x", store=sqlite_url, concurrency=7)
    assert (refused.value.field, refused.value.value) == ("concurrency", 7)
    assert "async judge" in refused.value.remedy
    for thread in few_threads.started:  # which are not left behind
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("items", {"items": ITEMS[1:]}),
        ("items", {"items": [*ITEMS[:-1], "question 99?"]}),
        ("items", {"items": ITEMS[::-1]}),
        ("options", {"options": PROMPTS[1:]}),
        ("options", {"options": [*PROMPTS[:-1], PROMPTS[-1] | {"prompt": "poor! "}]}),
        ("delta", {"delta": 0.1}),
        ("bounds", {"bounds": (0, 2)}),
        ("seed", {"seed": 4}),
    ],
)
def test_a_resumed_run_is_about_the_same(
    field: str, other: dict[str, Any], sqlite_url: str
) -> None:
    usual: dict[str, Any] = {"options": PROMPTS, "items": ITEMS, "name": "x", "store": sqlite_url}

    def judge(option: dict[str, str], item: str) -> float:
        return score(option["name"], item)

    evaluate(judge, max_cost=2, seed=3, **usual)
    with pytest.raises(InvalidInputError, match="'x' was created with different") as refused:
        evaluate(never, **usual | other)
    assert refused.value.field == field
    assert evaluate(judge, max_cost=3, **usual).judgements == 3


def test_an_experiment_that_is_not_an_evaluation_is_not_resumed(sqlite_url: str) -> None:
    options = {"bounds": [0, 1]}
    Experiment.create(sqlite_url, "x", Problem(OPTIONS), policy_options=options).close()
    with pytest.raises(InvalidInputError) as refused:
        evaluate(never, OPTIONS, ITEMS, name="x", store=sqlite_url)
    assert refused.value.field == "items"


def test_its_description_says_what_it_is_about(sqlite_url: str) -> None:
    evaluate(never, OPTIONS, ITEMS, name="x", store=sqlite_url, max_cost=0)
    with Experiment.open(sqlite_url, "x") as experiment:
        assert experiment.description == (
            "Which of 3 options is best on 100 items? Each option that is left is judged on each "
            "item drawn."
        )
        [note] = [each.data for each in experiment.events() if each.kind == "noted"]
    assert {type(note[field]) for field in ("options", "items")} == {int}


def test_every_order_of_items_is_as_likely_as_any_other() -> None:
    question = Question(("a", "b"), ("x", "y", "z"))
    orders = Counter(tuple(question.order(seed).tolist()) for seed in range(1200))
    assert len(orders) == 6
    # A count is 200 ± 13; the seeds are fixed, so chance has had its say.
    assert all(150 < times < 250 for times in orders.values())


def test_the_order_of_items_stays_as_it_is() -> None:
    """Stored evaluations rest on it: recorded when it was written."""
    question = Question(("a", "b"), tuple("abcdefgh"))
    assert question.order(5).tolist() == [1, 3, 2, 7, 6, 4, 5, 0]


def result(**other: Any) -> Evaluation:
    recommendation = Recommendation(
        target=1,
        label="friendly",
        final=True,
        reason="identified",
        pulls=90,
        error_bound=0.05,
        active=(1,),
        statement="'friendly' is the best.",
    )
    scores = (Score("short", 20, 0.25, False), Score("friendly", 40, 0.875, True))
    made = Evaluation(
        name="x",
        store="sqlite:///x.db",
        state="finished",
        recommendation=recommendation,
        scores=scores,
        judgements=60,
        judged_now=60,
        unjudged=0,
        judge_changed=False,
        all_judgements=2000,
        failures=2,
        lost=0,
        cost=62.0,
        saved_cost=1940.0,
        max_cost=None,
        capped=False,
        seconds=1.5,
        priced=False,
    )
    return replace(made, **other)


def test_a_result_is_printed_in_words() -> None:
    assert str(result()) == (
        "'friendly' is the best.\n"
        "\n"
        "option    mean score  judged\n"
        "short           0.25      20  out\n"
        "friendly       0.875      40  best\n"
        "\n"
        "60 of 2,000 judgements (3 %).\n"
        "Saved: 1,940 judgements (97 %)."
    )
    assert str(result(priced=True, cost=6.2, saved_cost=194.0)).endswith(
        "60 of 2,000 judgements (3 %), which cost 6.2.\n"
        "Saved: 1,940 judgements (97 %), and 194 of the cost."
    )
    lost = (
        "60 of 2,000 judgements (3 %), which cost 6.5.\n3 calls were in flight when the evaluation"
    )
    assert lost in str(result(priced=True, cost=6.5, saved_cost=194.0, lost=3))


def test_a_result_before_the_end_says_how_to_go_on() -> None:
    recommendation = replace(
        result().recommendation, final=False, reason="running", statement="Not decided."
    )
    scores = (Score("short", 0, None, True), Score("friendly", 2, 0.5, True))
    early = result(recommendation=recommendation, scores=scores, state="running")
    assert "\nshort              –       0\nfriendly         0.5       2  leads\n" in str(early)
    capped = replace(early, capped=True, max_cost=62)
    assert str(capped).endswith(
        "60 of 2,000 judgements (3 %).\nStopped at the cost cap of 62. All judgements are kept: "
        "to continue, start the same evaluation with a larger cap."
    )
    paused = str(replace(early, state="paused"))
    assert paused.endswith("It was paused by hand. All judgements are kept.")
