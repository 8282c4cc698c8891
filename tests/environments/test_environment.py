"""What all worlds have in common: fixed instances, problems made once, pickles, refusals."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from bestarm.environments import (
    Environment,
    MicroRandomised,
    MovingMeans,
    Ratings,
    Semiparametric,
    baselines,
    small_gap,
    uniform_sphere,
)
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError
from bestarm.records import Plan

RATINGS = np.random.default_rng(12).integers(-5, 6, size=(1000, 4)) + np.arange(4)
FIXED: dict[str, Semiparametric | MicroRandomised | MovingMeans | Ratings] = {
    "semiparametric": small_gap(),
    "two-point": TwoPoint(np.eye(2), [0.1, 0.2], baseline=0.5, bounds=(0, 1)),
    "people": MicroRandomised([0.3, 0.0]),
    "moving means": MovingMeans(np.eye(2), np.tile([0.0, 1.0], (900, 1))),
    "users": Ratings(RATINGS),
    "users once": Ratings(RATINGS, replacement=False),
}
WORLDS: dict[str, Environment] = {**FIXED, "drawn": uniform_sphere(20, 3)}


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
        (lambda: MovingMeans(np.eye(2), [[0.0, 1.0], [1.0, 0.0]]), "equally good"),
        (lambda: MovingMeans(np.eye(2), np.eye(3)), "3 columns; there are 2 arms"),
        (lambda: MicroRandomised([0.3, 0.0], people=0), "`people` must be a whole number"),
        (lambda: MicroRandomised([0.3, 0.0], rhythm=-1), "`rhythm` must not be negative"),
        (lambda: MicroRandomised([0.3, 0.0], per_day=0), "`per_day` must be positive"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()
