"""Bets on the items of a finite population: fair over all orders, and rounded downwards."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from bestarm.policies.anytime.bets import Scale, StakeGrid
from bestarm.policies.anytime.block_bets import BlockFrame, BlockOutcome, BlockSampling, Population
from bestarm.records import BlockPlan, Rounds

NAN = float("nan")
WIDE = StakeGrid.make(0.3)
SLACK = 1e-9  # what rounding may add to an expectation of 1


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
            sampling, slope=np.array([0.3]), variance=0.2, scale=scale, rounds=start,
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
        _, _, _, _, _, _, (least, most), _, _ = batch.parts
        for arm in range(2):
            assert Fraction(float(least[arm])) <= known[arm] <= Fraction(float(most[arm]))
        assert (most - least < 1e-7).all()
        for sign in (1, -1, 1):  # as amendments do
            sums = sums + sign * batch.filled(0.0).sum(axis=0)
            changes += 1
