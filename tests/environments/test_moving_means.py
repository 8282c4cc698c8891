"""Worlds whose arms' means move: their runs, and their best arm."""

from __future__ import annotations

import numpy as np
import pytest
from single_pulls import add_up, assert_same_law, draw_arms, totals

from bestarm import Plan
from bestarm.environments import MovingMeans
from bestarm.environments.moving_means import MovingMeansStream
from bestarm.errors import InvalidInputError

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
