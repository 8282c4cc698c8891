"""Bets on rounds: exact expectations by enumerating blocks, members and rewards.

A factor that is fair or worse in every round is all that the proof needs, so these tests compute
its expectation itself. Twins that are broken on purpose fail the same computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from bestarm.numerics.geometry import Array
from bestarm.policies.anytime import block_bets
from bestarm.policies.anytime.bets import Scale, StakeGrid
from bestarm.policies.anytime.block_bets import (
    BlockFrame,
    BlockOutcome,
    BlockSampling,
    Population,
    laplacian,
)
from bestarm.policies.anytime.blocks import BlockEstimates, _spread_within
from bestarm.records import BlockPlan, Rounds

NAN = float("nan")
WIDE = StakeGrid.around(0.04)
SLACK = 1e-9  # what rounding may add to an expectation of 1
_rng = np.random.default_rng(3)
POINTS = {
    "one-hot": np.eye(4) - 0.25,
    "plane": _rng.normal(size=(5, 2)),
    "line": np.array([[0.0], [1.0], [3.0], [-2.0]]),
}
CONTRASTS = {
    "one-hot": np.array([[1.0, -1, 0, 0], [0, 1, 0, -1], [0.5, 0.5, -1, 0]]),
    "plane": np.array([[1.0, 0.0], [-0.3, 2.0]]),
    "line": np.array([[1.0], [-2.0]]),
}


def some_plan(name: str, size: int, rounds: int = 1) -> BlockPlan:
    """All blocks of a size, with different probabilities."""
    arms = len(POINTS[name])
    blocks = list(combinations(range(arms), size))
    chances = 1.0 + np.arange(len(blocks)) % 3
    return BlockPlan.drawn(
        blocks, chances / chances.sum(), rounds, arms=arms, phase=1, provisional=True
    )


def some_frame(name: str, size: int, *, guessed: float = 1.0) -> BlockFrame:
    points = POINTS[name]
    return BlockFrame(
        BlockSampling(points, some_plan(name, size)),
        slope=guessed * np.linspace(0.4, -0.2, points.shape[1]),
        variance=0.3,
        scale=Scale(-0.5, 0.5, center=0.5),
        rounds=100,
        grid=WIDE,
    )


CASES = [("one-hot", 2), ("one-hot", 3), ("one-hot", 4), ("plane", 2), ("plane", 4), ("line", 3)]


def members(frame: BlockFrame) -> Iterator[tuple[int, float, tuple[int, ...]]]:
    """Kinds with their probabilities, and the arms of each."""
    plan = frame.sampling.plan
    for kind, chance in enumerate(plan.block_weights):
        yield kind, float(chance), tuple(plan.blocks[kind].tolist())


def weights_of(u: Array, block: tuple[int, ...]) -> Array:
    return np.asarray(u[list(block)] - u[list(block)].mean())


@pytest.mark.parametrize(("name", "size"), CASES)
def test_weights_sum_to_zero_and_read_the_contrast_off(name: str, size: int) -> None:
    frame, points = some_frame(name, size), POINTS[name]
    for y in CONTRASTS[name]:
        [u] = frame.sampling.read(y[None])
        for m in range(2, size + 1):
            read: Array = np.zeros(len(y))
            for _, chance, block in members(frame):
                parts = list(combinations(block, m))
                for part in parts:
                    w = weights_of(u, part)
                    assert abs(w.sum()) < 1e-12
                    read = read + chance / len(parts) * (w @ points[list(part)])
            np.testing.assert_allclose(read, (m - 1) / (size - 1) * y, atol=1e-12)


def fall_of(frame: BlockFrame, contrast: Array) -> float:
    """C, from a stake that it alone holds back."""
    held = StakeGrid(np.array([1e12]), np.zeros(1))
    frame.grid = held
    batch = BlockOutcome(frame, Rounds.of(frame.sampling.plan, [0], [[0.5] * frame_size(frame)]))
    [[stake]] = frame.bets(contrast[None]).settle(batch).stakes
    return 0.9 / float(stake)


def frame_size(frame: BlockFrame) -> int:
    return frame.sampling.plan.size


@pytest.mark.parametrize(("name", "size"), CASES)
@pytest.mark.parametrize("guessed", [0.0, 1.0, -50.0])
def test_no_round_falls_farther_than_it_can(name: str, size: int, guessed: float) -> None:
    frame = some_frame(name, size, guessed=guessed)
    for y in CONTRASTS[name]:
        [u] = frame.sampling.read(y[None])
        deepest = 0.0
        for _, _, block in members(frame):
            for m in range(2, size + 1):
                for part in combinations(block, m):
                    w, c = weights_of(u, part), frame.guess[list(part)]
                    for rewards in product((0.0, 1.0), repeat=m):
                        deepest = max(deepest, -float(w @ (np.array(rewards) - c)))
        fall = fall_of(some_frame(name, size, guessed=guessed), y)
        assert deepest <= fall * (1 + 1e-12)
        assert guessed or fall == pytest.approx(deepest)


def by_hand(frame: BlockFrame, u: Array, rounds: Rounds, stake: float, margin: float) -> float:
    """Σ log(1 + λz) + λ(…) in plain Python, without losses."""
    total, guess = 0.0, frame.guess
    read = sum(
        chance * float(weights_of(u, block) @ guess[list(block)])
        for _, chance, block in members(frame)
    )
    for kind, rewards in zip(rounds.kinds, rounds.table, strict=True):
        block = tuple(rounds.blocks[kind].tolist())
        z = float(weights_of(u, block) @ (rewards - guess[list(block)]))
        total += math.log(1 + stake * z) + stake * (read + margin)
    return total


@pytest.mark.parametrize(("name", "size"), CASES)
@pytest.mark.parametrize("margin", [0.0, 0.2, -0.1])
def test_wealth_is_the_product_of_all_factors(name: str, size: int, margin: float) -> None:
    frame, rng = some_frame(name, size), np.random.default_rng(1)
    plan = frame.sampling.plan
    kinds = rng.integers(len(plan.blocks), size=400)
    rounds = Rounds.of(plan, kinds, rng.random((400, size)))
    bets = frame.bets(CONTRASTS[name], margin=margin)
    stakes, growth = bets.settle(BlockOutcome(frame, rounds))
    assert (stakes > 0).all()
    for i, u in enumerate(bets.u):
        for s in range(0, stakes.shape[1], 5):
            exact = by_hand(frame, u, rounds, float(stakes[i, s]), margin)
            assert growth[i, s] <= exact  # rounded downwards
            assert growth[i, s] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("size", [2, 3])
def test_no_log_of_a_product_is_above_the_exact_one(size: int) -> None:
    """Of factors near 0.1, which rounding moves most; sums of the logs of fractions are exact."""
    frame, rng = some_frame("one-hot", size, guessed=0.0), np.random.default_rng(4)
    plan = frame.sampling.plan
    kinds = rng.integers(len(plan.blocks), size=500)
    rounds = Rounds.of(plan, kinds, (rng.random((500, size)) < 0.5).astype(float))
    [y] = CONTRASTS["one-hot"][:1]
    bets, batch = frame.bets(y[None]), BlockOutcome(frame, rounds)
    [stakes], [growth] = bets.settle(batch)
    u = [Fraction(float(each)) for each in bets.u[0]]
    for stake, found in zip(stakes.tolist(), growth.tolist(), strict=True):
        exact = Decimal(0)
        for kind, rewards in zip(kinds, rounds.table.tolist(), strict=True):
            weights = [u[a] for a in plan.blocks[kind]]
            mean = sum(weights) / size
            z = sum((w - mean) * Fraction(r) for w, r in zip(weights, rewards, strict=True))
            factor = 1 + Fraction(stake) * z
            exact += (Decimal(factor.numerator) / Decimal(factor.denominator)).ln()
        assert Decimal(found) <= exact < Decimal(found) + Decimal("1e-9")


def test_many_contrasts_are_settled_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, rng = some_frame("plane", 2), np.random.default_rng(3)
    plan = frame.sampling.plan
    kinds, table = rng.integers(len(plan.blocks), size=30), rng.random((30, 2))
    awaited = rng.random(table.shape) < 0.2
    batch = BlockOutcome(frame, Rounds.of(plan, kinds, np.where(awaited, NAN, table), awaited))
    contrasts = rng.normal(size=(7, 2))
    together = frame.bets(contrasts, margin=0.1).settle(batch)
    each = [frame.bets(y[None], margin=0.1).settle(batch) for y in contrasts]
    monkeypatch.setattr(block_bets, "_AT_ONCE", 100)
    by_twos = frame.bets(contrasts, margin=0.1).settle(batch)
    for i in range(2):
        np.testing.assert_allclose(together[i], np.vstack([found[i] for found in each]), rtol=1e-9)
        np.testing.assert_allclose(together[i], by_twos[i], rtol=1e-9)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_what_blocks_measure_is_the_sum_over_their_members(size: int) -> None:
    rng, points = np.random.default_rng(0), np.random.default_rng(1).normal(size=(5, 3))
    blocks = np.array(list(combinations(range(5), size)))
    masses = rng.random(len(blocks))
    spread = [points[block] - points[block].mean(axis=0) for block in blocks]
    moment = sum(mass * each.T @ each for mass, each in zip(masses, spread, strict=True))
    np.testing.assert_allclose(points.T @ laplacian(blocks, masses, 5) @ points, moment)
    squares = [(each**2).sum() for each in spread]
    np.testing.assert_allclose(_spread_within(points @ points.T, blocks), squares)


def test_estimates_are_least_squares_within_rounds() -> None:
    """As from np.linalg.lstsq on rewards about the mean of the outcomes that their round has."""
    frame, rng = some_frame("plane", 4), np.random.default_rng(6)
    plan, points = frame.sampling.plan, POINTS["plane"]
    table = 100.0 + rng.normal(size=(50, 1)) + rng.random((50, 4))
    table[rng.random(table.shape) < 0.3] = NAN
    kinds = rng.integers(len(plan.blocks), size=50)
    estimates = BlockEstimates(points, frame.scale)
    estimates.learn(BlockOutcome(frame, Rounds.of(plan, kinds, table)))
    x, r = [], []
    for members, rewards in zip(plan.blocks[kinds], table, strict=True):
        seen = ~np.isnan(rewards)
        if seen.any():
            x.append(points[members[seen]] - points[members[seen]].mean(axis=0))
            r.append(rewards[seen] - rewards[seen].mean())
    ridge = points.T @ frame.sampling.laplacian @ points
    gram = np.vstack(x).T @ np.vstack(x) + ridge
    np.testing.assert_allclose(estimates.information, gram)
    slope = np.linalg.solve(gram, np.vstack(x).T @ np.concatenate(r))
    np.testing.assert_allclose(estimates.slope, slope[None], rtol=1e-9)


@pytest.mark.parametrize("size", [2, 3])
def test_a_baseline_of_any_size_that_reacts_to_the_block_changes_no_bit(size: int) -> None:
    frame, rng = some_frame("plane", size), np.random.default_rng(1)
    frame.scale = replace(frame.scale, low=-4.0, high=4.0)
    plan = frame.sampling.plan
    kinds = rng.integers(len(plan.blocks), size=200)
    table = rng.integers(-16, 16, size=(200, size)) / 8
    levels = np.where(kinds % 2 == 0, 1e6, -3e6) + 1000 * kinds + table.max(axis=1)
    bets = frame.bets(CONTRASTS["plane"])
    quiet = bets.log_growth(BlockOutcome(frame, Rounds.of(plan, kinds, table)))
    loud = bets.log_growth(BlockOutcome(frame, Rounds.of(plan, kinds, table + levels[:, None])))
    np.testing.assert_array_equal(quiet, loud)


Law = Callable[[tuple[int, ...]], Iterator[tuple[float, Array]]]  # chances and rewards of a block


def coins(means: Array) -> Law:
    """Rewards 0 or 1, independent."""

    def law(block: tuple[int, ...]) -> Iterator[tuple[float, Array]]:
        for rewards in product((0.0, 1.0), repeat=len(block)):
            chance = 1.0
            for arm, reward in zip(block, rewards, strict=True):
                chance *= means[arm] if reward else 1 - means[arm]
            yield chance, np.array(rewards)

    return law


def together(means: Array) -> Law:
    """Rewards 0 or 1, as alike as their means allow: one uniform number decides about all."""

    def law(block: tuple[int, ...]) -> Iterator[tuple[float, Array]]:
        cuts = np.unique(np.concatenate([[0.0, 1.0], means[list(block)]]))
        for low, high in pairwise(cuts):
            yield high - low, (means[list(block)] > (low + high) / 2).astype(float)

    return law


Factor = Callable[[int, tuple[float, ...]], Array]  # of every stake, for a kind and its rewards


def factor_of(frame: BlockFrame, y: Array, *, margin: float = 0.0) -> Factor:
    """The factor of a round. It is kept: laws have the same few rewards, with other chances."""
    bets = frame.bets(y[None], margin=margin)

    @cache
    def factor(kind: int, rewards: tuple[float, ...]) -> Array:
        rounds = Rounds.of(frame.sampling.plan, [kind], [rewards])
        return np.asarray(np.exp(bets.log_growth(BlockOutcome(frame, rounds))[0]))

    return factor


def expected_factor(
    frame: BlockFrame, factor: Factor, law: Law, *, kept: int | None = None
) -> Array:
    """E[factor] of every stake over blocks, members that are kept, and rewards."""
    size, total = frame_size(frame), np.zeros(len(frame.grid))
    for kind, chance, block in members(frame):
        parts = list(combinations(range(size), kept or size))
        for part in parts:
            for likely, rewards in law(block):
                table = tuple(float(rewards[i]) if i in part else NAN for i in range(size))
                total += chance / len(parts) * likely * factor(kind, table)
    return total


def at_the_border(name: str, y: Array, seed: int) -> Array:
    """Means in [0, 1] that are linear up to a constant, with y·θ = 0."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=len(y))
    theta -= (theta @ y) / (y @ y) * y
    means = POINTS[name] @ theta
    means -= means.min()
    return np.asarray(0.1 + 0.8 * means / max(means.max(), 1e-9))


