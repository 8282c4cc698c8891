"""Jester: the synthetic users beside the published figures, arguments, and the real files.

The tests of real files look for them beside the repository and are skipped where they are not.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bestarm.datasets import RatingsData, jester
from bestarm.environments import Environment
from bestarm.errors import InvalidInputError
from bestarm.policies import RAGE
from bestarm.simulation import simulate

PAPER = (7, 8, 13, 15, 16, 17, 18, 19)
# The means over the paper's users, as published.
PUBLISHED = (-1.9527, -0.7170, -0.6493, -1.4307, -1.6313, 0.6746, -0.1279, 0.7750)
REAL = Path(__file__).parents[3] / "shared" / "data" / "jester"
Floats = NDArray[np.float64]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jester(jokes=()), "`jokes` must list at least two different jokes"),
        (lambda: jester(jokes=(7,)), r"at least two different jokes by number; got \(7,\)"),
        (lambda: jester(jokes=(7, 7)), "at least two different jokes"),
        (lambda: jester(jokes=7), "at least two different jokes by number; got 7"),  # type: ignore[arg-type]
        (lambda: jester(jokes=(7, 8.5)), "`jokes` must be a whole number"),  # type: ignore[arg-type]
        (lambda: jester(jokes=(7, 20)), "asks for joke 20; the synthetic users rated 7, 8, 13"),
        (lambda: jester(dataset=3), "`dataset` must be a whole number from 1 to 2; got 3"),
        (lambda: jester(dataset=1), "the synthetic users are modelled on dataset 2. Give the"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def skewness(ratings: Floats) -> Floats:
    centered = ratings - ratings.mean(axis=0)
    return np.asarray((centered**3).mean(axis=0) / ratings.std(axis=0) ** 3)


def test_synthetic_users_have_the_published_means_exactly() -> None:
    data = jester()
    assert data.ratings.shape == (20_000, 8)
    assert data.jokes == PAPER
    np.testing.assert_allclose(data.ratings.mean(axis=0), PUBLISHED, rtol=0, atol=1e-12)
    assert np.abs(data.ratings).max() <= 10
    np.testing.assert_array_equal(data.ratings * 32, np.rint(data.ratings * 32))
    world = data.environment()
    assert (world.best, world.problem(0.1).target_labels[world.best]) == (7, "joke 19")
    assert world.gap == pytest.approx(0.1004, abs=1e-12)
    np.testing.assert_array_equal(jester(jokes=(19, 7)).ratings, data.ratings[:, [7, 0]])


def test_synthetic_users_are_alike_to_the_real_ones() -> None:
    # Figures of the 11 004 users of dataset 2 that its constants were fitted to, rounded.
    ratings = jester().ratings
    deviation = [5.70, 5.55, 5.70, 5.57, 5.78, 5.76, 5.55, 5.78]
    np.testing.assert_allclose(ratings.std(axis=0), deviation, atol=0.01)
    skew = [0.40, 0.12, 0.08, 0.30, 0.33, -0.18, -0.03, -0.22]
    np.testing.assert_allclose(skewness(ratings), skew, atol=0.1)
    correlation = np.asarray(np.corrcoef(ratings.T))[np.triu_indices(8, 1)]
    assert correlation.mean() == pytest.approx(0.318, abs=0.01)
    assert ratings.mean(axis=1).std() == pytest.approx(3.60, abs=0.05)


def test_synthetic_says_so_everywhere() -> None:
    data = jester()
    assert data.synthetic
    assert data.source.startswith("Synthetic: 20,000 made-up users")
    assert "50,699" in data.source
    assert "synthetic" in repr(data)
    world = data.environment(replacement=False, declared_noise=6.0, declared_baseline=10.0)
    assert world.name == "jester (synthetic)"
    assert "synthetic" in repr(world)
    assert not world.replacement
    assert (world.problem(0.1).noise, world.problem(0.1).baseline) == (6.0, 10.0)


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(socket, "socket")
    jester()
    with pytest.raises(InvalidInputError):
        jester(tmp_path / "absent.csv")


def test_data_survive_pickling_and_run() -> None:
    data = pickle.loads(pickle.dumps(jester()))
    assert isinstance(data, RatingsData)
    np.testing.assert_array_equal(data.ratings, jester().ratings)
    world = data.environment()
    assert isinstance(world, Environment)
    results = simulate(partial(RAGE, max_pulls=50_000), world, runs=3)
    assert results.environment == "jester (synthetic)"


def real(name: str) -> RatingsData:
    path = REAL / name
    if not path.exists():
        pytest.skip(f"The real ratings in {name} are not beside this repository.")
    return jester(path)


def test_the_early_users_of_dataset_2_have_the_published_means() -> None:
    data = real("jester2_early_users.npz")
    world = data.environment()
    assert data.ratings.shape == (11_004, 8)
    np.testing.assert_allclose(world.means, PUBLISHED, atol=1e-6)
    assert (world.best, data.synthetic) == (7, False)
    assert "11,004 users" in data.source
    assert "the paper had 50,699 users" in data.source
    assert data.weights is not None
    deviations = np.sqrt(data.weights @ (data.ratings - world.means) ** 2)
    np.testing.assert_allclose(deviations, jester().ratings.std(axis=0), atol=0.02)


def test_the_complete_users_of_dataset_1_have_an_easier_gap() -> None:
    data = real("jester1_complete.npz")
    world = data.environment()
    assert data.ratings.shape == (73_357, 8)
    assert (data.name, data.weights, world.best) == ("jester 1", None, 7)
    assert world.gap == pytest.approx(0.805, abs=1e-3)
