"""Ratings as rewards: the law of the totals, users asked once.

Every comparison is at fixed seeds. Together the tests of this file would raise a false alarm with
probability below 1e-3 under fresh seeds. Seen to fail in development: weights left out; one
column's guide used for all, or cut to 4 bits; squared counts or absolute values in Σr²; users asked
from the first again in every plan; orders by clocks times weights instead of over them.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from single_pulls import Floats, add_up, assert_same_law, draw_arms, totals

from bestarm.environments import Ratings
from bestarm.errors import InvalidInputError
from bestarm.records import Plan

FALSE_ALARM = 1e-3 / 1000  # for one of fewer than 1000 comparisons
RUNS = 240
SINGLY = 2400  # simulated pull by pull: with 240 as powerful as 436 against 436

# Few users and ratings that repeat in a column, with users who rate high and users who rate low.
MATRIX = np.array(
    [[1, 2, 0, 5], [1, 3, 2, 5], [-4, -4, -5, -2], [0.5, 0, 2, 1], [9, 10, 9, 9.5], [-4, 1, 0, 1]]
)
WEIGHTS = np.array([0.3, 0.1, 0.25, 0.05, 0.2, 0.1])
RANDOMISED = [Plan.randomised([0.5, 0.3, 0.2, 0.0], n, phase=1) for n in (2, 4)]
FIXED = [Plan.fixed([1, 0, 1, 0], phase=1), Plan.fixed([2, 1, 0, 1], phase=2)]
LONGER = [Plan.randomised([0.5, 0.3, 0.2, 0.0], 30, phase=1)]


def pull_by_pull(
    plans: list[Plan], weights: Floats, replacement: bool, rng: np.random.Generator
) -> Floats:
    """Draw an arm and a user, a pull at a time; the totals of the last plan."""
    left = np.tile(weights, (SINGLY, 1))
    runs = np.arange(SINGLY)
    for plan in plans:
        arms = draw_arms(plan, SINGLY, rng)
        rewards = np.empty(arms.shape)
        for pull, column in enumerate(arms.T):
            cumulative = np.cumsum(left, axis=1)
            drawn = rng.random(SINGLY) * cumulative[:, -1]
            users = np.sum(cumulative <= drawn[:, None], axis=1)
            rewards[:, pull] = MATRIX[users, column]
            left[runs, users] *= replacement
    return add_up(arms, rewards, 4)


def features(found: Floats) -> Floats:
    """Totals, and products that tell wrong dependence apart where margins cannot."""
    n, s, q = found
    products = [(s[:, :, None] * each[:, None, :]).reshape(len(s), -1) for each in (s, q)]
    return np.hstack([n, s, q, *products])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["uniform", "weighted"])
@pytest.mark.parametrize(
    ("plans", "replacement"),
    [(RANDOMISED, True), (FIXED, True), (LONGER, True), (RANDOMISED, False), (FIXED, False)],
)
def test_totals_have_the_law_of_single_pulls(
    plans: list[Plan], replacement: bool, weights: Floats | None
) -> None:
    world = Ratings(MATRIX, weights, replacement=replacement)
    chances = np.full(6, 1 / 6) if weights is None else weights
    rng, reference = np.random.default_rng(1), np.random.default_rng(2)
    fast = []
    for _ in range(RUNS):
        stream = world.begin(rng)
        summaries = [stream.pull(plan) for plan in plans]
        for plan, summary in zip(plans, summaries, strict=True):
            plan.check(summary)
        fast.append(summaries[-1])
    slow = pull_by_pull(plans, chances, replacement, reference)
    assert_same_law(features(totals(fast)), features(slow), FALSE_ALARM)


@pytest.mark.parametrize("weighted", [False, True])
def test_users_are_drawn_with_their_probabilities(weighted: bool) -> None:
    users = 60
    weights = np.random.default_rng(3).dirichlet(np.full(users, 0.5))
    weights[[5, 17, 59]] = 0.0
    weights /= weights.sum()
    matrix = np.column_stack([np.arange(users), np.arange(users)[::-1] + 2.0 * np.ones(users)])
    world = Ratings(matrix, weights if weighted else None)
    stream, plan = world.begin(np.random.default_rng(4)), Plan.fixed([1, 1], phase=1)
    drawn = np.array([stream.pull(plan).sums for _ in range(4_000)]).astype(int)
    drawn[:, 1] = users + 1 - drawn[:, 1]
    chances = weights if weighted else np.full(users, 1 / users)
    for column in drawn.T:
        seen = np.bincount(column, minlength=users)
        assert not seen[chances == 0].any()
        positive = chances > 0
        result = stats.chisquare(seen[positive], 4_000 * chances[positive])
        assert result.pvalue > FALSE_ALARM
    # Two arms of one plan ask two users, drawn independently.
    table = np.bincount(drawn[:, 0] // 20 * 3 + drawn[:, 1] // 20, minlength=9).reshape(3, 3)
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


@pytest.mark.parametrize("distinct", [7, 30_000])
@pytest.mark.parametrize("pulls", [100_000, 2_000_000])
def test_long_plans_have_the_moments_of_the_columns(distinct: int, pulls: int) -> None:
    rng = np.random.default_rng(5)
    matrix = rng.integers(0, distinct, size=(30_000, 3)) / distinct * 20.0 - 10.0 + [0, 0.1, 0.3]
    weights = rng.dirichlet(np.full(30_000, 2.0))
    world = Ratings(matrix, weights)
    for plan in (
        Plan.randomised([0.2, 0.3, 0.5], pulls, phase=1),
        Plan.fixed([pulls // 2, pulls // 2, 0], phase=1),
    ):
        summary = world.begin(np.random.default_rng(6)).pull(plan)
        plan.check(summary)
        n = summary.counts
        for power, total in ((1, summary.sums), (2, summary.squares)):
            mean = weights @ matrix**power
            spread = np.sqrt(weights @ matrix ** (2 * power) - mean**2)
            # In units of its standard error each deviation is normal: 6 is a false alarm of 2e-9.
            assert (np.abs(total - n * mean) <= 6 * np.sqrt(n) * spread).all()


def coded(users: int, items: int = 3) -> Floats:
    """A rating that tells its user and its item: user + 2¹⁷ · item."""
    return np.arange(users)[:, None] + 2.0**17 * np.arange(items)


def test_without_replacement_everybody_is_asked_exactly_once() -> None:
    users = 40_000  # more than a block
    stream = Ratings(coded(users), replacement=False).begin(np.random.default_rng(7))
    plans = [
        Plan.randomised([0.2, 0.5, 0.3], 30_000, phase=1),
        Plan.fixed([3000, 1000, 0], phase=2),
        Plan.randomised([0.0, 0.5, 0.5], 5999, phase=3),
        Plan.fixed([0, 0, 1], phase=4),
    ]
    asked, squares, item = 0.0, 0.0, 2.0**17 * np.arange(3)
    for plan in plans:
        summary = stream.pull(plan)
        plan.check(summary)
        own = summary.sums - item * summary.counts
        asked += float(own.sum())
        squares += float((summary.squares - 2 * item * own - item**2 * summary.counts).sum())
    everybody = np.arange(users, dtype=float)
    assert asked == everybody.sum()
    assert squares == pytest.approx((everybody**2).sum(), rel=1e-9)
    with pytest.raises(InvalidInputError, match=r"There are 40000 users.*reach round 40001\. Draw"):
        stream.pull(plans[-1])


def test_a_plan_beyond_the_users_is_refused_before_anybody_is_asked() -> None:
    world = Ratings(coded(10), replacement=False)
    pair = [world.begin(np.random.default_rng(8)) for _ in range(2)]
    with pytest.raises(InvalidInputError, match=r"10 users, each asked once.*reach round 11"):
        pair[0].pull(Plan.randomised([0.5, 0.5, 0.0], 11, phase=1))
    left, right = (stream.pull(Plan.fixed([4, 3, 3], phase=1)) for stream in pair)
    np.testing.assert_array_equal(left.sums, right.sums)


@pytest.mark.parametrize("weights", [None, [0.5, 0.3, 0.2, 0.0]])
def test_orders_have_the_probabilities_of_drawing_among_those_left(
    weights: list[float] | None,
) -> None:
    world = Ratings(coded(4, 2), weights, replacement=False)
    chances = [0.25] * 4 if weights is None else weights
    users = [user for user in range(4) if chances[user]]
    rng, plan, runs = np.random.default_rng(9), Plan.fixed([1, 0], phase=1), 1000
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(runs):
        stream = world.begin(rng)
        order = tuple(int(stream.pull(plan).sums[0]) for _ in users)
        seen[order] = seen.get(order, 0) + 1
    expected = {}
    for order in itertools.permutations(users):
        rest = [sum(chances[user] for user in order[i:]) for i in range(len(order))]
        expected[order] = runs * math.prod(chances[u] / r for u, r in zip(order, rest, strict=True))
    assert set(seen) <= set(expected)
    counts = [seen.get(order, 0) for order in expected]
    assert stats.chisquare(counts, list(expected.values())).pvalue > FALSE_ALARM
    with pytest.raises(InvalidInputError, match=f"There are {len(users)} users"):
        stream.pull(plan)


def test_truth_and_what_policies_are_told() -> None:
    world = Ratings(MATRIX, WEIGHTS, ["a", "b", "c", "d"], name="tiny")
    np.testing.assert_allclose(world.means, WEIGHTS @ MATRIX)
    assert (world.best, world.name) == (3, "tiny")
    assert world.gap == pytest.approx(np.diff(np.sort(WEIGHTS @ MATRIX))[-1])
    problem = world.problem(0.05)
    assert problem.delta == 0.05
    assert problem.noise == np.ptp(MATRIX) / 2
    levels = MATRIX.mean(axis=1) - (WEIGHTS @ MATRIX).mean()
    assert problem.baseline == pytest.approx(np.abs(levels).max())
    np.testing.assert_array_equal(problem.source, np.eye(4))
    assert problem.source_labels == problem.target_labels == ("a", "b", "c", "d")
    assert repr(world) == ("Ratings('tiny', 6 users, 4 items, best=3, gap=1.55, with replacement)")
    told = Ratings(MATRIX, declared_noise=6.0, declared_baseline=10.0).problem(0.1)
    assert (told.noise, told.baseline) == (6.0, 10.0)


def test_weights_decide_which_item_is_best() -> None:
    matrix, weights = np.array([[1.0, 0.0], [0.0, 3.0]]), np.array([0.9, 0.1])
    assert Ratings(matrix).best == 1
    world = Ratings(matrix, weights)
    matrix[:], weights[:] = 0.0, 0.0  # the world has copies
    assert world.best == 0
    assert world.gap == pytest.approx(0.6)
    np.testing.assert_array_equal(world.matrix, [[1.0, 0.0], [0.0, 3.0]])
    assert not world.matrix.flags.writeable
    assert not world.means.flags.writeable


def test_a_data_frame_gives_its_columns_as_labels() -> None:
    pandas = pytest.importorskip("pandas", reason="a data frame needs pandas")
    frame = pandas.DataFrame(MATRIX, columns=["tea", "milk", "water", "coffee"])
    assert Ratings(frame).problem(0.1).source_labels == ("tea", "milk", "water", "coffee")


def test_an_item_that_all_rate_alike_pays_exactly_that() -> None:
    world = Ratings([[2.5, 1.0], [2.5, 2.0]])
    for pulls in (3, 5000):
        summary = world.begin(np.random.default_rng(11)).pull(Plan.fixed([pulls, 0], phase=1))
        assert summary.sums.tolist() == [2.5 * pulls, 0.0]
        assert summary.squares.tolist() == [6.25 * pulls, 0.0]
