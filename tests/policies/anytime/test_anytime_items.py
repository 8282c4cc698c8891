"""Finite populations: items judged without replacement, until the answer is shown or exact."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from anytime_runs import next_block_plan, next_plan

from bestarm import AnytimeBAI, Problem, simulate
from bestarm.environments import Ratings
from bestarm.errors import BestArmError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.block_bets import BlockOutcome, Population
from bestarm.policies.anytime.certificates import GoodEnoughEvidence
from bestarm.policies.anytime.evidence import BestTargetEvidence
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
        observed = np.where(lost[part], NAN, rows[part])[:, plan.blocks[0]]
        policy.update(Rounds.of(plan, [0] * plan.rounds, observed))
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
        answer = policy.recommend()
        assert answer.target == 0
        assert (answer.final, answer.error_bound) == (True, 0.001)
        reasons.append(answer.reason)
    assert set(reasons) == {"exact"}
    assert answer.statement == (
        "'0' is the best of 3 options over all 40 items. No option was ruled out before all of "
        "them were judged, so this is exact."
    )


def test_ties_at_the_end_go_to_the_first() -> None:
    table = np.tile([[0.1, 0.7, 0.7], [0.2, 0.1, 0.1]], (5, 1))
    table[:, 2] += np.tile([0.1, -0.1], 5)  # it ties after rounding
    answer = judged(table, np.arange(10), delta=0.001).recommend()
    assert (answer.target, answer.reason, answer.tied) == (1, "exact", (1, 2))
    assert "'1' and '2' tie as the best of 3 options over all 10 items" in answer.statement
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
    answer = judged(np.tile(scores, (3, 1)), [0, 1, 2], delta=1e-6, top=2).recommend()
    assert (answer.reason, answer.tied) == ("exact", tied)
    assert answer.statement.startswith(words)


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
    answer = policy.recommend()
    assert (answer.target, answer.reason) == (0, "identified")
    assert answer.pulls < 0.2 * table.size


NASTY = {
    "tiny": np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.5]]),
    "one item says it all": np.array([[1.0, 0.0], *[[0.4, 0.42]] * 40]),
    "a hair": np.array([*[[1.0, 0.0], [0.0, 1.0]] * 30, [0.51, 0.5]]),
    "many alike": np.vstack([*[np.eye(6)] * 8, 0.1 * np.eye(6)[:1]]),
    "rare": np.array([*[[0.0, 0.0]] * 90, [1, 0], [0, 1], [0, 1], [1, 0], [0.2, 0.0]]),
}


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("name", NASTY)
def test_over_random_orders_it_errs_less_often_than_delta(name: str, share: float) -> None:
    """With a tolerance of half the lead of the best, too: any other is wrong then as well."""
    table, rng = NASTY[name], np.random.default_rng(2)
    second, best = np.sort(table.mean(axis=0))[-2:]
    wrong, tolerance = 0, share * float(best - second)
    for made in range(20):
        if wrong + 20 - made <= 14:
            break  # whatever the others say
        order = rng.permutation(len(table))
        answer = judged(table, order, delta=0.4, tolerance=tolerance).recommend()
        assert answer.final
        wrong += table[:, answer.target].mean() < best - tolerance - 1e-9
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
    answer = judged(table, rng.permutation(50), delta=1e-6, top=2).recommend()
    assert (answer.chosen, answer.reason) == (tuple(order[:2].tolist()), "exact")
    answer = judged(table, rng.permutation(50), delta=1e-6, tolerance=0.01).recommend()
    assert answer.final


def late_bloomer() -> Array:
    """In the order given, the first option is the worst until half of the items are judged."""
    table = np.full((120, 4), 0.5)
    table[:, 1:] += np.tile(0.1 * (np.eye(3) - 1 / 3), (40, 1))  # these tie over all items
    table[:60, 0], table[60:, 0] = 0.2, 0.81
    return table


def test_at_the_end_sets_are_about_all_options() -> None:
    """Every option is judged on every item here, so one that seemed to be out may come back."""
    problem, table, done, out = Problem(np.eye(4), delta=0.1), late_bloomer(), 0, False
    policy = AnytimeBAI(problem, bounds=(0, 1), block=4, items=120, top=2)
    while (plan := policy.plan()) is not None:
        assert isinstance(plan, BlockPlan)
        out |= 0 not in policy.recommend().active
        observed = table[done : done + plan.rounds]
        policy.update(Rounds.of(plan, [0] * plan.rounds, observed))
        done += plan.rounds
    answer = policy.recommend()
    assert out
    assert (answer.target, answer.reason) == (0, "exact")
    assert answer.statement.endswith("ruled out before all of them were judged, so this is exact.")


def test_with_a_tolerance_too_options_that_are_out_are_not_judged() -> None:
    answer = judged(late_bloomer(), np.arange(120), delta=0.1, tolerance=0.001).recommend()
    assert (answer.target, answer.reason) == (1, "exact")
    assert "1 option was ruled out before all of them were judged" in answer.statement


def test_an_answer_among_the_options_left_says_so() -> None:
    answer = judged(late_bloomer(), np.arange(120), delta=0.1).recommend()
    assert (answer.target, answer.reason, answer.error_bound) == (1, "exact", 0.1)
    assert answer.statement == (
        "'1', '2' and '3' tie as the best of 4 options over all 120 items. 1 option was ruled out "
        "before all of them were judged. The probability that this rule ever says so wrongly, at "
        "any of its looks, is at most 0.1."
    )


@pytest.mark.parametrize("missing", ["ignorable", "worst-case"])
def test_judgements_that_never_come_are_at_their_worst(missing: str) -> None:
    rng = np.random.default_rng(6)
    table = np.clip(rng.random((200, 3)) * 0.2 + [0.8, 0.0, 0.0], 0, 1)
    answer = judged(table, np.arange(200), gone=0.1, missing=missing).recommend()
    assert (answer.target, answer.final) == (0, True)
    close = np.clip(rng.random((30, 2)), 0, 1)
    answer = judged(close, np.arange(30), gone=0.3, missing=missing).recommend()
    assert (answer.final, answer.reason, answer.error_bound) == (False, "exhausted", None)
    assert "all items are judged" in str(answer)


def test_judgements_may_come_late_even_the_last_ones() -> None:
    table = np.tile([[0.6, 0.5], [0.5, 0.4]], (4, 1))
    policy = AnytimeBAI(
        Problem(np.eye(2), delta=1e-6), bounds=(0, 1), block=2, items=8, missing="worst-case"
    )
    done = 0
    while policy._rounds < 8:
        plan = next_block_plan(policy)
        part = table[done : done + plan.rounds]
        last = done + plan.rounds == 8
        waits = np.zeros(part.shape, np.bool_)
        waits[-1, 0] = last
        policy.update(Rounds.of(plan, [0] * len(part), np.where(waits, NAN, part), waits))
        done += plan.rounds
    waiting = next_block_plan(policy)
    assert isinstance(plan, BlockPlan)
    with pytest.raises(ProtocolError, match="There are 8 items"):
        policy.update(Rounds.of(waiting, [0], [[0.5, 0.5]]))
    policy.amend(Rounds.of(plan, [0] * len(part), part), phase=plan.phase)
    assert policy.plan() is None
    assert (policy.recommend().target, policy.recommend().reason) == (0, "exact")


def test_the_contract_is_kept() -> None:
    method = partial(AnytimeBAI, bounds=(-3, 3), block=4, items=2000, missing="worst-case")
    check_policy(method, Problem(np.eye(4)))


# --- what bets on items are worth, exactly: all orders of a few items are played -----------------


DELTA = 1e-6  # nothing is dropped: wealth can be read off at every look


def rule(arms: int, items: int, *, delta: float = DELTA, bounds: tuple[float, float] = (0, 1),
         **options: object) -> AnytimeBAI:  # fmt: skip
    problem = Problem(np.eye(arms), delta=delta)
    return AnytimeBAI(problem, block=arms, items=items, bounds=bounds, **options)  # type: ignore[arg-type]


def tell(policy: AnytimeBAI, rows: Array) -> None:
    """Tell these rounds as one plan of all arms left."""
    plan = next_block_plan(policy)
    own = BlockPlan.drawn(
        plan.blocks, plan.block_weights, len(rows), arms=plan.arms, phase=plan.phase, open=True,
        most=plan.most, provisional=plan.provisional, center=plan.center,
    )  # fmt: skip
    policy.adopt(own)
    policy.update(Rounds.of(own, np.zeros(len(rows), dtype=int), rows[:, own.blocks[0]]))


# Judgements of the arms on five items. The first is the best, if only just, or ties.
POPULATIONS: dict[str, list[tuple[float, ...]]] = {
    "tied, even": [*[(0.9, 0.1), (0.1, 0.9)] * 2, (0.3, 0.3)],
    "tied, one far below": [(0.0, 1.0), *[(0.55, 0.3)] * 4],
    "tied, one far above": [(1.0, 0.0), *[(0.3, 0.55)] * 4],
    # The best's opponent changes: the two others lead in turn.
    "three, tied": [*[(0.5, 1.0, 0.0), (0.5, 0.0, 1.0)] * 2, (0.5, 0.5, 0.5)],
}


def worth_of(name: str, lengths: tuple[int, ...]) -> Array:
    """The mean wealth against the first arm over all 120 orders, per look and stake.

    Items that are judged alike can change places: each order that differs stands for as many.
    """
    worth = []
    for order in sorted(set(permutations(POPULATIONS[name]))):
        table = np.array(order)
        policy, first, path = rule(table.shape[1], 5), 0, []
        for length in lengths:
            tell(policy, table[first : first + length])
            first += length
            assert isinstance(policy._evidence, BestTargetEvidence)
            *_, [wealth] = policy._evidence._account.prefixes()
            path.append(np.exp(wealth[0]))
        worth.append(path)
    return np.asarray(np.mean(worth, axis=0))


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("lengths", [(2, 2, 1), (1, 3, 1)], ids=str)
def test_wealth_against_the_best_is_worth_at_most_one_at_every_look(
    name: str, lengths: tuple[int, ...]
) -> None:
    """A supermartingale has a mean of at most 1, and of not much less for small stakes."""
    means = worth_of(name, lengths)
    assert (means <= 1 + 1e-9).all(), means.max()
    assert means.max() > 0.95


def certified(name: str, lengths: tuple[int, ...], tolerance: float) -> Array:
    """The mean wealth against "the first is better than the second by more than this" over all
    orders, per look and stake; the population's second is worse by 0.1 than it is in the table."""
    worth = []
    for order in sorted(set(permutations(POPULATIONS[name]))):
        table = np.array(order) - 0.1 * (np.arange(len(order[0])) == 1)
        policy = rule(table.shape[1], 5, bounds=(-0.5, 1), tolerance=tolerance, control="1")
        first, path = 0, []
        for length in lengths:
            tell(policy, table[first : first + length])
            first += length
            assert isinstance(policy._evidence, GoodEnoughEvidence)
            assert policy._evidence._control is not None
            *_, [wealth] = policy._evidence._control.account.prefixes()
            path.append(np.exp(wealth[0]))
        worth.append(path)
    return np.asarray(np.mean(worth, axis=0))


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("lengths", [(2, 2, 1), (1, 3, 1)], ids=str)
def test_wealth_of_a_certificate_is_worth_at_most_one_where_it_would_be_wrong(
    name: str, lengths: tuple[int, ...]
) -> None:
    """At the very tolerance, where it is only just fair. At a larger one it is worth more."""
    means = certified(name, lengths, 0.1)
    assert (means <= 1 + 1e-9).all(), means.max()
    assert means.max() > 0.95
    assert certified(name, lengths, 0.2).max() > 1.005


