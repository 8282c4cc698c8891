"""What all worlds have in common: fixed instances, problems made once, and pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from bestarm.environments import (
    Environment,
    MicroRandomised,
    MovingMeans,
    Ratings,
    Semiparametric,
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


def test_an_instance_without_a_best_target_is_refused() -> None:
    """Each names the labels and the argument; rounding does not hide a tie."""
    for make in (
        lambda: Semiparametric([[0.1, 0.2], [0.3, 0.0]], [1, 1], source_labels=["a", "b"]),
        lambda: Ratings([[0.1, 0.3], [0.2, 0.0]], source_labels=["a", "b"]),
    ):
        with pytest.raises(InvalidInputError, match=r"'a' and 'b' are equally good.*Drop one"):
            make()
    with pytest.raises(InvalidInputError, match="equally good"):
        MovingMeans(np.eye(2), [[0.0, 1.0], [1.0, 0.0]])
