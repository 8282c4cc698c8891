"""Preferences: what bets expect, how often they are wrong, kills, wrong judges and wording."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count, permutations, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from workers_started import HANG_TIMEOUT, processes

from benchmarks.preferences import Truth, elo, ours
from bestarm import Experiment, Problem, evaluate
from bestarm.errors import InvalidInputError, JudgeError, ProtocolError
from bestarm.evaluation import Evaluation
from bestarm.evaluation.preferences import STAKES, Preferences, log_wealth
from bestarm.live.watch.overview import overview
from bestarm.records import Plan, Summary
from bestarm.server.pages.panels import panels

Evaluator = Callable[..., Evaluation]
OPTIONS = ["a", "b", "c"]
ITEMS = [{"id": f"q{number}", "text": str(number)} for number in range(200)]
LEADS = {"a": 3, "b": 2, "c": 1}


@pytest.fixture
def compared(sqlite_url: str) -> Evaluator:
    usual: dict[str, Any] = {"name": "taste", "store": sqlite_url, "seed": 3, "concurrency": 2}
    return lambda prefer, options=OPTIONS, items=ITEMS, **other: evaluate(
        None, options, items, compare=prefer, **usual | other
    )


def by_rank(first: str, second: str, item: Any) -> str:
    """The better one."""
    return max(first, second, key=LEADS.__getitem__)


def in_a_circle(first: str, second: str, item: Any) -> str:
    """a beats b, b beats c, c beats a."""
    step = OPTIONS.index(second) - OPTIONS.index(first)
    return first if step % 3 == 1 else second


def expected_factor(orders: tuple[bool, ...], stake: float, bias: float) -> float:
    """The mean of 1 + λs over orders and preferences, where q = 0 on average over both orders."""
    mean = 0.0
    for swapped, (prefers_first, chance) in product(
        orders, ((True, (1 + bias) / 2), (False, (1 - bias) / 2))
    ):
        s = 1 if prefers_first != swapped else -1  # of the first option of the pair
        wins = np.array([[0.0, s > 0], [s < 0, 0.0]])
        none = np.zeros((2, 2))
        factor = np.exp(wins[0, 1] * np.log1p(stake) + wins[1, 0] * np.log1p(-stake))
        assert np.isclose(  # the average over stakes is made of these factors
            np.exp(log_wealth(wins, none, none)[0, 1]), np.mean(1 + STAKES * s)
        )
        mean += chance * factor / len(orders)
    return mean


@pytest.mark.parametrize("bias", [0.0, 0.3, -0.3, 1.0])
def test_a_factor_is_one_on_average_over_orders_and_preferences(bias: float) -> None:
    for stake in STAKES:
        assert np.isclose(expected_factor((False, True), stake, bias), 1.0)


def test_with_one_order_a_bias_makes_wealth() -> None:
    """The broken twin: without the coin the expected factor exceeds 1."""
    assert expected_factor((False,), 0.5, 0.3) > 1.1


def test_a_tolerance_bets_against_a_worse_mean_and_lost_outcomes_count_as_losses() -> None:
    """At q = −m the expected factor is 1, for a mixture of outcomes."""
    chances = {"win": 0.3, "neither": 0.3, "loss": 0.4}  # q = −0.1
    total = 0.0
    for outcome, chance in chances.items():
        wins = np.array([[0.0, outcome == "win"], [outcome == "loss", 0.0]])
        neither = np.full((2, 2), float(outcome == "neither"))
        total += chance * np.exp(log_wealth(wins, neither, np.zeros((2, 2)), 0.1)[0, 1])
    assert np.isclose(total, 1.0)
    one, none = np.ones((2, 2)), np.zeros((2, 2))
    loss = np.array([[0.0, 0.0], [1.0, 0.0]])
    lost = log_wealth(none, none, one)
    assert np.isclose(lost[0, 1], log_wealth(loss, none, none)[0, 1])
    assert lost[0, 1] == lost[1, 0] < 0


NULL = Truth("all equal", {}, -1, bias=0.3, items=150)


def test_wrong_answers_are_rare_and_naive_rules_are_seen_to_fail() -> None:
    """With 300 runs that are wrong with probability 0.05, 29 or more are so once in 1,000 times."""
    cycle = Truth("cycle", {(0, 1): 0.3, (1, 2): 0.3, (0, 2): -0.3}, -1, items=150)
    clear = Truth("clear", {(0, 1): 0.4, (0, 2): 0.4, (0, 3): 0.4}, 0, bias=0.3, items=300)
    for truth in (NULL, cycle, clear):
        answers, _ = ours(truth, 300, coin=True)
        assert ((answers != truth.answer) & (answers != -2)).sum() < 29
    assert (ours(clear, 300, coin=True)[0] == 0).mean() > 0.8
    for answers, _ in (ours(NULL, 300, coin=False), elo(NULL, 300)):
        assert (answers >= 0).mean() > 0.2


def test_the_winner_beats_all_others(compared: Evaluator) -> None:
    found = compared(by_rank)
    assert (found.outcome, found.recommendation.label) == ("winner", "a")
    assert found.recommendation.error_bound == 0.05
    assert found.judgements < 60
    assert found.all_judgements == 600
    assert found.saved > 0.9
    assert found.wins[0][1] > 0
    assert found.wins[1][0] == found.wins[2][0] == 0
    text = str(found)
    assert text.startswith("'a' beats each of the 2 other options. The probability that")
    assert "wins over a" in text
    assert found.statuses[:2] == ["best", "beaten"]
    assert found.to_frame().loc["a", "wins over b"] == found.wins[0][1]


def test_a_circle_has_no_winner(compared: Evaluator, tmp_path: Path) -> None:
    found = compared(in_a_circle)
    assert (found.outcome, found.state) == ("cycle", "finished")
    with Experiment.open(found.store, found.name) as experiment:
        assert overview(experiment).sentences[0] == "Ended: no option beats all others."
        shown = panels(overview(experiment))["events"]
    assert "Ended: no option beats all others." in shown
    assert "led at the end" not in shown
    assert not found.recommendation.final
    assert found.saved > 0.8
    assert str(found).startswith("No option beats all others: each one is beaten by another.")
    assert set(found.statuses) == {"beaten"}
    for name in ("report.html", "summary.md", "junit.xml"):
        assert "No option beats all others" in found.write(tmp_path / name).read_text()


def test_equals_use_up_the_items_unless_there_is_a_tolerance(compared: Evaluator) -> None:
    strict = compared(lambda first, second, item: None, items=ITEMS[:20])
    assert (strict.outcome, strict.state, strict.saved) == ("undecided", "finished", 0)
    assert "20 %" not in str(strict)
    assert "and all items are used up: 'a' leads" in str(strict)
    tolerant = compared(lambda first, second, item: None, name="other", tolerance=0.2)
    assert tolerant.outcome == "within tolerance"
    assert "or loses to it by at most 0.2 (share of comparisons lost" in str(tolerant)
    assert tolerant.statuses[tolerant.recommendation.target] == "good enough"


def test_both_orders_are_shown_and_a_judge_of_places_finds_nothing(compared: Evaluator) -> None:
    """It prefers the first place: a fair coin has 100 ± 35 heads of 200 but once in 10⁶ times."""
    shown = list[tuple[str, str]]()

    def prefer(first: str, second: str, item: Any) -> str:
        shown.append((first, second))
        return first

    found = compared(prefer, OPTIONS[:2])
    assert found.outcome == "undecided"
    assert len(shown) == found.judgements == 200
    assert 65 <= shown.count(("a", "b")) <= 135
    with Experiment.open(found.store, found.name) as experiment:
        assert experiment.verify().sound
        rows = experiment.assignments()
    assert sorted(rows["label"]) == sorted(first for first, _ in shown)  # the coin is on record
    assert (rows["probability"] == 0.5).all()


@pytest.mark.parametrize("value", ["I prefer a", float("nan"), 1, "c", ("a", "b"), True])
def test_what_names_no_option_is_told_in_one_sentence(compared: Evaluator, value: object) -> None:
    with pytest.raises(JudgeError) as raised:
        compared(lambda first, second, item: value, OPTIONS[:2], concurrency=1)
    message = str(raised.value)
    assert "On the options '" in message
    assert "the judge returned" in message
    assert "which is neither '" in message
    assert "`on_failure=0`" in message
    found = compared(lambda first, second, item: value, OPTIONS[:2], on_failure=0, max_cost=5)
    assert found.unjudged >= 1
    assert found.wins == ((0, 0), (0, 0))


def test_a_judge_that_raises_is_asked_again(compared: Evaluator) -> None:
    def prefer(first: str, second: str, item: Any) -> str:
        raise ValueError("no reply")

    with pytest.raises(JudgeError, match="failed once, last with ValueError: no reply"):
        compared(prefer, retries=0)
    assert compared(by_rank).outcome == "winner"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"control": "a"}, "`control` has no meaning where options are compared"),
        ({"gate": True}, "`gate` has no meaning"),
        ({"bounds": (0, 2)}, "`bounds` has no meaning"),
        ({"tolerance": 1.5}, "`tolerance` must be below 1"),
        ({"price": {"a": 1, "b": 1, "c": 1}}, "`price` is one number where options are compared"),
        ({"on_failure": 1}, "`on_failure` must be 0 where options are compared"),
        ({"options": ["a"]}, "`options` must be at least 2"),
    ],
)
def test_wrong_shapes_are_refused(other: Any, words: str, compared: Evaluator) -> None:
    with pytest.raises(InvalidInputError, match=words):
        compared(by_rank, **other)


def test_wrong_functions_are_refused(compared: Evaluator, sqlite_url: str) -> None:
    with pytest.raises(InvalidInputError, match="`compare` must accept two options and an item"):
        compared(lambda option, item: "a")
    with pytest.raises(InvalidInputError, match="`compare` must be a function"):
        compared(7)
    with pytest.raises(InvalidInputError, match="`judge` and `compare` were both given"):
        evaluate(by_rank, OPTIONS, ITEMS, name="n", store=sqlite_url, compare=by_rank)


def test_an_evaluation_by_scores_is_not_resumed_by_preferences(compared: Evaluator) -> None:
    first = compared(by_rank, max_cost=5)
    assert (first.judgements, first.capped, first.cost) == (5, True, 5)
    with pytest.raises(InvalidInputError, match="was created with different `compare`"):
        evaluate(lambda option, item: 1, OPTIONS, ITEMS, name="taste", store=first.store, seed=3)
    later = compared(by_rank)
    assert (later.outcome, later.judged_now) == ("winner", later.judgements - 5)
    assert compared(by_rank).judged_now == 0


def taste(first: str, second: str, item: Any) -> str:
    """A taste of each item, the same whoever asks, with a liking for the first place."""
    draw = Random(f"{first} {second} {item['id']}").random()
    return first if draw < 0.65 + 0.15 * (LEADS[first] - LEADS[second]) else second


def prefer_until_killed(url: str, folder: Path, call: int) -> None:
    calls = count(1)

    def prefer(first: str, second: str, item: Any) -> str:
        with open(folder / "calls", "a") as log:
            log.write(f"{first} {second} {item['id']}\n")
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return taste(first, second, item)

    options: dict[str, Any] = {"name": "killed", "store": url, "seed": 1, "concurrency": 1}
    evaluate(None, OPTIONS, ITEMS, compare=prefer, **options)


def test_kills_lose_the_calls_in_flight_and_nothing_else(sqlite_url: str, tmp_path: Path) -> None:
    for call in (1, 7, 20, 1000):
        process = processes.Process(target=prefer_until_killed, args=(sqlite_url, tmp_path, call))
        process.start()
        process.join(HANG_TIMEOUT)
        assert process.exitcode == (0 if call == 1000 else -signal.SIGKILL)
    other = {"store": sqlite_url, "seed": 1, "concurrency": 1}
    again = evaluate(None, OPTIONS, ITEMS, compare=taste, name="killed", **other)  # type: ignore[arg-type]
    whole = evaluate(None, OPTIONS, ITEMS, compare=taste, name="whole", **other)  # type: ignore[arg-type]
    assert again.judged_now == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == again.judgements + 3
    assert again.lost == 3
    assert again.recommendation.label == whole.recommendation.label == "a"
    with Experiment.open(sqlite_url, "killed") as experiment:
        assert experiment.verify().sound


def play(policy: Preferences, plan: Plan) -> None:
    policy.update(Summary.from_pulls(*first_wins(plan), size=3))


def first_wins(plan: Plan) -> tuple[list[int], list[float]]:
    """Each plan's first option wins all."""
    one, other = np.flatnonzero(plan.weights).tolist()  # type: ignore[arg-type]
    half = plan.pulls // 2
    return [one] * half + [other] * (plan.pulls - half), [1.0] * half + [-1.0] * (plan.pulls - half)