@pytest.mark.parametrize("peek", ["at the round itself", "at one item fewer left"])
def test_a_rule_that_peeks_is_caught(peek: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = BlockOutcome._of_remaining_items

    def peeking(self: BlockOutcome, population: Population) -> tuple[float, tuple[Array, Array]]:
        exposure, (least, most) = honest(self, population)
        left = population.items - population.seen - np.arange(self.summary.rounds)
        rewards = self.filled(0.0)
        extra = (rewards / left[:, None]).sum(axis=0)
        if peek == "at one item fewer left":
            before = population.least[self.frame.sampling.arms] + np.cumsum(rewards, 0) - rewards
            fewer = before / np.maximum(left - 1, 0.5)[:, None] - before / left[:, None]
            extra = fewer.sum(axis=0)
        return exposure, (least + extra, most + extra)

    monkeypatch.setattr(BlockOutcome, "_of_remaining_items", peeking)
    worst = max(worth_of(name, (2, 2, 1)).max() for name in ("tied, even", "tied, one far above"))
    assert worst > 1.01


def test_an_arm_that_left_does_not_come_back() -> None:
    """What it would have got while it was away is unknown, so nothing is claimed of it."""
    table = np.tile([0.9, 0.8, 0.0], (60, 1)) + 0.1 * np.random.default_rng(0).random((60, 3))
    policy, observed = rule(3, 60, delta=0.1), 0
    while (plan := policy.plan()) is not None and plan.size == 3:
        assert isinstance(plan, BlockPlan)
        rows = table[observed : observed + plan.rounds]
        policy.update(Rounds.of(plan, np.zeros(len(rows), dtype=int), rows))
        observed += plan.rounds
    assert isinstance(plan, BlockPlan)
    assert plan.blocks.tolist() == [[0, 1]]
    policy.update(Rounds.of(plan, [0] * plan.rounds, table[observed : observed + plan.rounds, :2]))
    after = next_block_plan(policy)
    back = BlockPlan.drawn(
        [[0, 1, 2]], [1.0], 2, arms=3, phase=after.phase, open=True,
        most=after.most, provisional=after.provisional, center=after.center,
    )  # fmt: skip
    with pytest.raises(BestArmError):
        policy.adopt(back)


@pytest.mark.parametrize("lead", [1e-3, 1e-6, 3e-10, 1e-11])
def test_all_items_judged_is_final_whatever_the_lead(lead: float) -> None:
    rng = np.random.default_rng(1)
    table = np.repeat(rng.random((30, 1)) * 0.9, 3, axis=1)
    table[:, 2] += lead
    policy = rule(3, 30, delta=0.05)
    observed = 0
    while (plan := policy.plan()) is not None:
        rows = table[observed : observed + plan.rounds]
        observed += plan.rounds
        assert isinstance(plan, BlockPlan)
        policy.update(Rounds.of(plan, [0] * plan.rounds, rows[:, plan.blocks[0]]))
    answer = policy.recommend()
    assert (answer.final, answer.reason) == (True, "exact")
    assert answer.error_bound == 0.05  # of three, one may have been dropped
    assert answer.target == 2 or lead < 1e-9


def test_more_items_than_there_are_are_refused() -> None:
    policy = rule(2, 3)
    with pytest.raises(BestArmError):
        tell(policy, np.full((4, 2), 0.5))


def test_one_item_is_enough() -> None:
    policy = rule(2, 1)
    plan = next_plan(policy)
    assert (plan.rounds, plan.most) == (1, 2)
    tell(policy, np.array([[0.2, 0.3]]))
    assert (policy.recommend().target, policy.recommend().final) == (1, True)


def test_what_the_claim_rests_on_is_stated() -> None:
    text = " ".join(rule(2, 9).recommend().assumptions)
    assert "The items, 9 in all," in text
    assert "random order" in text


def test_intervals_cover_the_truth_in_all_orders() -> None:
    """δ = 0.4: in at most that share of all 120 orders of five items does an interval ever miss."""
    table = np.array(POPULATIONS["three, tied"])
    table[:, 0] = [0.9, 0.0, 0.9, 0.0, 0.6]
    means = table.mean(axis=0)
    orders = sorted(set(permutations(map(tuple, table.tolist()))))  # each stands for as many
    missed = 0
    for order in orders:
        policy, miss = rule(3, 5, delta=0.4), False
        for first in (0, 2):
            if policy.plan() is None:
                break
            tell(policy, np.array(order[first : first + 2]))
            found = policy.intervals()
            leads = means[found.leader] - means
            miss |= bool(((leads < found.low - 1e-9) | (leads > found.high + 1e-9)).any())
        missed += miss
    assert missed <= 0.4 * len(orders)
