"""Options without features whose means move, each on its own: what a verdict means (moving.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.moving import DELTA, WORLDS, drops, play, rule
from bestarm import AnytimeBAI, Problem, Summary, simulate
from bestarm.field.moving_means import MovingMeans
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.assumptions import has_unrestricted_means
from bestarm.policies.anytime.bets import BatchOutcome, Bets, Frame, Scale, StakeGrid
from bestarm.policies.anytime.block_bets import BlockSampling
from bestarm.policies.anytime.intervals import lower_ends
from bestarm.policies.anytime.readout import read
from bestarm.policies.anytime.sampler import coordinates
from bestarm.records import BlockPlan

STEADY = [name for name, world in WORLDS.items() if world.best is not None]
CHANGING = [name for name, world in WORLDS.items() if world.best is None]


def frame_of(problem: Problem, rng: np.random.Generator, scale: Scale) -> Frame:
    """A frame with nothing special about it."""
    arms, _, _ = coordinates(problem)
    spread = rng.uniform(0.2, 2.0, (1, problem.arms))
    weights = rng.dirichlet(np.ones(problem.arms))[None]
    return Frame.under(
        scale,
        weights,
        guess=rng.uniform(scale.low, scale.high, (1, problem.arms)),
        spread=spread,
        sizes=np.array([50]),
        pulls=np.array([100]),
        reader=read(arms, weights, spread, intercept=problem.drifts),
        grid=StakeGrid.around(0.04),
        leaders=np.array([[0, 1]]),
    )


def pairs(options: int) -> Iterator[tuple[int, int]]:
    return ((o, a) for o in range(options) for a in range(options) if o != a)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(["a", "b", "c", "d"]),
        Problem(["a", "b", "c", "d"], baseline=0),
        Problem([[0.3, 1.0], [2.0, -1.0], [0.5, 0.1]]),
    ],
)
def test_without_a_model_a_contrast_is_read_off_its_two_options(problem: Problem) -> None:
    assert has_unrestricted_means(problem)
    rng, (_, _, targets) = np.random.default_rng(0), coordinates(problem)
    frame = frame_of(problem, rng, Scale(-1, 1))
    [chances], unit = frame.weights, np.eye(problem.arms)
    for o, a in pairs(problem.arms):
        w = frame.bets((targets[o] - targets[a])[None]).w[0]
        np.testing.assert_allclose(chances * w, unit[o] - unit[a], atol=1e-9)


def test_a_round_of_several_options_is_read_alike() -> None:
    problem = Problem(["a", "b", "c", "d"])
    arms, _, targets = coordinates(problem)
    blocks = [[0, 1, 2], [0, 2, 3], [1, 2, 3], [0, 1, 3]]
    plan = BlockPlan.drawn(blocks, [0.1, 0.2, 0.3, 0.4], 5, arms=4, phase=1)
    sampling = BlockSampling(arms, plan)
    for o, a in pairs(4):
        u = sampling.read((targets[o] - targets[a])[None])[0]
        # Σ_B q_B Σ_i w_B(i) μ_i = (L u)·μ
        np.testing.assert_allclose(sampling.laplacian @ u, np.eye(4)[o] - np.eye(4)[a], atol=1e-9)


def mean_factor(bets: Bets, means: Array, scale: Scale, ahead: Array) -> Array:
    """E[(1 + λz) exp(λ(Σ p w c − m))] as totals show it, exactly: rewards are at the bounds."""
    arms, total = len(means), 0.0
    for arm, chance in enumerate(bets.frame.weights[0]):
        for reward in (scale.low, scale.high):
            high = (means[arm] - scale.low) / (scale.high - scale.low)
            batch = BatchOutcome(bets.frame, Summary.from_pulls([arm], [reward], size=arms))
            stakes, growth = bets.settle(batch)
            factor = np.exp(growth - stakes * ahead[:, None])
            total = total + chance * (high if reward == scale.high else 1 - high) * factor
    return np.asarray(total)


@pytest.mark.parametrize("margin", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(10))
def test_wealth_less_the_lead_of_the_opponents_does_not_grow_on_average(
    seed: int, margin: float
) -> None:
    """M of the proof with the rule's own stakes, whoever is ahead, for any means."""
    rng, scale = np.random.default_rng(seed), Scale(-1.0, 1.0)
    problem = Problem(["a", "b", "c", "d"])
    frame, means = frame_of(problem, rng, scale), rng.uniform(-1, 1, 4)
    _, _, targets = coordinates(problem)
    chosen = list(pairs(4))
    bets = frame.bets(np.array([targets[o] - targets[a] for o, a in chosen]), margin=margin)
    ahead = np.array([means[o] - means[a] + margin for o, a in chosen])
    assert mean_factor(bets, means, scale, ahead).max() <= 1 + 1e-9


def test_with_features_means_that_do_not_fit_break_it() -> None:
    """Three options on a line, the middle one the best: what is bet on is the fitted line."""
    problem, scale = Problem([[0.0], [1.0], [2.0]]), Scale(0.0, 1.0)
    assert not has_unrestricted_means(problem)
    rng, means = np.random.default_rng(0), np.array([0.3, 0.9, 0.5])
    _, _, targets = coordinates(problem)
    bets = frame_of(problem, rng, scale).bets((targets[2] - targets[1])[None])
    assert mean_factor(bets, means, scale, np.array([means[2] - means[1]])).max() > 1.0001