def test_a_policy_that_adopts_recorded_plans_says_the_same() -> None:
    problem = Problem(OPTIONS)
    policy, replayed = (Preferences(problem, items=50) for _ in range(2))
    while (plan := policy.plan()) is not None:
        play(policy, plan)
        replayed.adopt(plan)
        play(replayed, plan)
    assert policy.recommend() == replayed.recommend() or (
        policy.recommend().statement == replayed.recommend().statement
    )
    assert policy.pairs == replayed.pairs
    assert policy.outcome == "winner"
    with pytest.raises(ProtocolError, match="stopped"):
        policy.update(Summary.from_pulls([0], [1.0], size=3))


@pytest.mark.parametrize("weights", [*permutations((0.2, 0.8, 0.0)), (0.4, 0.3, 0.3)])
def test_a_plan_without_a_fair_coin_is_not_adopted(weights: tuple[float, ...]) -> None:
    policy = Preferences(Problem(OPTIONS), items=50)
    with pytest.raises(ProtocolError, match="not one of a comparison"):
        policy.adopt(Plan.randomised(list(weights), 8, phase=1, open=True, most=8))


def test_an_outcome_between_the_three_is_refused() -> None:
    policy = Preferences(Problem(OPTIONS), items=50)
    arms = [0, 1] * 4
    with pytest.raises(InvalidInputError, match="The outcome of a comparison is 1, 0 or −1"):
        policy.update(Summary.from_pulls(arms, [0.3] * 8, size=3))