@pytest.mark.parametrize(
    ("name", "size", "kept"),
    [(name, size, kept) for name, size in CASES for kept in (None, 1, 2, 3) if (kept or 0) < size],
)
def test_a_bet_is_fair_or_worse_while_its_hypothesis_is_true(
    name: str, size: int, kept: int | None
) -> None:
    frame = some_frame(name, size)
    for y in CONTRASTS[name]:
        factor = factor_of(frame, y)
        for seed in range(2):
            means = at_the_border(name, y, seed)
            for law in (coins(means), together(means)):
                expected = expected_factor(frame, factor, law, kept=kept)
                assert (expected <= 1 + SLACK).all()
                assert kept == 1 or (expected > 0.5).all()


def test_with_a_margin_too() -> None:
    y = np.array([1.0, -1, 0, 0])
    for ahead in (0.2, 0.0, -0.2):  # against y·θ ≤ ahead
        means = np.array([0.5 + ahead, 0.5, 0.3, 0.9])
        for size in (2, 3):
            frame = some_frame("one-hot", size)
            factor = factor_of(frame, y, margin=-ahead)
            for kept in (size, 2):
                assert (expected_factor(frame, factor, coins(means), kept=kept) <= 1 + SLACK).all()


class Uncentered(BlockOutcome):
    """A broken twin: its weights do not sum to zero, so the baseline gets in."""

    def __init__(self, frame: BlockFrame, summary: Rounds) -> None:
        super().__init__(frame, summary)
        self.residuals += summary.table - frame.guess[self.members] - self.residuals


