"""What all worlds have in common: fixed instances, problems made once, pickles, refusals."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from bestarm import environments, simulate
from bestarm.environments import (
    Environment,
    Ratings,
    Semiparametric,
    baselines,
    small_gap,
    soare,
    uniform_sphere,
)
from bestarm.environments.baselines import Baseline, as_baseline
from bestarm.environments.environment import AdjustableStream, FixedWorld, Pulls
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError
from bestarm.policies import AnytimeBAI, Method, Policy, Uniform
from bestarm.problem import Problem
from bestarm.records import Plan

RATINGS = np.random.default_rng(12).integers(-5, 6, size=(1000, 4)) + np.arange(4)
FIXED: dict[str, Semiparametric | Ratings] = {
    "semiparametric": small_gap(),
    "two-point": TwoPoint(np.eye(2), [0.1, 0.2], baseline=0.5, bounds=(0, 1)),
    "users": Ratings(RATINGS),
    "users once": Ratings(RATINGS, replacement=False),
}
WORLDS: dict[str, Environment] = {**FIXED, "drawn": uniform_sphere(20, 3)}


INSTANCES = (
    "many_arms",
    "published_spheres",
    "small_gap",
    "soare",
    "tao",
    "transductive",
    "uniform_sphere",
)
BASELINES: dict[str, Baseline] = {
    "adversary": baselines.adversary(2.0),
    "constant": baselines.constant(-3.0),
    "custom": baselines.custom(lambda t: 5 * np.cos(t), bound=5.0),
    "none": baselines.none(),
    "random_walk": baselines.random_walk(0.5, bound=2.0),
    "sinusoid": baselines.sinusoid(-2.0, offset=-1.0),
    "switches": baselines.switches((-3.0, 1.0), period=20.0),
    "array": as_baseline([0.5, -4.0] * 2000),
}
DECLARING: dict[str, Environment] = {
    **FIXED,
    **{name: getattr(environments, name)() for name in INSTANCES},
    **{name: soare(3, 0.5, baseline=moving) for name, moving in BASELINES.items()},
    "large effects": Semiparametric(np.eye(2), [30.0, -40.0]),
    "wide rewards": TwoPoint(np.eye(2), [1.0, 2.0], baseline=5.0, bounds=(0, 10)),
    "ratings far from 0": Ratings(RATINGS + 30),
    "unequal users": Ratings(RATINGS, np.arange(1000) / 499_500),
    "instances in turn": environments.InTurn([soare(3, angle) for angle in (0.1, 0.3)], "two"),
}


def test_every_public_world_is_among_those_whose_declarations_are_checked() -> None:
    factories = {name for name in dir(environments) if name.islower() and name != "baselines"}
    assert factories == set(INSTANCES)
    kinds = {each for each in vars(baselines) if each in baselines.__all__ and each.islower()}
    assert kinds - {"as_baseline"} <= set(BASELINES)


def farthest(baseline: Baseline, rng: np.random.Generator) -> float:
    """The largest |ν_t| of 2,000 rounds."""
    reached: list[float] = []

    def note(pulls: Pulls, _plan: Plan) -> NDArray[np.float64]:
        reached.append(float(np.abs(pulls.rewards).max()))
        return np.zeros(len(pulls.rewards))

    silent = baseline.begin(np.zeros(2), noise=0.0, rng=rng)
    assert isinstance(silent, AdjustableStream)
    silent.pull_adjusted(Plan.randomised([0.5, 0.5], 2000, phase=1), note)
    return max(reached)


@pytest.mark.parametrize("name", DECLARING)
def test_what_policies_are_told_of_scales_holds(name: str) -> None:
    """In 2,000 rounds of two runs. Noise has no sharp end, so its scale is compared itself."""
    environment = DECLARING[name]
    for seed in range(2):
        world = cast(FixedWorld, environment.instance(np.random.default_rng(seed)))
        told, rng = world.problem(0.1), np.random.default_rng(seed)
        assert world.mean_bound >= told.scale
        if isinstance(world, Semiparametric):
            means, noise = told.source @ world.theta, world.noise
            assert farthest(world.baseline, rng) <= told.baseline * (1 + 1e-12)
        else:
            assert isinstance(world, Ratings)
            means, noise = world.means, np.ptp(world.matrix, axis=0).max() / 2
            # A user's rating is the item's mean, the user's level and a rest.
            levels = world.matrix.mean(axis=1) - means.mean()
            assert np.abs(levels).max() <= told.baseline * (1 + 1e-12)
        assert np.abs(means).max() <= world.mean_bound
        assert noise <= told.noise


@pytest.mark.parametrize("name", ["small_gap", "soare", "none", "sinusoid", "users"])
def test_the_anytime_rule_finds_nothing_that_contradicts_what_it_is_told(name: str) -> None:
    found = simulate(partial(AnytimeBAI, max_pulls=20_000), DECLARING[name], runs=6, delta=0.1)
    assert not found.contradicted.any()


SEEN: list[float | None] = []


def noting(
    problem: Problem,
    *,
    mean_bound: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> Policy:
    """A policy, whose bound on means is noted."""
    SEEN.append(mean_bound)
    return Uniform(problem, budget=problem.arms)


def test_simulations_tell_methods_how_large_effects_are() -> None:
    def told(method: Method, world: Environment) -> float | None:
        simulate(method, world, runs=1)
        return SEEN[-1]

    assert told(noting, soare()) == 2.0  # θ = 2e₁, of noise 1 and no baseline
    assert told(noting, small_gap()) is None  # the scale is 2 as well
    assert told(noting, environments.tao()) is None
    assert told(partial(noting, mean_bound=5.0), soare()) == 5.0
    assert told(partial(noting, bounds=(0, 1)), soare()) is None
    assert told(noting, Semiparametric.for_problem(Problem(np.eye(2)), [3.0, 0.0])) is None
    assert told(noting, Semiparametric(np.eye(2), [3.0, 0.0], declared_mean_bound=4.0)) == 4.0


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_world_is_its_own_instance_and_makes_a_problem_once(name: str) -> None:
    world = FIXED[name]
    assert isinstance(world, Environment)
    assert world.instance(np.random.default_rng(0)) is world
    assert world.problem(0.05) is world.problem(0.05)
    assert (world.problem(0.05).delta, world.problem(0.1).delta) == (0.05, 0.1)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("pulls", [50, 900])
def test_pickled_worlds_give_the_same_runs(name: str, pulls: int) -> None:
    def run(environment: Environment) -> list[float]:
        world = environment.instance(np.random.default_rng(3))
        arms = world.problem(0.1).arms
        plan = Plan.randomised(np.full(arms, 1 / arms), pulls, phase=1)
        return list(world.begin(np.random.default_rng(4)).pull(plan).squares.tolist())

    fresh = len(pickle.dumps(WORLDS[name]))
    expected = run(WORLDS[name])
    sent = pickle.dumps(WORLDS[name])
    assert run(pickle.loads(sent)) == expected
    assert len(sent) < fresh + 100  # what a run has cached stays where it was made
    assert name != "semiparametric" or len(sent) < 20_000


def test_a_run_may_start_from_any_generator() -> None:
    plan = Plan.randomised(np.full(11, 1 / 11), 1000, phase=1)
    for kind in (np.random.MT19937, np.random.PCG64, np.random.Philox):
        counts = small_gap().begin(np.random.Generator(kind(5))).pull(plan).counts
        assert counts.min() > 40  # 91 expected, standard deviation 9


SOURCE = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Semiparametric([[0.1, 0.2], [0.3, 0.0]], [1, 1], source_labels=["a", "b"]),
            "'a' and 'b' are equally good.*Drop one",  # rounding does not hide a tie
        ),
        (lambda: Semiparametric(SOURCE, [1.0, 0.0]), "'0' and '2' are equally good"),
        (lambda: Semiparametric(SOURCE, [1.0]), r"`theta` has shape \(1,\); the arms have 2"),
        (lambda: Semiparametric(SOURCE, [1.0, math.nan]), "`theta` is nan at 1"),
        (lambda: Semiparametric(SOURCE, [1.0, 0.5], noise=-1), "`noise` must not be negative"),
        (lambda: Semiparametric(SOURCE, [1.0, 0.5], declared_baseline=-1), "`baseline` must"),
        (
            lambda: Semiparametric(SOURCE, [1.0, 0.5], declared_mean_bound=-1),
            "`declared_mean_bound` must not be negative",
        ),
        (lambda: Semiparametric(SOURCE, [1, 0.5], baseline=np.sin), "bound of `baseline` is not"),
        (lambda: Semiparametric(SOURCE, [1.0, 0.5], block=4), "`block` must be a whole number"),
        (
            lambda: Semiparametric(SOURCE, [1, 0.5], baseline=baselines.adversary(1.0), block=2),
            "not from round to round",
        ),
        (lambda: small_gap(1), "`dimension` must be a whole number of at least 2; got 1"),
        (lambda: small_gap(angle=0.0), "identical features"),
        (lambda: small_gap(angle=math.nan), "`angle` must be a finite number"),
        (lambda: uniform_sphere(1), "`arms` must be a whole number of at least 2"),
        (lambda: uniform_sphere(noise=-1), "`noise` must not be negative"),
        (lambda: uniform_sphere(dimension=2.5), "`dimension` must be a whole number"),  # type: ignore[arg-type]
        (
            lambda: Ratings([[0.1, 0.3], [0.2, 0.0]], source_labels=["a", "b"]),
            "'a' and 'b' are equally good.*Drop one",
        ),
        (lambda: Ratings([[1, math.nan]]), "`matrix` has nan in row 0, column 1. Every rating"),
        (lambda: Ratings([1, 2, 3]), r"one row per user; got shape \(3,\)"),
        (lambda: Ratings(RATINGS, [1.0]), "`weights` must be 1000 probabilities that sum to 1"),
        (lambda: Ratings(RATINGS, source_labels=["a"]), "`source_labels` has 1 labels for 4 rows"),
        (lambda: Ratings(RATINGS, covariates=[[1.0]]), "`covariates` has 1 rows for 1000 users"),
        (lambda: Ratings(RATINGS, replacement=0), "`replacement` must be True or False; got 0"),  # type: ignore[arg-type]
        (lambda: Ratings(RATINGS, block=5), "`block` must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()
