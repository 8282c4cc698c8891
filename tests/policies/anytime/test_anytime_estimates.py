"""What estimates learn, of the spread, the baseline to come, and outcomes that come late.

What comes early is selected by its reward. So a batch is learned from once nineteen in twenty of
its outcomes are in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from anytime_runs import make_frame, next_block_plan, next_plan
from numpy.typing import NDArray

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.environments import Semiparametric
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import BatchOutcome, Frame, Scale, Totals
from bestarm.policies.anytime.estimates import Estimates
from bestarm.records import Counts, Plan, Rounds


def test_guesses_lie_where_rewards_can() -> None:
    """What lies outside is never paid: the guess would only lengthen the falls to allow for."""
    estimates = Estimates(np.array([[-1.0], [0.1], [1.0]]), Scale(-2.0, 3.0))
    estimates.slope[:] = 100.0
    estimates.pulls[:] = 1
    assert estimates.rewards(np.array([50])).tolist() == [[-2.0, 3.0, 3.0]]


def learned_spread(*rewards: list[float], level: float, batches: int = 1) -> list[float]:
    """What is expected of (r − c)² of each arm after batches of these, c being the level."""
    arms, scale = len(rewards), Scale(0.0, 1.0)
    problem = Problem(np.eye(arms))
    estimates = Estimates(problem.span.coordinates(problem.source), scale)
    even, guess = np.full(arms, 1 / arms), np.full(arms, level)
    frame = make_frame(estimates.coordinates, even, guess=guess, spread=np.ones(arms), scale=scale)
    pulled = np.repeat(np.arange(arms), [len(each) for each in rewards])
    summary = Summary.from_pulls(pulled, np.concatenate(rewards), size=arms)
    for _ in range(batches):
        estimates.learn(frame, BatchOutcome(frame, summary).totals)
    return [float(each) for each in estimates.spread[0]]


def test_an_arm_without_clicks_so_far_is_not_taken_for_a_quiet_one() -> None:
    """It would hardly be pulled, and if it is the best, stay unknown for long."""
    lucky, unlucky, usual = learned_spread(
        [1.0] * 4 + [0.0] * 96, [0.0] * 100, [1.0] * 2 + [0.0] * 98, level=0.02
    )
    assert unlucky > usual / 2 > lucky / 4


def test_an_arm_that_varies_little_is_soon_known_to() -> None:
    """Its own rewards, each small and none of them rare, tell it from arms with rare clicks."""
    clicks, coins = learned_spread(
        [1.0] * 8 + [0.0] * 392, [0.05, 0.0, 0.0, 0.05, 0.0] * 80, level=0.02
    )
    assert clicks > 0.01
    assert coins < 0.005


def test_arms_whose_rewards_vary_evenly_have_their_own_spread() -> None:
    wide, narrow = learned_spread([0.0, 1.0] * 50, [0.4, 0.6] * 50, level=0.5, batches=4)
    assert 0.2 < wide < 0.3
    assert 0.01 < narrow < 0.04


@pytest.mark.parametrize(
    ("baseline", "error"),
    [
        (lambda t: 0.0 * t + 20.0, 0.1),  # the mean of all so far is best
        (lambda t: 5.0 * np.sin(2 * np.pi * t / 20_000), 0.5),  # the trend is
        (lambda t: np.where(t % 4000 < 2000, -5.0, 5.0), 4.0),  # nothing is; the last batch will do
    ],
    ids=["level", "drift", "jumps"],
)
def test_the_baseline_to_come_is_foreseen(baseline: Callable[[Array], Array], error: float) -> None:
    """Guesses of the next batch's rewards, in root mean square, when the noise has deviation 1."""
    world = Semiparametric(np.eye(2), [1e-6, 0.0], baseline=baseline, declared_baseline=20.0)
    errors, weights = [], []
    for seed in (10, 11, 12):
        policy, at = AnytimeBAI(world.problem(1e-9), mean_bound=1.0), 0
        stream = world.begin(np.random.default_rng(seed))
        for batch in range(250):
            plan = next_plan(policy)
            policy.update(stream.pull(plan))
            guess = float(policy._past[-1].frame.guess.mean())
            if batch > 60:
                truth = baseline(np.arange(at + 1.0, at + plan.pulls + 1)).mean()
                errors.append((guess - truth) ** 2)
                weights.append(plan.pulls)
            at += plan.pulls
    assert np.sqrt(np.average(errors, weights=weights)) < error