def reacting(block: tuple[int, ...]) -> Iterator[tuple[float, Array]]:
    """All arms are alike, and the baseline reacts to the block."""
    yield 1.0, np.full(len(block), float(0 in block))


@pytest.mark.parametrize(("name", "size"), CASES)
def test_weights_that_do_not_sum_to_zero_are_caught(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, signed = some_frame(name, size, guessed=0.0), [1.0, -1.0]
    y = CONTRASTS[name][0]
    factors = [expected_factor(frame, factor_of(frame, sign * y), reacting) for sign in signed]
    assert (np.array(factors) <= 1 + SLACK).all()
    monkeypatch.setattr(f"{__name__}.BlockOutcome", Uncentered)
    factors = [expected_factor(frame, factor_of(frame, sign * y), reacting) for sign in signed]
    assert size == len(POINTS[name]) or (np.array(factors) > 1.001).any()


def test_a_block_chosen_after_a_peek_is_caught() -> None:
    """Of the blocks drawn, the one is kept whose rewards speak for the bet: rewards move blocks."""
    y, means = np.array([1.0, -1.0, 0.0, 0.0]), np.full(4, 0.5)
    frame = some_frame("one-hot", 2)
    plan, bets = frame.sampling.plan, frame.bets(y[None])
    honest, peeked = np.zeros(len(frame.grid)), np.zeros(len(frame.grid))
    for likely, rewards in coins(means)((0, 1, 2, 3)):
        factors = []
        for kind, _, block in members(frame):
            rounds = Rounds.of(plan, [kind], [rewards[list(block)]])
            factors.append(np.exp(bets.log_growth(BlockOutcome(frame, rounds))[0]))
        honest += likely * plan.block_weights @ np.array(factors)
        peeked += likely * np.array(factors).max(axis=0)
    assert (honest <= 1 + SLACK).all()
    assert (peeked > 1 + SLACK).any()


@pytest.mark.parametrize("alike", [1.0, 0.0, -1.0])
@pytest.mark.parametrize("reach", [1, 10_000])
def test_unbounded_noise_is_charged_for_however_it_is_correlated(alike: float, reach: int) -> None:
    """Gaussian noise in blocks of two, equal, independent or opposite; means at their bound."""
    points = POINTS["one-hot"]
    plan = some_plan("one-hot", 2)
    slope = np.array([0.5, -0.5, 0.2, 0.0])
    frame = BlockFrame(
        BlockSampling(points, plan),
        slope=slope,
        variance=1.0,
        scale=Scale(-0.3, 0.3, 1.0),
        rounds=reach,
        grid=WIDE,
    )
    y, means = np.array([1.0, -1.0, 0.0, 0.0]), np.array([0.3, 0.3, -0.3, 0.0])
    nodes, weights = hermegauss(21)
    weights = weights / weights.sum()
    bets, total = frame.bets(y[None]), np.zeros(len(WIDE))
    pairs = [
        (a, b, p * q)
        for a, p in zip(nodes, weights, strict=True)
        for b, q in zip(nodes, weights, strict=True)
    ]
    if alike:
        pairs = [(a, alike * a, p) for a, p in zip(nodes, weights, strict=True)]
    for kind, chance, block in members(frame):
        for a, b, likely in pairs:
            rewards = means[list(block)] + np.array([a, b])
            rounds = Rounds.of(plan, [kind], [rewards])
            total += chance * likely * np.exp(bets.log_growth(BlockOutcome(frame, rounds))[0])
    assert (total <= 1 + SLACK).all()
    assert (total > 0.8).all()


@pytest.mark.parametrize(("name", "size"), [("one-hot", 3), ("plane", 2), ("line", 3)])
def test_an_outcome_that_lacks_counts_at_its_worst(name: str, size: int) -> None:
    frame, rng = some_frame(name, size), np.random.default_rng(2)
    plan = frame.sampling.plan
    bets = frame.bets(np.vstack([CONTRASTS[name], -CONTRASTS[name]]))
    for kind in range(len(plan.blocks)):
        for missing in product([False, True], repeat=size):
            table = rng.random(size)
            known = np.where(missing, NAN, table)
            rounds = Rounds.of(plan, [kind], [known], [list(missing)])
            least = bets.log_growth(BlockOutcome(frame, rounds))
            worst = np.full(least.shape, np.inf)
            for filled in product((0.0, 1.0, 0.37), repeat=sum(missing)):
                observed = table.copy()
                observed[list(missing)] = filled
                growth = bets.log_growth(BlockOutcome(frame, Rounds.of(plan, [kind], [observed])))
                worst = np.minimum(worst, growth)
                assert (least <= growth + 1e-12).all()
            np.testing.assert_allclose(least, worst, atol=1e-9)


def test_a_block_that_lost_all_but_one_says_nothing() -> None:
    frame = some_frame("one-hot", 3)
    rounds = Rounds.of(frame.sampling.plan, [0, 1], [[0.9, NAN, NAN], [NAN, NAN, NAN]])
    batch = BlockOutcome(frame, rounds)
    growth = frame.bets(CONTRASTS["one-hot"], margin=0.5).log_growth(batch)
    assert (np.abs(growth) < 1e-12).all()
    assert batch.exposure == 0


def test_contrasts_that_blocks_say_nothing_about_are_not_bet_on() -> None:
    plan = BlockPlan.drawn([[0, 1], [1, 2]], [0.5, 0.5], 1, arms=4, phase=1)
    sampling = BlockSampling(POINTS["one-hot"], plan)
    scale = Scale(-0.5, 0.5, center=0.5)
    frame = BlockFrame(sampling, slope=np.zeros(4), variance=1.0, scale=scale, rounds=0, grid=WIDE)
    seen, unseen = np.array([1.0, 0, -1, 0]), np.array([1.0, 0, 0, -1])
    assert sampling.informs(seen[None])
    assert not sampling.informs(np.stack([seen, unseen]))
    batch = BlockOutcome(frame, Rounds.of(plan, [0, 1], [[1.0, 0.0], [1.0, 0.0]]))
    stakes, growth = frame.bets(np.stack([seen, unseen]), margin=0.1).settle(batch)
    assert (growth[0] != 0).all()
    assert not stakes[1].any()
    assert not growth[1].any()


# --- items of a finite population ----------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [
        [[1, 0], [1, 0], [0, 1], [0, 1], [0.5, 0.5]],
        [[1, 0], [0.25, 0.5], [0.25, 0.5], [0, 0.25], [0.0, 0.25]],
        [[1, 1], [1, 1], [0, 0], [0, 0]],
    ],
    ids=["even", "one item says it all", "alike"],
)
@pytest.mark.parametrize("cut", [1, 2, 4])
@pytest.mark.parametrize("lacks", [False, True])
def test_without_replacement_a_bet_is_fair_over_all_orders(
    table: list[list[float]], cut: int, lacks: bool
) -> None:
    """Two options that tie over all items: every order is as likely as any other.

    Items that are judged alike can change places: each order that differs stands for as many.
    """
    items, points, y = len(table), np.array([[0.5], [-0.5]]), np.array([[1.0]])
    plan = BlockPlan.drawn([[0, 1]], [1.0], 1, arms=2, phase=1, provisional=True)
    sampling, scale = BlockSampling(points, plan), Scale(-0.5, 0.5, center=0.5)
    orders = sorted(set(permutations(map(tuple, table))))
    for sign in (1.0, -1.0):
        total = np.zeros((items, len(WIDE)))
        for order in orders:
            rows = np.array(order)
            if lacks:
                rows = np.where((np.arange(items) == 0)[:, None] & [[True, False]], NAN, rows)
            wealth, population = np.zeros(len(WIDE)), Population(items, 0, np.zeros(2), np.zeros(2))
            for start, end in ((0, cut), (cut, items)):
                if start == items:
                    continue
                slope = np.array([0.1 * start])
                frame = BlockFrame(
                    sampling, slope=slope, variance=0.2, scale=scale, rounds=start, grid=WIDE,
                    population=population,
                )  # fmt: skip
                part = rows[start:end]
                whole = np.ones(part.shape, np.bool_)
                batch = BlockOutcome(frame, Rounds.of(plan, [0] * len(part), part), whole)
                wealth = wealth + frame.bets(sign * y).log_growth(batch)[0]
                total[end - 1] += np.exp(wealth)
                population = Population(
                    items,
                    end,
                    population.least + batch.filled(-0.5).sum(axis=0),
                    population.most + batch.filled(0.5).sum(axis=0),
                )
        total /= len(orders)
        assert (total <= 1 + SLACK).all()
        assert lacks or (total[items - 1] > 0.01).all()


