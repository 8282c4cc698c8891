"""Evaluations: how many calls are made, when they are made again, and when they end."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from threading import Barrier, Lock
from typing import Any

import numpy as np
import pytest
from judges import ITEMS, OPTIONS, item_of, score, told_calls

from bestarm import AnytimeBAI, Experiment, Problem, evaluate
from bestarm.errors import BestArmError, InvalidInputError, JudgeError
from bestarm.evaluation import Evaluation, evaluate_async, run
from bestarm.evaluation.inputs import Question
from bestarm.live.watch.overview import Watch, overview
from bestarm.records import BlockPlan, Rounds

Evaluator = Callable[..., Evaluation]


@pytest.fixture
def evaluated(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Evaluator:
    """Evaluate with few calls at a time, and without pauses between retries."""
    monkeypatch.setattr(run, "backoff", lambda _: 0)
    usual: dict[str, Any] = {"name": "usual", "store": sqlite_url, "seed": 3, "concurrency": 2}
    return lambda judge, items=ITEMS, **other: evaluate(judge, OPTIONS, items, **usual | other)


class Counted:
    """A judge that counts its calls, and fails on the first ones of each pair.

    Args:
        failing: how often it fails on a pair.
        on: the pairs it fails on; all if None.
    """

    def __init__(self, failing: int = 0, on: tuple[str, int] | None = None) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self._failing, self._on, self._lock = failing, on, Lock()

    def __call__(self, option: str, item: str) -> float:
        pair = option, item_of(item)
        with self._lock:
            self.calls[pair] += 1
        if self._on in {None, pair} and self.calls[pair] <= self._failing:
            raise ValueError("too busy")
        return score(option, item)


def test_it_needs_no_data_frames(evaluated: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "pyarrow"):  # of another extra than stores are
        monkeypatch.setitem(sys.modules, package, None)
    assert evaluated(score, ITEMS[:3]).judgements == 3 * len(OPTIONS)


def test_it_ends_by_itself_and_says_what_it_saved(evaluated: Evaluator) -> None:
    judge = Counted()
    found = evaluated(judge)
    assert found.recommendation.final
    assert (found.recommendation.label, found.recommendation.reason) == ("good", "identified")
    assert found.recommendation.error_bound == 0.05
    assert found.judgements == judge.calls.total() == sum(each.judged for each in found.scores)
    assert set(judge.calls.values()) == {1}
    assert found.all_judgements == 300
    assert found.saved == (300 - found.judgements) / 300 > 0.3
    assert (found.state, found.capped, found.failures) == ("finished", False, 0)
    best = found.scores[0]
    drawn = [item for option, item in judge.calls if option == "good"]
    mean = sum(score("good", ITEMS[item]) for item in drawn) / len(drawn)
    assert (best.label, best.judged) == ("good", len(drawn))
    assert best.mean == pytest.approx(mean)
    again = evaluated(judge)
    assert again.judgements == judge.calls.total() == found.judgements
    assert again.recommendation.label == "good"
    with Experiment.open(found.store, found.name) as experiment:
        frame = experiment.assignments()
    frame = frame[frame["state"] == "told"]  # the answer may be clear before the last is judged
    judged = Counter(zip(frame["label"], frame["unit"].astype(int) - 1, strict=True))
    assert judged == judge.calls  # the number of an item, from 1


@pytest.mark.parametrize("wins", [True, np.bool_(True), 1, np.int8(1), np.float32(1), Fraction(1)])
def test_a_score_is_any_real_number(wins: object, evaluated: Evaluator) -> None:
    found = evaluated(lambda option, _: wins if option == "good" else 0, ITEMS[:1])
    assert [each.mean for each in found.scores] == [1, 0, 0]
    assert (found.recommendation.label, found.recommendation.reason) == ("good", "exact")


def test_when_all_is_judged_the_answer_is_exact(evaluated: Evaluator) -> None:
    means = {"good": 0.5, "fair": 0.51, "poor": 0.49}
    found = evaluated(lambda option, item: means[option] + item_of(item) / 1000, ITEMS[:20])
    assert (found.recommendation.label, found.recommendation.reason) == ("fair", "exact")
    assert found.judgements == found.all_judgements == 60
    assert (found.saved, found.saved_cost) == (0, 0)
    assert (found.state, found.recommendation.tied) == ("finished", ())
    assert str(found).endswith("60 of 60 judgements (100 %).")  # nobody stopped it


@pytest.mark.parametrize(
    ("means", "tied", "notes"),
    [
        ((0.3, 0.3, 0.3), (0, 1, 2), ["ties", "ties", "ties"]),
        ((0.2, 0.3, 0.3), (1, 2), ["out", "ties", "ties"]),
        ((0.3, 0.2, 0.1 + 0.2), (0, 2), ["ties", "out", "ties"]),  # but for rounding
    ],
)
def test_options_with_equal_means_over_all_items_tie(
    means: tuple[float, ...], tied: tuple[int, ...], notes: list[str], evaluated: Evaluator
) -> None:
    rewards = dict(zip(OPTIONS, means, strict=True))
    found = evaluated(lambda option, item: rewards[option] + item_of(item) / 100, ITEMS[:12])
    recommendation = found.recommendation
    assert (
        recommendation.final,
        recommendation.reason,
        recommendation.tied,
        recommendation.active,
    ) == (True, "exact", tied, tied)
    assert [place for place, each in enumerate(found.scores) if each.possible] == list(tied)
    *_, table, figures = str(found).split("\n\n")
    assert [line.split()[-1] for line in table.splitlines()[1:]] == notes
    assert figures == "36 of 36 judgements (100 %)."
    names = [repr(OPTIONS[place]) for place in tied]
    words = f"{', '.join(names[:-1])} and {names[-1]} tie as the best of 3 options over all 12"
    assert recommendation.statement.startswith(f"{words} items. No option was ruled out")
    assert f"one of {len(tied)} that tie as the best after 36 assignments" in str(recommendation)
    again = evaluated(score, ITEMS[:12]).recommendation  # the log says no more than before
    assert (again.tied, again.statement) == (tied, recommendation.statement)


def test_the_page_says_that_options_tie_and_the_record_replays(
    evaluated: Evaluator, sqlite_url: str
) -> None:
    evaluated(lambda option, _: 0.2 if option == "fair" else 0.3, ITEMS[:12])
    with Experiment.open(sqlite_url, "usual") as experiment:
        seen, headline = overview(experiment), Watch(experiment).headline()
        experiment.replay()
    tie = "‘good’ and ‘poor’ tie as the best of 3 options"
    assert seen.verdict == headline
    assert headline == f"{tie}, exactly: no option was ruled out before all 12 items were judged."
    assert seen.story[0].words == f"Decided: {tie}."
    assert (seen.leaders, seen.standing) == (("good", "poor"), "tied as the best")
    assert {each.label: each.status for each in seen.leaderboard} == {
        "good": "best",
        "poor": "best",
        "fair": "out",
    }


def test_a_tie_after_an_option_was_ruled_out_has_an_error_probability(
    evaluated: Evaluator, sqlite_url: str
) -> None:
    found = evaluated(lambda option, _: 0.0 if option == "fair" else 1.0, ITEMS[:60])
    assert found.recommendation.tied == (0, 2)
    with Experiment.open(sqlite_url, "usual") as experiment:
        seen, headline = overview(experiment), Watch(experiment).headline()
    made = f"{found.judgements} assignments in 60 rounds"
    assert seen.verdict == headline
    assert headline == f"‘good’ and ‘poor’ tie as the best of 3 options, at 95 % after {made}."


def test_calls_of_an_async_judge_are_as_many_at_a_time_as_allowed(evaluated: Evaluator) -> None:
    in_flight, most = 0, 0
    full = asyncio.Event()

    async def judge(option: str, item: str) -> float:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        if in_flight == 7:
            full.set()
        async with asyncio.timeout(120):
            await full.wait()
        await asyncio.sleep(0)
        in_flight -= 1
        return score(option, item)

    assert evaluated(judge, ITEMS[:9], concurrency=7).recommendation.label == "good"
    assert most == 7


def test_calls_of_a_plain_judge_are_made_in_threads(evaluated: Evaluator) -> None:
    together = Barrier(3)

    def judge(option: str, item: str) -> float:
        together.wait(120)
        return 0.5

    # With fewer than three at a time it would time out; with more, some would be left over.
    assert evaluated(judge, ITEMS[:6], concurrency=3).judgements == 18


def test_a_function_that_returns_a_coroutine_is_an_async_judge_too(evaluated: Evaluator) -> None:
    async def call(option: str, *, item: str) -> float:
        await asyncio.sleep(0)
        return score(option, item)

    found = evaluated(lambda option, item: call(option, item=item), ITEMS[:5])
    assert found.recommendation.label == "good"


def test_the_item_of_a_round_depends_on_the_seed_alone(
    evaluated: Evaluator, sqlite_url: str
) -> None:
    def drawn(**settings: Any) -> dict[int, int]:
        name = str(settings)
        evaluated(score, name=name, max_cost=36, **settings)
        told = told_calls(sqlite_url, name)
        with Experiment.open(sqlite_url, name) as experiment:
            rounds = experiment.assignments().set_index("id")["round"]
        return {int(rounds[number]): item for number, (_, item) in told.items()}

    one, many, other = drawn(concurrency=1), drawn(concurrency=9), drawn(seed=4)
    assert len(one) == len(many) == len(other) == 12
    assert one == many
    assert one != other


def test_one_call_at_a_time_decides_as_the_policy_alone_would(
    evaluated: Evaluator, sqlite_url: str
) -> None:
    found = evaluated(score, concurrency=1)
    order = Question(tuple(OPTIONS), tuple(ITEMS)).order(3)
    table = np.array([[score(option, ITEMS[item]) for option in OPTIONS] for item in order])
    rule = AnytimeBAI(Problem(OPTIONS), bounds=(0, 1), block=3, items=100)
    first = 0
    while isinstance(plan := rule.plan(), BlockPlan):
        rewards = table[first : first + plan.rounds, plan.blocks[0]]
        rule.update(Rounds.of(plan, np.zeros(plan.rounds, np.int64), rewards))
        first += plan.rounds
    assert found.judgements == rule.recommend().pulls
    assert found.recommendation.label == rule.recommend().label
    with Experiment.open(sqlite_url, "usual") as experiment:
        assert experiment.assignments()["state"].tolist() == ["told"] * found.judgements
        assert experiment.verify().sound


def test_a_call_that_failed_is_made_again(evaluated: Evaluator) -> None:
    judge = Counted(failing=2)
    found = evaluated(judge, ITEMS[:9], retries=2, price=0.5)
    assert found.recommendation.label == "good"
    judged = [pair for pair, calls in judge.calls.items() if calls == 3]
    assert found.judgements == len(judged)
    assert found.failures == judge.calls.total() - len(judged)
    assert found.cost == 0.5 * judge.calls.total()


def test_pauses_grow_up_to_a_minute() -> None:
    for retry, longest in [(1, 1), (2, 2), (3, 4), (4, 8), (7, 60), (50, 60)]:
        assert longest / 2 <= run.backoff(retry) <= longest


def test_a_pair_that_fails_too_often_ends_it_and_the_others_are_kept(
    evaluated: Evaluator, sqlite_url: str
) -> None:
    item = int(Question(tuple(OPTIONS), tuple(ITEMS)).order(3)[4])  # one of the first
    hard = ("fair", item)
    judge = Counted(failing=3, on=hard)
    with pytest.raises(JudgeError) as failed:
        evaluated(judge, retries=2)
    assert str(failed.value).startswith(
        f"On the option 'fair' and item {item + 1} ('question {item}'), the judge failed 3 times, "
        "last with ValueError: too busy (test_evaluation.py, line "
    )
    assert isinstance(failed.value.__cause__, ValueError)
    assert judge.calls[hard] == 3
    kept = set(told_calls(sqlite_url, "usual").values())
    assert kept == set(judge.calls) - {hard}
    found = evaluated(judge)
    assert found.recommendation.label == "good"
    assert {pair for pair, calls in judge.calls.items() if calls > 1} == {hard}


def test_an_error_of_the_judge_names_its_line(evaluated: Evaluator) -> None:
    async def judge(option: str, item: str) -> float:
        return score("unknown", item)

    once = r"failed once, last with KeyError: 'unknown' \(test_evaluation.py, line \d+\)"
    with pytest.raises(JudgeError, match=once) as failed:
        evaluated(judge, retries=0)
    assert isinstance(failed.value, BestArmError)


@pytest.mark.parametrize(
    "wrong", [1.01, -0.1, float("nan"), pytest.param(10**400, id="huge"), None, "0.5", 0.5j]
)
def test_what_is_not_a_score_is_refused_and_nothing_is_lost(
    wrong: object, evaluated: Evaluator, sqlite_url: str
) -> None:
    judge = Counted()

    def sloppy(option: str, item: str) -> object:
        right = judge(option, item)
        return wrong if judge.calls.total() == 6 else right

    with pytest.raises(JudgeError, match="which is not a number from 0 to 1") as refused:
        evaluated(sloppy, concurrency=1)
    assert refused.value.field == "judge"
    *known, last = judge.calls
    assert f"On the option {last[0]!r} and item {last[1] + 1} " in str(refused.value)
    assert list(told_calls(sqlite_url, "usual").values()) == known


def test_the_cost_cap_is_exact_to_the_call(evaluated: Evaluator) -> None:
    judge = Counted()
    found = evaluated(judge, price=0.1, max_cost=0.7)
    assert judge.calls.total() == found.judgements == 7  # 0.7 // 0.1 is 6 in floating point
    assert (found.cost, found.capped) == (0.7, True)
    assert not found.recommendation.final
    assert found.saved == 0
    assert evaluated(judge, price=0.1, max_cost=0.7).capped
    assert judge.calls.total() == 7
    evaluated(judge, price=0.1, max_cost=1.29)
    assert judge.calls.total() == 12
    whole = evaluated(judge, price=0.1, max_cost=100)
    assert (whole.capped, whole.recommendation.label) == (False, "good")
    assert set(judge.calls.values()) == {1}


def test_calls_that_fail_count_towards_the_cap_in_their_run(evaluated: Evaluator) -> None:
    judge = Counted(failing=1)
    first = evaluated(judge, max_cost=7, concurrency=1)
    assert (judge.calls.total(), first.judgements, first.failures, first.cost) == (7, 3, 4, 7)
    assert first.capped
    # Three are judged, so four more calls are allowed: one for the pair that failed.
    second = evaluated(judge, max_cost=7, concurrency=1)
    assert (judge.calls.total(), second.judgements) == (11, 5)


def test_a_cap_that_allows_all_pairs_is_not_in_the_way(evaluated: Evaluator) -> None:
    found = evaluated(lambda *_: 0.5, ITEMS[:5], max_cost=15)
    assert (found.judgements, found.capped) == (15, False)
    assert found.recommendation.reason == "exact"


def test_a_paused_evaluation_makes_no_calls(evaluated: Evaluator, sqlite_url: str) -> None:
    judge = Counted()
    evaluated(judge, max_cost=3)
    with Experiment.open(sqlite_url, "usual") as experiment:
        experiment.pause()
    found = evaluated(judge)
    assert (found.state, judge.calls.total()) == ("paused", 3)
    assert not found.capped
    assert str(found).endswith("It was paused by hand. All judgements are kept.")


def test_progress_is_reported_up_to_the_end(evaluated: Evaluator) -> None:
    reports: list[tuple[int, int]] = []
    found = evaluated(score, progress=lambda *report: reports.append(report))
    assert reports[0] == (0, 300)
    assert reports[-1] == (found.judgements, found.judgements)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert all(done <= most for done, most in reports)


def test_within_an_event_loop_the_async_function_is_to_be_used(sqlite_url: str) -> None:
    async def main() -> Evaluation:
        with pytest.raises(InvalidInputError, match="evaluate_async"):
            evaluate(score, OPTIONS, ITEMS, name="x", store=sqlite_url)
        return await evaluate_async(score, OPTIONS, ITEMS[:5], name="x", store=sqlite_url)

    assert asyncio.run(main()).recommendation.label == "good"


@pytest.mark.parametrize("cancellations", [1, 2])
def test_once_cancelled_it_waits_for_calls_in_flight_and_twice_it_does_not(
    cancellations: int, sqlite_url: str
) -> None:
    async def main() -> None:
        started, allowed = 0, asyncio.Event()

        async def judge(option: str, item: str) -> float:
            nonlocal started
            started += 1
            await allowed.wait()
            return score(option, item)

        settings: dict[str, Any] = {"name": "x", "store": sqlite_url, "concurrency": 5}
        task = asyncio.create_task(evaluate_async(judge, OPTIONS, ITEMS, **settings))
        while started < 5 and not task.done():
            await asyncio.sleep(0)
        for _ in range(cancellations):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if cancellations == 1:
            assert not task.done()
            allowed.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert started == 5

    asyncio.run(main())
    assert len(told_calls(sqlite_url, "x")) == (5 if cancellations == 1 else 0)


def test_good_enough_ends_earlier_and_says_so(evaluated: Evaluator) -> None:
    def judge(option: str, item: str) -> float:
        better = (item_of(item) * 37 % 100) / 100
        return {"good": float(better < 0.9), "fair": float(better < 0.88), "poor": 0.0}[option]

    strict, tolerant = evaluated(judge), evaluated(judge, name="tolerant", tolerance=0.3)
    assert tolerant.judgements < strict.judgements
    assert (strict.statuses[0], tolerant.recommendation.final) == ("best", True)
    assert "good enough" in tolerant.statuses
    assert "is at most 30 points worse than the best of 3 options" in str(tolerant)
    with pytest.raises(InvalidInputError, match="created with different `tolerance`"):
        evaluated(judge, name="tolerant")


def test_leads_over_a_control_hold_for_all_items(evaluated: Evaluator) -> None:
    found = evaluated(score, control="fair")
    means = {name: np.mean([score(name, item) for item in ITEMS]) for name in OPTIONS}
    for each in found.scores:
        if each.label == "fair":
            assert each.lead is None
        else:
            assert each.lead is not None
            assert each.lead.low <= means[each.label] - means["fair"] <= each.lead.high
            assert each.lead.low <= each.lead.estimate <= each.lead.high
    frame = found.to_frame()
    leads = frame[["lead", "lead_low", "lead_high"]].to_numpy().tolist()
    assert leads[0] == list(found.scores[0].lead or ())
    assert leads[1] == [0, 0, 0]
    assert "lead over fair" in str(found)
    with pytest.raises(InvalidInputError, match="There is no option 'best' to be the control"):
        evaluated(score, control="best")


def test_each_option_may_have_a_price_of_its_own(evaluated: Evaluator) -> None:
    price = {"good": 0.1, "fair": 0.02, "poor": 0.03}
    found = evaluated(score, price=price, max_cost=0.5)
    paid = sum(price[each.label] * each.judged for each in found.scores)
    assert found.capped
    assert 0.4 < found.cost <= 0.5
    assert found.cost == pytest.approx(paid)
    later = evaluated(score, price=price)
    paid = sum(price[each.label] * each.judged for each in later.scores)
    left = sum(price[each.label] * (100 - each.judged) for each in later.scores)
    assert (later.cost, later.saved_cost) == pytest.approx((paid, left))


def test_items_go_by_their_own_id(evaluated: Evaluator, sqlite_url: str) -> None:
    items: Any = [{"id": f"item-{number}", "number": number} for number in range(4)]
    evaluated(lambda option, item: item["number"] / 9, items)
    with Experiment.open(sqlite_url, "usual") as experiment:
        assert set(experiment.assignments()["unit"]) == {each["id"] for each in items}
    with pytest.raises(JudgeError, match=r"On the option '\w+' and item 'item-\d' "):
        evaluated(lambda option, item: None, items, name="failing")
    with pytest.raises(InvalidInputError, match="Two items have the id 'item-0'"):
        evaluated(score, [items[0], items[0]], name="twice")
    with pytest.raises(InvalidInputError, match="The id of an item is a whole number, or 1 to"):
        evaluated(score, [{"id": 0.5}], name="half")
