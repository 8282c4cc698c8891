"""Rounds of several pulls: one baseline a round, the law of the blocks, what is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats

from bestarm import Uniform
from bestarm.environments import MicroRandomised, Ratings, Semiparametric, baselines
from bestarm.errors import InvalidInputError
from bestarm.records import BlockPlan, Plan, Rounds
from bestarm.simulation import simulate

MATRIX = np.array([[1, 2, 0, 5], [11, 13, 12, 15], [-4, -3, -5, -2], [40, 45, 42, 41.0]])
BLOCKS = [[0, 1, 2], [0, 1, 3], [1, 2, 3]]
CHANCES = [0.5, 0.3, 0.2]
ENOUGH = 1e-4  # the chance of a false alarm, under a fresh seed


def plan(rounds: int, phase: int = 1) -> BlockPlan:
    return BlockPlan.drawn(BLOCKS, CHANCES, rounds, arms=4, phase=phase, center=2.0)


def pulled(world: Ratings | Semiparametric, *sizes: int) -> list[Rounds]:
    stream = world.begin(np.random.default_rng(5))
    found = [stream.pull(plan(size)) for size in sizes]
    assert all(isinstance(each, Rounds) for each in found)
    return found  # type: ignore[return-value]


def test_a_user_answers_all_of_a_block() -> None:
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    [rounds] = pulled(Ratings(MATRIX, weights, block=3), 20_000)
    arms = rounds.blocks[rounds.kinds]
    fits = (MATRIX[:, arms] == rounds.table).all(axis=2)
    assert fits.any(axis=0).all()  # every row is of one user
    users = fits.argmax(axis=0)
    together = np.zeros((4, 3))
    np.add.at(together, (users, rounds.kinds), 1)
    expected = 20_000 * np.outer(weights, CHANCES)
    assert stats.chisquare(together.ravel(), expected.ravel()).pvalue > ENOUGH


def test_totals_are_those_of_the_rounds() -> None:
    for world in (Ratings(MATRIX, block=4), Semiparametric(np.eye(4), [1, 2, 3, 5.0], block=3)):
        [rounds] = pulled(world, 500)
        same = Rounds.of(plan(500), rounds.kinds, rounds.table)
        for name in ("counts", "missing", "pending", "least", "largest"):
            assert np.array_equal(getattr(rounds, name), getattr(same, name))
        for name in ("sums", "squares", "cubes"):
            assert np.allclose(getattr(rounds, name), getattr(same, name), rtol=1e-12, atol=1e-9)
        plan(500).check(rounds)


def test_without_replacement_every_user_is_asked_once() -> None:
    world = Ratings(MATRIX + np.arange(4)[:, None] * 100, block=3, replacement=False)
    first, second = pulled(world, 3, 1)
    users = np.concatenate([(each.table[:, 0] + 50) // 100 for each in (first, second)])
    assert sorted(users.tolist()) == [0, 1, 2, 3]
    stream = world.begin(np.random.default_rng(0))
    stream.pull(Plan.randomised([1, 0, 0, 0], 2, phase=1))  # a round of one pull asks a user too
    with pytest.raises(InvalidInputError, match="reach round 5"):
        stream.pull(plan(3))


def test_the_baseline_of_a_round_is_one_and_goes_on() -> None:
    path = np.array([5.0, -3.0, 1e6, 0.25, 7.0])
    world = Semiparametric(np.eye(4), [1, 2, 3, 5.0], baseline=path, noise=0.0, block=3)
    first, second = pulled(world, 2, 3)
    means = np.array([1, 2, 3, 5.0])
    for rounds, levels in ((first, path[:2]), (second, path[2:])):
        left = rounds.table - means[rounds.blocks[rounds.kinds]]
        assert np.array_equal(left, np.repeat(levels[:, None], 3, axis=1))
    stream = world.begin(np.random.default_rng(5))
    stream.pull(plan(4))
    with pytest.raises(InvalidInputError, match="reach round 6"):
        stream.pull(plan(2))


@pytest.mark.parametrize("baseline", [baselines.constant(3.0), baselines.sinusoid(1.0)])
def test_noise_is_drawn_for_every_pull(baseline: baselines.Baseline) -> None:
    world = Semiparametric(np.eye(4), [1, 2, 3, 5.0], baseline=baseline, noise=2.0, block=3)
    [rounds] = pulled(world, 4_000)
    means = np.array([1, 2, 3, 5.0])[rounds.blocks[rounds.kinds]]
    left = rounds.table - means
    pairs = (left[:, 1:] - left[:, :1]) / (2.0 * np.sqrt(2))
    assert stats.kstest(pairs[:, 0], "norm").pvalue > ENOUGH
    assert stats.kstest(pairs[:, 1], "norm").pvalue > ENOUGH
    counts = np.bincount(rounds.kinds, minlength=3)
    assert stats.chisquare(counts, 4_000 * np.array(CHANCES)).pvalue > ENOUGH


def test_blocks_of_probability_zero_are_never_drawn() -> None:
    rare = BlockPlan.drawn(BLOCKS, [0.0, 1.0, 0.0], 3_000, arms=4, phase=1)
    rounds = Ratings(MATRIX, block=3).begin(np.random.default_rng(0)).pull(rare)
    assert isinstance(rounds, Rounds)
    assert (rounds.kinds == 1).all()


def test_plans_with_larger_blocks_are_refused() -> None:
    worlds = (
        Ratings(MATRIX),
        Ratings(MATRIX, block=2, replacement=False),
        Semiparametric(np.eye(4), [1, 2, 3, 5.0], block=2),
        Semiparametric(np.eye(4), [1, 2, 3, 5.0], baseline=baselines.adversary(1.0)),
        MicroRandomised([0.0, 1.0, 2.0, 4.0]),
    )
    for world in worlds:
        with pytest.raises(InvalidInputError, match="asks for 3 pulls in a round"):
            world.begin(np.random.default_rng(0)).pull(plan(1))


def test_a_block_must_fit_the_world() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Ratings(MATRIX, block=5)
    assert caught.value.field == "block"
    with pytest.raises(InvalidInputError, match="not from round to round"):
        Semiparametric(np.eye(2), [1, 0], baseline=baselines.adversary(1.0), block=2)


def test_results_of_single_pulls_have_as_many_rounds() -> None:

    results = simulate(partial(Uniform, budget=40), Ratings(MATRIX), runs=2)
    assert results.rounds.tolist() == results.pulls.tolist()
    assert results.mean_rounds == 40
    assert "rounds" not in repr(results)