@pytest.mark.parametrize("name", STEADY)
def test_an_option_that_is_always_the_best_is_seldom_dropped(name: str) -> None:
    """At an error rate of δ more than 33 of 200 runs have a probability of 0.2 %.

    docs/moving.md has other seeds.
    """
    world = WORLDS[name]
    left = play(world, range(20_000, 20_200))
    assert sum(len(each) < 4 for each in left) > 150
    assert sum(world.best not in each for each in left) <= 33


@pytest.mark.parametrize("baseline", [0.0, 1.0])
def test_so_it_is_with_noise_that_has_no_bounds(baseline: float) -> None:
    """The same limit as above, with a baseline declared and without one: names need none."""
    day = 1 + 0.8 * np.sin(np.arange(1500) / 40)
    world = MovingMeans(np.eye(3), day[:, None] * [0.8, 0.75, 0.2], noise=1.0)

    def declared(problem: Problem, *, seed: int = 0) -> AnytimeBAI:
        told = problem.with_baseline(baseline)
        return AnytimeBAI(told, mean_bound=2.0 - baseline, max_pulls=1500, seed=seed)

    results = simulate(declared, world, runs=200, delta=DELTA)
    assert results.final.sum() > 5
    assert (results.final & ~results.correct).sum() <= 33


@pytest.mark.parametrize("name", CHANGING)
def test_an_option_that_is_dropped_was_behind_on_a_weighted_average(name: str) -> None:
    """At an error rate of δ more than 5 of 15 runs have a probability of 0.2 %."""
    found = [drops(WORLDS[name], 20_000 + seed) for seed in range(15)]
    assert sum(map(len, found)) > 25
    for option in range(4):
        wrong = [any(d.option == option and d.behind <= 0 for d in each) for each in found]
        assert sum(wrong) <= 5


def weighted_average(policy: AnytimeBAI, contrast: Array, sums: Array, level: float) -> Array:
    """A lower end, and the weighted average that it is about: see moving.md."""
    past, grid = policy._past, policy._grid
    [end] = lower_ends(lambda *_: contrast, past, threshold=level, grid=grid)
    wealth, exposure, lead = np.zeros((3, len(grid)))
    for batch, total in zip(past, sums, strict=True):
        [stakes], [growth] = batch.frame.bets(contrast).settle(batch)
        wealth, exposure = wealth + growth, exposure + batch.exposure * stakes
        lead = lead + stakes * total
    shares = np.exp(grid.log_shares + wealth - end * exposure - level)
    assert shares.sum() == pytest.approx(1)  # the e-value at the end is the threshold
    return np.array([end, shares @ lead / (shares @ exposure)])


def test_ends_of_intervals_are_about_weighted_averages() -> None:
    """Each of 24 ends misses with a probability of 0.1 % at most; none did."""
    rates = WORLDS["rates cross"].rates
    for seed in range(12):
        rng, policy, at, leads = np.random.default_rng(seed), rule(4), 0, []
        while (plan := policy.plan()) is not None:
            when = np.arange(at, at + plan.pulls)
            arms = rng.choice(4, plan.pulls, p=plan.weights)
            paid = (rng.random(plan.pulls) < rates[when, arms]).astype(float)
            policy.update(Summary.from_pulls(arms, paid, size=4, center=plan.center))
            leads.append((rates[when, 0] - rates[when, 1]).sum())
            at += plan.pulls
        contrast = (policy._targets.now[0] - policy._targets.now[1])[None]
        for sign in (1, -1):
            low, average = weighted_average(policy, sign * contrast, sign * np.array(leads), 6.908)
            assert low < average


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "The same option is the best at every moment"),
        ({"top": 2}, "The same 2 options are the best at every moment"),
        ({"tolerance": 0.1}, "one that is named was more than 0.1 behind it"),
        ({"control": "a"}, "the interval of a lead is about its weighted average"),
        ({"block": 2}, "it does not depend on which options the round has"),
        ({"bounds": None}, "What each option pays on average lies within ±2."),
        ({"bounds": None, "block": 2}, "of a round pay on average differs by at most 2."),
    ],
)
def test_names_alone_need_no_model(options: dict[str, Any], words: str) -> None:
    policy = AnytimeBAI(Problem(["a", "b", "c"]), **{"bounds": (0, 1), **options})
    text = " ".join(policy.recommend().assumptions)
    assert words in text
    assert "may move in any way" in text
    assert "x·θ" not in text


@pytest.mark.parametrize(
    ("source", "target", "baseline"),
    [
        ([[0.0], [1.0], [2.0]], None, 1.0),
        (np.eye(2), [[1.0, 0.0], [0.5, 0.5]], 1.0),
        ([[0.0], [1.0]], None, 0.0),
    ],
)
def test_features_that_say_something_are_assumed(
    source: object, target: object, baseline: float
) -> None:
    answer = AnytimeBAI(Problem(source, target, baseline=baseline), bounds=(0, 1)).recommend()
    assert "x·θ" in answer.assumptions[0]
    assert not any("may move in any way" in each for each in answer.assumptions)


def test_the_worlds_move_by_factors_and_cross() -> None:
    day = WORLDS["multiplied rhythms"].rates
    assert np.ptp(np.log(day[:, 0])) > np.log(8)
    assert (day.argmax(axis=1) == 0).all()
    for name in CHANGING:
        assert set(WORLDS[name].rates.argmax(axis=1)) == {0, 1}
    assert DELTA == 0.1
