"""What guesses learn from outcomes that come late, and what evidence makes of those not there yet.

What comes early is selected by its reward. So a batch is learned from once nineteen in twenty of
its outcomes are in; evidence counts each of the others at its least, and at no more than 1 while it
may still be lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bestarm import AnytimeBAI, Problem
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import BatchOutcome, Frame, Sampling, Scale, StakeGrid
from bestarm.policies.anytime.intervals import lower_ends
from bestarm.records import BlockPlan, Counts, Plan, Rounds, Summary

RATES = np.array([0.1, 0.12, 0.15, 0.4])
PAGES = Problem(np.eye(4), source_labels=["a", "b", "c", "d"], delta=1e-9)  # nothing is decided
CENTER = 0.5

Flags = NDArray[np.bool_]


def of(arms: Counts, rewards: Array, pending: Counts | None = None) -> Summary:
    """The summary of pulls, and of those that are outstanding."""
    made = Summary.from_pulls(arms, rewards, size=4, center=CENTER)
    return made if pending is None else replace(made, pending=np.bincount(pending, minlength=4))


class Visits:
    """Visits to pages under the plans of one policy, for others that adopt them."""

    def __init__(self, seed: int = 0, sizes: tuple[int, ...] = (200, 60, 60, 100)) -> None:
        rng, planner = np.random.default_rng(seed), AnytimeBAI(PAGES, bounds=(0, 1))
        self.batches: list[tuple[Plan, Counts, Array]] = []
        for size in sizes:
            plan = planner.plan()
            assert plan is not None
            assert plan.weights is not None
            arms = rng.choice(4, size=size, p=plan.weights)
            rewards = (rng.random(size) < RATES[arms]).astype(float)
            planner.update(of(arms, rewards))
            self.batches.append((plan, arms, rewards))
        self.planner = planner

    def tell(self, policy: AnytimeBAI, number: int, known: Flags) -> None:
        """Tell a policy a batch, of which these outcomes are known."""
        plan, arms, rewards = self.batches[number]
        policy.adopt(plan)
        policy.update(of(arms[known], rewards[known], arms[~known]))

    def amend(self, policy: AnytimeBAI, number: int, late: Flags) -> None:
        """Tell it those that come late."""
        _, arms, rewards = self.batches[number]
        policy.amend(of(arms[late], rewards[late]), phase=number + 1)


def told(policy: AnytimeBAI) -> dict[str, Any]:
    return {name: part.copy() for name, part in policy._estimates.state._asdict().items()}


def all_but(size: int, missing: int) -> Flags:
    """All outcomes but the last so many."""
    return np.arange(size) < size - missing


def test_nothing_is_learned_from_conversions_alone() -> None:
    visits, policy = Visits(), AnytimeBAI(PAGES, bounds=(0, 1), control="a")
    for number, (_, _, rewards) in enumerate(visits.batches):
        visits.tell(policy, number, rewards > 0)
    assert policy._estimates.pulls == 0
    assert not policy._estimates.slope.any()
    said = policy.recommend()
    assert said.effect is None
    assert not said.leads
    assert "too many others are outstanding to say which option leads" in said.statement
    assert str(said).startswith("no leader yet: too many outcomes are outstanding")


def test_what_is_learned_late_is_what_would_have_been_learned_in_time() -> None:
    """All zeros come after all batches closed; guesses are then as if nothing had been late."""
    visits, policy = Visits(), AnytimeBAI(PAGES, bounds=(0, 1))
    for number, (_, _, rewards) in enumerate(visits.batches):
        visits.tell(policy, number, rewards > 0)
    for number, (_, _, rewards) in enumerate(visits.batches):
        visits.amend(policy, number, rewards == 0)
    late, prompt = told(policy), told(visits.planner)
    for name, part in prompt.items():
        np.testing.assert_allclose(late[name], part, rtol=1e-9, atol=1e-12, err_msg=name)
    assert policy.recommend().leads
    assert policy.recommend().label == "d"


def test_a_batch_is_learned_from_once_nineteen_in_twenty_are_in() -> None:
    visits, policy = Visits(), AnytimeBAI(PAGES, bounds=(0, 1))
    visits.tell(policy, 0, all_but(200, 11))
    assert policy._estimates.pulls == 0
    visits.amend(policy, 0, np.arange(200) == 189)
    assert policy._estimates.pulls == 200
    assert policy.recommend().leads


def test_what_is_missing_counts_as_predicted_and_is_corrected_when_it_comes() -> None:
    visits, policy, prompt = Visits(), *(AnytimeBAI(PAGES, bounds=(0, 1)) for _ in range(2))
    everything = np.ones(200, dtype=bool)
    visits.tell(policy, 0, everything)
    visits.tell(prompt, 0, everything)
    known = all_but(60, 3)
    visits.tell(policy, 1, known)
    visits.tell(prompt, 1, np.ones(60, dtype=bool))
    before, goal = told(policy), told(prompt)
    assert policy._estimates.pulls == 260
    assert np.abs(before["slope"] - goal["slope"]).max() > 1e-4
    # The spread of what is missing is not thought to be small.
    assert (before["second"] >= goal["second"] - 1e-9).all()
    visits.amend(policy, 1, ~known)
    after = told(policy)
    for name in ("slope", "gram", "moment", "information", "second", "third", "counts", "spread"):
        np.testing.assert_allclose(after[name], goal[name], rtol=1e-9, atol=1e-12, err_msg=name)
    assert after["scalars"][1] == pytest.approx(goal["scalars"][1])


def test_one_that_is_forgotten_holds_nothing_up() -> None:
    visits, policy = Visits(sizes=(20, 20, 20, 20)), AnytimeBAI(PAGES, bounds=(0, 1))
    visits.tell(policy, 0, all_but(20, 2))  # one in ten
    assert policy._estimates.pulls == 0
    visits.tell(policy, 1, all_but(20, 0))
    visits.tell(policy, 2, all_but(20, 0))
    assert policy._estimates.pulls == 60


def test_many_that_are_forgotten_hold_it_up_until_as_many_again_are_drawn() -> None:
    visits, policy = Visits(sizes=(40, 20, 20, 40)), AnytimeBAI(PAGES, bounds=(0, 1))
    for number, size in enumerate((40, 20, 20, 40)):
        visits.tell(policy, number, all_but(size, size // 5))
        assert policy._estimates.pulls == (0, 0, 40, 60)[number]


def test_a_short_batch_that_is_complete_by_chance_is_not_enough() -> None:
    visits, policy = Visits(sizes=(200, 20, 20, 20)), AnytimeBAI(PAGES, bounds=(0, 1))
    visits.tell(policy, 0, visits.batches[0][2] > 0)
    visits.tell(policy, 1, np.ones(20, dtype=bool))
    assert policy._estimates.pulls == 0


def test_what_is_lost_after_it_was_predicted_stays_so() -> None:
    visits, policy = Visits(), AnytimeBAI(PAGES, bounds=(0, 1))
    visits.tell(policy, 0, all_but(200, 4))
    before = told(policy)
    gone = np.bincount(visits.batches[0][1][-4:], minlength=4)
    none = np.zeros(4)
    nothing = Summary(none.astype(int), none, none, gone, center=CENTER, least=none, largest=none,
                      cubes=none)  # fmt: skip
    policy.amend(nothing, phase=1)
    np.testing.assert_array_equal(told(policy)["moment"], before["moment"])
    assert not policy._sampler._predicted  # type: ignore[attr-defined]


def test_rounds_are_learned_from_once_nearly_all_outcomes_are_in() -> None:
    rng = np.random.default_rng(1)
    policy, prompt = (AnytimeBAI(PAGES, bounds=(0, 1), block=2) for _ in range(2))
    tables = []
    for _ in range(3):
        plan = prompt.plan()
        assert isinstance(plan, BlockPlan)
        policy.adopt(plan)
        kinds = rng.choice(len(plan.blocks), size=80, p=plan.block_weights)
        table = (rng.random((80, 2)) < RATES[plan.blocks[kinds]]).astype(float)
        tables.append((plan, kinds, table))
        prompt.update(Rounds.of(plan, kinds, table))
        early = table > 0
        policy.update(Rounds.of(plan, kinds, np.where(early, table, np.nan), ~early))
        assert policy._estimates.rounds == 0
    for plan, kinds, table in tables:
        policy.amend(Rounds.of(plan, kinds, table), phase=plan.phase)
    assert policy._estimates.rounds == prompt._estimates.rounds == 240
    np.testing.assert_allclose(policy._estimates.information, prompt._estimates.information)


# --- pending, then lost ---------------------------------------------------------------------------


def frame_of(rng: np.random.Generator) -> Frame:
    weights = rng.dirichlet(np.ones(4))
    coordinates = np.vstack([np.zeros(3), np.eye(3)])
    sampling = Sampling(coordinates, weights, np.full(4, 0.1))
    guess, spread = rng.uniform(0, 1, 4), np.full(4, 0.1)
    return Frame(sampling, guess=guess, spread=spread, scale=Scale(0, 1), size=50, pulls=0)


def one_more(known: Summary, **where: Counts) -> Summary:
    """With further pulls that are pending or missing."""
    return replace(known, **where)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_a_pending_outcome_counts_no_more_than_whatever_becomes_of_it(seed: int) -> None:
    """So all looks are bounded by one supermartingale, in which what is lost has the factor 1.

    Where w(a) is about 0 and Σ p w c above it, the least factor of an outcome exceeds 1: it was
    counted while the outcome was pending, and taken back when it was lost.
    """
    rng = np.random.default_rng(seed)
    frame, exceeded = frame_of(rng), False
    contrasts = np.vstack([np.eye(3), -np.eye(3)])
    bets = frame.bets(contrasts)
    arms = rng.choice(4, size=60, p=frame.sampling.probabilities)
    known = Summary.from_pulls(arms, (rng.random(60) < 0.3).astype(float), size=4)
    offset = bets.w @ (frame.sampling.weights * frame.guess)
    for arm in range(4):
        one = (np.arange(4) == arm).astype(np.int64)
        pending = BatchOutcome(frame, one_more(known, pending=one))
        lost = BatchOutcome(frame, one_more(known, missing=one))
        stakes, growth = bets.settle(pending)
        base = bets.log_growth(lost)
        assert (growth <= base + 1e-12).all()
        for reward in (0.0, 1.0):
            z = bets.w[:, [arm]] * (reward - frame.guess[arm])
            factor = np.log1p(stakes * z) + stakes * offset[:, None]
            assert (growth <= base + factor + 1e-9).all()
        low, high = np.minimum(*(np.log1p(stakes * bets.w[:, [arm]] * (r - frame.guess[arm]))
                                 for r in (0.0, 1.0))), stakes * offset[:, None]  # fmt: skip
        exceeded |= bool((low + high > 1e-9).any())
        # Under "worst-case" it is never passed over, and the least factor is what it is.
        worst = BatchOutcome(frame, pending.summary, worst_case=True)
        np.testing.assert_allclose(bets.log_growth(worst), base + low + high, atol=1e-9)
    assert exceeded  # the case is there


@pytest.mark.parametrize("seed", range(5))
def test_the_lower_end_of_an_interval_allows_for_a_loss_too(seed: int) -> None:
    """At every v, above zero and below it: the end is no higher than after the loss."""
    rng = np.random.default_rng(seed)
    frame, grid = frame_of(rng), StakeGrid.make()
    arms = rng.choice(4, size=80, p=frame.sampling.probabilities)
    known = Summary.from_pulls(arms, (rng.random(80) < 0.3).astype(float), size=4)
    contrasts = np.vstack([np.eye(3), -np.eye(3)])
    for level in (0.1, 3.0):
        lost = lower_ends(contrasts, [BatchOutcome(frame, known)], level=level, grid=grid)
        for arm in range(4):
            many = 40 * (np.arange(4) == arm)
            pending = BatchOutcome(frame, one_more(known, pending=many))
            ends = lower_ends(contrasts, [pending], level=level, grid=grid)
            assert (ends <= lost + 1e-9).all()