# --- runs side by side ---------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [np.inf, 0.3])
@pytest.mark.parametrize("intercept", [True, False])
def test_runs_side_by_side_are_estimated_as_each_by_itself(intercept: bool, bound: float) -> None:
    """But for rounding; from the first batch to the last, and after some of them have ended."""
    rng, runs, arms, scale = np.random.default_rng(3), 7, 4, Scale(-2.0, 2.0, noise=0.5)
    points = rng.normal(size=(arms, 2))

    def of(count: int) -> Estimates:
        return Estimates(points, scale, intercept=intercept, bound=bound, runs=count)

    single, together, left = [of(1) for _ in range(runs)], of(runs), np.arange(runs)
    for batch in range(30):
        if batch == 20:
            left = left[[0, 2, 5]]
            together.select(left)
        sizes, frames, totals = together.batch_size(together.pulls, 0.1, 20), [], []
        guesses = together.rewards(sizes)
        for place, run in enumerate(left):
            own, size = single[run], sizes[[place]]
            np.testing.assert_array_equal(own.batch_size(own.pulls, 0.1, 20), size)
            np.testing.assert_allclose(own.rewards(size), guesses[[place]], rtol=1e-9)
            chances = rng.dirichlet(np.ones(arms))
            pulled = rng.choice(arms, int(size[0]), p=chances)
            rewards = points[pulled] @ [0.3, -0.2] + rng.normal(0.1 * batch, 0.5, len(pulled))
            spread, guess = own.spread[0], guesses[place]
            frame = make_frame(points, chances, guess=guess, spread=spread, scale=scale)
            outcome = BatchOutcome(frame, Summary.from_pulls(pulled, rewards, size=arms))
            own.learn(frame, outcome.totals)
            frames.append(frame)
            totals.append(outcome.totals)
        together.learn(Frame.stacked(frames), Totals.stacked(totals))
        for place, run in enumerate(left):
            shared = state_of(together.of(np.array([place])))
            for name, part in state_of(single[run]).items():
                size = 1e-9 * np.abs(part).max()
                np.testing.assert_allclose(shared[name], part, atol=size, err_msg=name)


# --- late outcomes -------------------------------------------------------------------------------


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
            plan = next_plan(planner)
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


def state_of(estimates: Estimates) -> dict[str, Array]:
    """All that is kept of the batches."""
    parts = vars(estimates).items()
    return {name: part.copy() for name, part in parts if isinstance(part, np.ndarray)}


def learned_state(policy: AnytimeBAI) -> dict[str, Array]:
    return state_of(policy._estimates)


def all_but(size: int, missing: int) -> Flags:
    """All outcomes but the last so many."""
    return np.arange(size) < size - missing


def test_nothing_is_learned_from_conversions_alone() -> None:
    visits, policy = Visits(), AnytimeBAI(PAGES, bounds=(0, 1), control="a")
    for number, (_, _, rewards) in enumerate(visits.batches):
        visits.tell(policy, number, rewards > 0)
    assert policy._estimates.pulls == 0
    assert not policy._estimates.slope.any()
    answer = policy.recommend()
    assert answer.effect is None
    assert not answer.leads
    assert "those that would show which option leads are not in" in answer.statement
    assert str(answer).startswith("no leader yet: the outcomes that would show one are not in")


def test_what_is_learned_late_is_what_would_have_been_learned_in_time() -> None:
    """All zeros come after all batches closed; guesses are then as if nothing had been late."""
    visits, policy = Visits(), AnytimeBAI(PAGES, bounds=(0, 1))
    for number, (_, _, rewards) in enumerate(visits.batches):
        visits.tell(policy, number, rewards > 0)
    for number, (_, _, rewards) in enumerate(visits.batches):
        visits.amend(policy, number, rewards == 0)
    late, prompt = learned_state(policy), learned_state(visits.planner)
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
    before, goal = learned_state(policy), learned_state(prompt)
    assert policy._estimates.pulls == 260
    assert np.abs(before["slope"] - goal["slope"]).max() > 1e-4
    # The spread of what is missing is not thought to be small.
    assert (before["_squares"] >= goal["_squares"] - 1e-9).all()
    visits.amend(policy, 1, ~known)
    after = learned_state(policy)
    of_each_pull = ("slope", "gram", "moment", "information", "spread", "pulls")
    for name in (*of_each_pull, "_squares", "_cubes", "_counts", "_rewards"):
        np.testing.assert_allclose(after[name], goal[name], rtol=1e-9, atol=1e-12, err_msg=name)


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
    before = learned_state(policy)
    gone = np.bincount(visits.batches[0][1][-4:], minlength=4)
    none = np.zeros(4)
    nothing = Summary(none.astype(int), none, none, gone, center=CENTER, least=none, largest=none,
                      cubes=none)  # fmt: skip
    policy.amend(nothing, phase=1)
    np.testing.assert_array_equal(learned_state(policy)["moment"], before["moment"])
    assert not policy._sampler._predicted  # type: ignore[union-attr]


def test_rounds_are_learned_from_once_nearly_all_outcomes_are_in() -> None:
    rng = np.random.default_rng(1)
    policy, prompt = (AnytimeBAI(PAGES, bounds=(0, 1), block=2) for _ in range(2))
    tables = []
    for _ in range(3):
        plan = next_block_plan(prompt)
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
