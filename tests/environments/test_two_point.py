"""The world of yes and no has the law it says, however its pulls are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm.environments.baselines import Constant, Moving, Recorded
from bestarm.environments.streams import BaseStream
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.planning.request import Drift
from bestarm.presampled import PresampledRewards
from bestarm.records import BlockPlan, Plan, Rounds

BOUNDS = (2.0, 6.0)  # neither is its own square
THETA = np.array([-0.4, 0.0, 0.6])


def world(baseline: Constant | Moving) -> TwoPoint:
    return TwoPoint(np.eye(3), THETA, baseline=baseline, bounds=BOUNDS)


def levels(name: str, rounds: int) -> Array:
    wave = np.sin(2 * np.pi * np.arange(1, rounds + 1) / 500)
    return 4.0 + (1.2 if name == "wave" else 0.0) * wave


def expected(level: Array) -> Array:
    """The chance that each arm pays the upper bound, averaged over a path: by hand."""
    return np.asarray(np.mean((THETA + level[:, None] - 2.0) / 4.0, axis=0))


PATHS: dict[str, Constant | Moving] = {
    "level": Constant(4.0),
    "wave": Drift("sine").path(level=4.0, size=1.2, period=500),
}


@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("name", PATHS)
def test_every_reward_is_a_bound_and_their_share_is_the_mean(name: str, extremes: bool) -> None:
    pulls, weights = 200_000, np.array([0.2, 0.3, 0.5])
    stream = world(PATHS[name]).begin(np.random.default_rng(5))
    total = stream.pull(Plan.randomised(weights, pulls, phase=1, extremes=extremes))
    hits = (total.sums - 2 * total.counts) / 4.0
    assert np.allclose(hits, np.round(hits))
    assert np.allclose(total.squares, 36 * hits + 4 * (total.counts - hits))
    assert total.counts.sum() == pulls
    chance = expected(levels(name, pulls))
    deviations = (hits / total.counts - chance) / np.sqrt(chance * (1 - chance) / total.counts)
    assert np.abs(deviations).max() < 4  # three draws: a false alarm in about 5000


@pytest.mark.parametrize("name", PATHS)
def test_rounds_known_ahead_have_the_same_law(name: str) -> None:
    stream = world(PATHS[name]).begin(np.random.default_rng(6))
    paid = []
    for _ in range(50):
        known = stream.presample(2000)  # type: ignore[attr-defined]
        paid.append(known.table[known.rows] + known.common[:, None])
        stream.skip(2000)  # type: ignore[attr-defined]
    rewards = np.concatenate(paid)
    assert set(np.unique(rewards)) == {2.0, 6.0}
    path = levels(name, len(rewards))
    chance = expected(path)
    share = np.mean(rewards == 6.0, axis=0)
    assert np.abs((share - chance) / np.sqrt(chance * (1 - chance) / len(rewards))).max() < 4
    if name == "wave":  # high where the wave is high, arm by arm
        top = path > 5.0
        assert np.all(np.mean(rewards[top] == 6.0, axis=0) > share + 0.1)


@pytest.mark.parametrize("name", PATHS)
def test_arms_of_one_round_share_its_level_and_nothing_else(name: str) -> None:
    """Pairs of yes and no: each arm has its mean, and covariances are those of the path alone."""
    rounds = 100_000
    pairs = TwoPoint(np.eye(3), THETA, baseline=PATHS[name], bounds=BOUNDS, block=2)
    stream = pairs.begin(np.random.default_rng(7))
    plan = BlockPlan.drawn([[0, 2], [1, 2]], [0.5, 0.5], rounds, arms=3, phase=1)
    told = stream.pull(plan)
    assert isinstance(told, Rounds)
    assert set(np.unique(told.table)) == {2.0, 6.0}
    path = levels(name, rounds)
    for kind, arms in enumerate(plan.blocks):
        drawn = told.kinds == kind
        chances = (THETA[arms] + path[drawn, None] - 2.0) / 4.0
        excess = (told.table[drawn] == 6.0) - chances
        spread = np.sqrt(np.sum(chances * (1 - chances), axis=0))
        assert np.abs(excess.sum(axis=0) / spread).max() < 4
        both = np.prod(chances * (1 - chances), axis=1)
        assert abs(np.prod(excess, axis=1).sum()) < 4 * np.sqrt(both.sum())


def ahead_of(instance: TwoPoint, rounds: int) -> PresampledRewards:
    stream = instance.begin(np.random.default_rng(0))
    assert isinstance(stream, BaseStream)
    known = stream.presample(rounds)
    assert known is not None
    return known


def test_a_mean_beyond_the_bounds_is_refused_and_not_cut_off() -> None:
    stream = world(Recorded(np.array([4.0, 5.9]))).begin(np.random.default_rng(0))
    with pytest.raises(InvalidInputError, match="leaves the bounds"):
        stream.pull(Plan.fixed([0, 0, 2], phase=1))
    with pytest.raises(InvalidInputError, match="leaves the bounds"):
        ahead_of(world(Recorded(np.array([4.0, 5.9]))), 2)


def test_a_level_may_be_beyond_the_bounds_where_no_mean_is() -> None:
    """Options whose features all lower the mean: only means are chances."""
    low = TwoPoint(-np.eye(2), [0.5, 0.7], baseline=Recorded(np.full(500, 1.2)), bounds=(0.0, 1.0))
    known = ahead_of(low, 500)
    share = np.mean(known.table[known.rows] + known.common[:, None], axis=0)
    chance = np.array([0.7, 0.5])
    assert np.abs((share - chance) / np.sqrt(chance * (1 - chance) / 500)).max() < 4