def test_what_is_known_of_items_is_a_bound_beyond_rounding() -> None:
    """Sums of tenths round at every step, and are taken off again; fractions tell what is true."""
    rng, items, size = np.random.default_rng(5), 3000, 500
    plan = BlockPlan.drawn([[0, 1]], [1.0], size, arms=2, phase=1)
    sampling = BlockSampling(np.array([[0.5], [-0.5]]), plan)
    scale = Scale(-0.5, 0.5)
    sums, exact, changes = np.zeros(2), [Fraction(0), Fraction(0)], 0
    for start in range(0, items, size):
        frame = BlockFrame(
            sampling, slope=np.array([0.3]), variance=0.2, scale=scale, rounds=start, grid=WIDE,
            population=Population(items, start, sums, sums, changes),
        )  # fmt: skip
        table = rng.integers(-5, 6, size=(size, 2)) / 10
        batch = BlockOutcome(frame, Rounds.of(plan, [0] * size, table))
        known = [Fraction(0), Fraction(0)]
        for t, row in enumerate(table.tolist()):
            for arm in range(2):
                guess = Fraction(float(frame.guess[arm]))
                known[arm] += exact[arm] / (items - start - t) + guess
                exact[arm] += Fraction(row[arm])
        least, most = batch.expected
        for arm in range(2):
            assert Fraction(float(least[arm])) <= known[arm] <= Fraction(float(most[arm]))
        assert (most - least < 1e-7).all()
        for sign in (1, -1, 1):  # as amendments do
            sums = sums + sign * batch.filled(0.0).sum(axis=0)
            changes += 1
