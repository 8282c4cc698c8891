"""Finite populations: items judged without replacement, until the answer is shown or exact."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem, simulate
from bestarm.environments import Ratings
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.block_bets import Population
from bestarm.records import BlockPlan, Rounds
from bestarm.testing import check_policy

NAN = float("nan")


def judged(
    table: Array, order: object, *, delta: float = 0.2, gone: float = 0.0, **options: Any
) -> AnytimeBAI:
    """A run over the items of a table in an order; some judgements never come."""
    items, arms = table.shape
    policy = AnytimeBAI(
        Problem(np.eye(arms), delta=delta), bounds=(0, 1), block=arms, items=items, **options
    )
    rows, done = table[np.asarray(order)], 0
    lost = np.random.default_rng(0).random(table.shape) < gone
    while (plan := policy.plan()) is not None:
        assert isinstance(plan, BlockPlan)
        part = slice(done, done + plan.rounds)
        told = np.where(lost[part], NAN, rows[part])[:, plan.blocks[0]]
        policy.update(Rounds.of(plan, [0] * plan.rounds, told))
        done += plan.rounds
    assert policy.recommend().reason == "max_pulls" or done <= items
    return policy


def better(table: Array, lead: float) -> Array:
    """The table with a better first column, between 0 and 1."""
    table[:, 0] = np.minimum(table[:, 0] + lead, 1.0)
    return table


def test_what_cannot_be_shown_sooner_is_exact_at_the_end() -> None:
    table = np.zeros((40, 3))
    table[:20, 0] = table[20:, 1] = table[:19, 2] = 1.0
    table[39, 1] = 0.9  # so the first is the best by a tenth of an item
    rng, reasons = np.random.default_rng(0), []
    for _ in range(8):
        policy = judged(table, rng.permutation(40), delta=0.001)
        said = policy.recommend()
        assert said.target == 0
        assert (said.final, said.error_bound) == (True, 0.001)
        reasons.append(said.reason)
    assert set(reasons) == {"exact"}
    assert said.statement == (
        "'0' is the best of 3 options over all 40 items. No option was ruled out before all of "
        "them were judged, so this is exact."
    )


def test_ties_at_the_end_go_to_the_first() -> None:
    table = np.tile([[0.1, 0.7, 0.7], [0.2, 0.1, 0.1]], (5, 1))
    table[:, 2] += np.tile([0.1, -0.1], 5)  # it ties after rounding
    said = judged(table, np.arange(10), delta=0.001).recommend()
    assert (said.target, said.reason, said.tied) == (1, "exact", (1, 2))
    assert "'1' and '2' tie as the best of 3 options over all 10 items" in said.statement
    assert judged(np.full((3, 2), 0.5), [2, 0, 1]).recommend().chosen == (0,)


@pytest.mark.parametrize(
    ("scores", "tied", "words"),
    [
        ((0.5, 0.9, 0.5, 0.1), (0, 2), "'1' leads 4 options and '0' and '2' tie next over all"),
        ((0.5, 0.5, 0.1, 0.5), (0, 1, 3), "'0', '1' and '3' tie as the 2 best of 4 options over"),
        ((0.5, 0.5, 0.1, 0.4), (), "'0', '1' are the 2 best of 4 options over all"),
    ],
)
def test_a_set_is_tied_where_its_last_place_is(
    scores: tuple[float, ...], tied: tuple[int, ...], words: str
) -> None:
    said = judged(np.tile(scores, (3, 1)), [0, 1, 2], delta=1e-6, top=2).recommend()
    assert (said.reason, said.tied) == ("exact", tied)
    assert said.statement.startswith(words)


def test_an_option_that_may_be_better_does_not_tie() -> None:
    """A judgement of the first one lacks: it is at least as good as the second."""
    best, tied = Population(2, 2, np.array([1.0, 1.0]), np.array([1.5, 1.0])).best(
        np.arange(2), top=1, tolerance=0.0
    )
    assert (best, tied) == ((0,), ())


def test_a_clear_winner_needs_few_items() -> None:
    rng = np.random.default_rng(1)
    hard = rng.random((800, 1))
    table = (rng.random((800, 6)) < hard * [0.9, 0.5, 0.5, 0.4, 0.3, 0.2]).astype(float)
    policy = judged(table, np.arange(800), delta=0.05)
    said = policy.recommend()
    assert (said.target, said.reason) == (0, "identified")
    assert said.pulls < 0.2 * table.size


NASTY = {
    "tiny": np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.5]]),
    "one item says it all": np.array([[1.0, 0.0], *[[0.4, 0.42]] * 40]),
    "a hair": np.array([*[[1.0, 0.0], [0.0, 1.0]] * 30, [0.51, 0.5]]),
    "many alike": np.vstack([*[np.eye(6)] * 8, 0.1 * np.eye(6)[:1]]),
    "rare": np.array([*[[0.0, 0.0]] * 90, [1, 0], [0, 1], [0, 1], [1, 0], [0.2, 0.0]]),
}


@pytest.mark.parametrize("name", NASTY)
def test_over_random_orders_it_errs_less_often_than_delta(name: str) -> None:
    table, rng = NASTY[name], np.random.default_rng(2)
    wrong = 0
    for made in range(20):
        if wrong + 20 - made <= 14:
            break  # whatever the others say
        said = judged(table, rng.permutation(len(table)), delta=0.4).recommend()
        assert said.final
        wrong += table[:, said.target].mean() < table.mean(axis=0).max() - 1e-9
    assert wrong <= 14  # more has a probability of 0.2 % at an error rate of δ, and it is below δ


def test_knowing_that_items_run_out_saves_some() -> None:
    rng = np.random.default_rng(3)
    world = Ratings(better(rng.random((300, 3)), 0.04), block=3, replacement=False)
    unaware = partial(AnytimeBAI, bounds=(0, 1), block=3, max_pulls=900)
    pulls = [
        simulate(method, world, runs=4).mean_pulls
        for method in (partial(unaware, items=300), unaware)
    ]
    assert pulls[0] < 0.9 * pulls[1]


def test_simulations_judge_every_user_once() -> None:
    table = better(np.random.default_rng(4).random((60, 4)), 0.02)
    world = Ratings(table, block=4, replacement=False)
    method = partial(AnytimeBAI, bounds=(0, 1), block=4, items=60)
    results = simulate(method, world, runs=10)
    assert results.final.all()
    assert results.correct.all()
    assert (results.rounds <= 60).all()


def test_sets_and_tolerances_are_exact_too() -> None:
    rng = np.random.default_rng(5)
    table = rng.random((50, 5))
    order = np.argsort(-table.mean(axis=0))
    said = judged(table, rng.permutation(50), delta=1e-6, top=2).recommend()
    assert (said.chosen, said.reason) == (tuple(order[:2].tolist()), "exact")
    said = judged(table, rng.permutation(50), delta=1e-6, tolerance=0.01).recommend()
    assert said.final


def late_bloomer() -> Array:
    """In the order given, the first option is the worst until half of the items are judged."""
    table = np.full((120, 4), 0.5)
    table[:, 1:] += np.tile(0.1 * (np.eye(3) - 1 / 3), (40, 1))  # these tie over all items
    table[:60, 0], table[60:, 0] = 0.2, 0.81
    return table


@pytest.mark.parametrize("options", [{"top": 2}, {"tolerance": 0.001}])
def test_at_the_end_sets_and_tolerances_are_about_all_options(options: dict[str, Any]) -> None:
    """Every option is judged on every item here, so one that seemed to be out may come back."""
    problem, table, done, out = Problem(np.eye(4), delta=0.1), late_bloomer(), 0, False
    policy = AnytimeBAI(problem, bounds=(0, 1), block=4, items=120, **options)
    while (plan := policy.plan()) is not None:
        assert isinstance(plan, BlockPlan)
        out |= 0 not in policy.recommend().active
        told = table[done : done + plan.rounds]
        policy.update(Rounds.of(plan, [0] * plan.rounds, told))
        done += plan.rounds
    said = policy.recommend()
    assert out
    assert (said.target, said.reason) == (0, "exact")
    assert said.statement.endswith("ruled out before all of them were judged, so this is exact.")


def test_an_answer_among_the_options_left_says_so() -> None:
    said = judged(late_bloomer(), np.arange(120), delta=0.1).recommend()
    assert (said.target, said.reason, said.error_bound) == (1, "exact", 0.1)
    assert said.statement == (
        "'1', '2' and '3' tie as the best of 4 options over all 120 items. 1 option was ruled out "
        "before all of them were judged. The probability that this rule ever says so wrongly, at "
        "any of its looks, is at most 0.1."
    )


@pytest.mark.parametrize("missing", ["ignorable", "worst-case"])
def test_judgements_that_never_come_are_at_their_worst(missing: str) -> None:
    rng = np.random.default_rng(6)
    table = np.clip(rng.random((200, 3)) * 0.2 + [0.8, 0.0, 0.0], 0, 1)
    said = judged(table, np.arange(200), gone=0.1, missing=missing).recommend()
    assert (said.target, said.final) == (0, True)
    close = np.clip(rng.random((30, 2)), 0, 1)
    said = judged(close, np.arange(30), gone=0.3, missing=missing).recommend()
    assert (said.final, said.reason, said.error_bound) == (False, "exhausted", None)
    assert "all items are judged" in str(said)


def test_judgements_may_come_late_even_the_last_ones() -> None:
    table = np.tile([[0.6, 0.5], [0.5, 0.4]], (4, 1))
    policy = AnytimeBAI(
        Problem(np.eye(2), delta=1e-6), bounds=(0, 1), block=2, items=8, missing="worst-case"
    )
    done = 0
    while policy._rounds < 8:
        plan = policy.plan()
        assert isinstance(plan, BlockPlan)
        part = table[done : done + plan.rounds]
        last = done + plan.rounds == 8
        waits = np.zeros(part.shape, np.bool_)
        waits[-1, 0] = last
        policy.update(Rounds.of(plan, [0] * len(part), np.where(waits, NAN, part), waits))
        done += plan.rounds
    waiting = policy.plan()
    assert isinstance(waiting, BlockPlan)
    assert isinstance(plan, BlockPlan)
    with pytest.raises(ProtocolError, match="There are 8 items"):
        policy.update(Rounds.of(waiting, [0], [[0.5, 0.5]]))
    policy.amend(Rounds.of(plan, [0] * len(part), part), phase=plan.phase)
    assert policy.plan() is None
    assert (policy.recommend().target, policy.recommend().reason) == (0, "exact")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"block": 3, "items": 10}, "bounds"),
        ({"block": 2, "items": 10, "bounds": (0, 1)}, "items"),
        ({"items": 10, "bounds": (0, 1)}, "items"),
        ({"block": 3, "items": 0, "bounds": (0, 1)}, "items"),
    ],
)
def test_options_that_do_not_fit_items_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        AnytimeBAI(Problem(np.eye(3)), **options)
    assert caught.value.field == field


def test_items_need_options_that_are_arms_of_their_own() -> None:
    for problem in (Problem([[0.0], [1.0], [2.0]]), Problem(np.eye(3), np.eye(3)[:2])):
        with pytest.raises(InvalidInputError, match="arm of its own"):
            AnytimeBAI(problem, bounds=(0, 1), block=3, items=10)


def test_the_contract_is_kept() -> None:
    method = partial(AnytimeBAI, bounds=(-3, 3), block=4, items=2000, missing="worst-case")
    check_policy(method, Problem(np.eye(4)))
