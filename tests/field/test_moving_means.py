"""Worlds whose arms' means move: their runs, and their best arm."""

from __future__ import annotations

import numpy as np
import pytest
from single_pulls import add_up, assert_same_law, draw_arms, totals

from bestarm import Plan
from bestarm.errors import InvalidInputError
from bestarm.field.moving_means import (
    MovingMeans,
    MovingMeansStream,
    malicious,
    multivariate,
    oscillating,
)

TABLE = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 3.0, 2.0]
WORLD = MovingMeans(np.eye(3), TABLE, noise=0.5)


@pytest.mark.parametrize(
    "plan",
    [Plan.randomised([0.5, 0.3, 0.2], 25, phase=1), Plan.fixed([7, 0, 15], phase=1)],
)
@pytest.mark.parametrize("extremes", [False, True])
def test_totals_have_the_law_of_single_pulls(plan: Plan, extremes: bool) -> None:
    """Nine tests at 1e-5 each per case."""
    runs, singly, rng = 600, 6000, np.random.default_rng(1)
    if extremes:
        plan = Plan(**{**vars(plan), "extremes": True})
    arms = draw_arms(plan, singly, rng)
    rewards = TABLE[np.arange(plan.pulls), arms] + 0.5 * rng.normal(size=arms.shape)
    wanted = add_up(arms, rewards, 3)
    other = np.random.default_rng(2)
    found = totals(WORLD.begin(other).pull(plan) for _ in range(runs))
    for ours, theirs in zip(found, wanted, strict=True):
        assert_same_law(ours, theirs, 1e-5)


def test_a_run_goes_on_where_it_was_and_ends_with_the_table() -> None:
    still = MovingMeans(np.eye(2), [[0.0, 5.0], [1.0, 5.0], [20.0, 5.0]], noise=0.0)
    stream = still.begin(np.random.default_rng(0))
    assert isinstance(stream, MovingMeansStream)
    only = Plan.fixed([1, 0], phase=1)
    assert stream.pull(only).sums[0] == 0
    presampled = stream.presample(10)
    assert presampled is not None
    np.testing.assert_array_equal(
        presampled.table[presampled.rows] + presampled.common[:, None], still.means[1:]
    )
    stream.skip(1)
    assert stream.pull(only).sums[0] == 20
    assert stream.presample(1) is None
    with pytest.raises(InvalidInputError, match="3 rounds") as caught:
        stream.pull(only)
    assert caught.value.remedy


def test_the_best_arm_is_the_best_on_average() -> None:
    assert WORLD.best == np.argmax(TABLE.mean(axis=0))


def test_instances_are_the_published_ones() -> None:
    """Gaps as stored beside the authors' results, to all printed digits."""
    scales = [0.03, 0.02796, 0.0324, 0.03636, 0.05102, 0.03208, 0.02403, 0.0724, 0.01033, 0.04928]
    periods = [0.02663, 0.02203, 0.0324, 0.04867, 0.04055, 0.00144, 0.03316, 0.03634, 0.03901]
    periods += [0.00423]
    for scale, gap in enumerate(scales):
        assert multivariate(float(scale)).gap == pytest.approx(gap, abs=6e-6)
    for number, gap in enumerate(periods):
        assert multivariate(2.0, 300 * (number + 1)).gap == pytest.approx(gap, abs=6e-6)
    for magnitude in (0.0, 4.0, 9.0):
        world = oscillating(magnitude, 200)
        assert world.gap == pytest.approx(0.2, abs=1e-9)
        assert world.best == 9
    with pytest.raises(InvalidInputError, match="no instance") as caught:
        multivariate(2.5)
    assert caught.value.remedy


def test_the_malicious_one_lies_for_a_third() -> None:
    world = malicious()
    assert world.best == 0
    assert world.means[:3333].mean(axis=0).argmin() == 0
    assert world.gap == pytest.approx((2 * 6666 * (1 - np.cos(0.5)) - 3333 * np.sin(0.5)) / 10_000)


@pytest.mark.parametrize(
    ("means", "words"),
    [([[0.0, 1.0], [1.0, 0.0]], "equally good"), (np.eye(3), "3 columns; there are 2 arms")],
)
def test_wrong_tables_are_refused(means: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        MovingMeans(np.eye(2), means)
