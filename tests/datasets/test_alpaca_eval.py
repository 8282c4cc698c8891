"""AlpacaEval: the synthetic judgements beside figures of the real ones, and arguments.

The test of the real table looks for it beside the repository and is skipped where it is not.
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

from bestarm.datasets import JudgementsData, alpaca_eval
from bestarm.errors import InvalidInputError
from bestarm.policies import Uniform
from bestarm.simulation import simulate

REAL = Path(__file__).parents[3] / "shared" / "data" / "alpaca_eval" / "judgements.npz"
Floats = NDArray[np.float64]
# Figures of the real table, its models from the best to the worst: means and standard deviations
# of the best ten, and standard deviations of the best less each of the next nine.
MEANS = [0.7056, 0.6444, 0.6322, 0.5133, 0.2972, 0.1691, 0.1676, 0.1590, 0.1558, 0.1337]
DEVIATIONS = [0.380, 0.407, 0.403, 0.420, 0.394, 0.330, 0.329, 0.319, 0.316, 0.299]
DIFFERENCES = [0.395, 0.378, 0.402, 0.431, 0.451, 0.455, 0.448, 0.447, 0.442]
CORRELATIONS = (0.494, 0.163, 0.406)  # among the best five, between them and the rest, among these
EXTREME = (0.792, 0.044)  # shares of judgements below 0.01 and above 0.99


def figures(judgements: Floats) -> tuple[Floats, Floats, list[float], list[float]]:
    correlation = np.asarray(np.corrcoef(judgements.T))
    upper, lower = correlation[:5, :5], correlation[5:, 5:]
    return (
        judgements.std(axis=0)[:10],
        np.asarray((judgements[:, :1] - judgements[:, 1:10]).std(axis=0)),
        [
            float(upper[np.triu_indices(5, 1)].mean()),
            float(correlation[:5, 5:].mean()),
            float(lower[np.triu_indices(50, 1)].mean()),
        ],
        [float((judgements < 0.01).mean()), float((judgements > 0.99).mean())],
    )


def test_synthetic_judgements_are_alike_to_the_real_ones() -> None:
    data = alpaca_eval()
    assert data.judgements.shape == (797, 55)
    assert (data.judgements.min(), data.judgements.max()) == (0.0, 1.0)
    # Means to the ten-thousandth of a judgement, divided by the number of prompts.
    np.testing.assert_allclose(data.judgements.mean(axis=0)[:10], MEANS, rtol=0, atol=1e-6)
    assert data.judgements.mean() == pytest.approx(0.1093, abs=1e-4)
    deviations, differences, correlations, extreme = figures(data.judgements)
    np.testing.assert_allclose(deviations, DEVIATIONS, rtol=0.03)
    np.testing.assert_allclose(differences, DIFFERENCES, rtol=0.04)
    np.testing.assert_allclose(correlations, CORRELATIONS, rtol=0, atol=0.02)
    np.testing.assert_allclose(extreme, EXTREME, rtol=0, atol=0.02)


def test_figures_of_the_real_table() -> None:
    if not REAL.exists():
        pytest.skip("The real judgements are not beside this repository.")
    data = alpaca_eval(REAL, models=55)
    assert data.source == "AlpacaEval: 797 prompts were judged for all of 55 models."
    assert (data.name, data.synthetic) == ("alpaca_eval", False)
    assert data.models[:2] == ("FuseChat-Gemma-2-9B-Instruct", "FuseChat-Qwen-2.5-7B-Instruct")
    np.testing.assert_allclose(data.judgements.mean(axis=0)[:10], MEANS, rtol=0, atol=5e-5)
    assert data.judgements.mean() == pytest.approx(alpaca_eval().judgements.mean(), abs=1e-4)
    deviations, differences, correlations, extreme = figures(data.judgements)
    np.testing.assert_allclose(deviations, DEVIATIONS, rtol=0, atol=6e-4)
    np.testing.assert_allclose(differences, DIFFERENCES, rtol=0, atol=6e-4)
    np.testing.assert_allclose(correlations, CORRELATIONS, rtol=0, atol=6e-4)
    np.testing.assert_allclose(extreme, EXTREME, rtol=0, atol=6e-4)


def test_synthetic_says_so_everywhere() -> None:
    data = alpaca_eval(models=3)
    assert data.synthetic
    assert data.source.startswith("Synthetic: made-up judgements of 3 models on 797 prompts")
    assert (
        repr(data) == "JudgementsData('alpaca_eval (synthetic)', 797 prompts, 3 models, synthetic)"
    )
    world = data.environment()
    assert world.name == "alpaca_eval (synthetic)"
    assert "synthetic" in repr(world)


def test_a_prompt_comes_once_and_models_are_the_arms() -> None:
    data = alpaca_eval(models=["model 3", "model 1"])
    np.testing.assert_array_equal(data.judgements, alpaca_eval().judgements[:, [2, 0]])
    world = data.environment()
    problem = world.problem(0.05)
    assert (world.best, problem.source_labels) == (1, ("model 3", "model 1"))
    assert (world.replacement, problem.noise, data.bounds) == (False, 0.5, (0.0, 1.0))
    with pytest.raises(InvalidInputError, match="There are 797 users, each asked once"):
        simulate(partial(Uniform, budget=798), world, runs=1)
    assert simulate(partial(Uniform, budget=797), world, runs=1).runs == 1
    assert data.environment(replacement=True, declared_noise=1.0).problem(0.05).noise == 1.0


def test_the_best_so_many_models_come_best_first(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("low,none,high,middle\n0.1,,0.9,0.5\n0.2,,0.9,0.5\n,,0.8,0.4\n")
    data = alpaca_eval(path, models=2)
    assert data.models == ("high", "middle")
    assert len(data.judgements) == 3
    data = alpaca_eval(path, models=3)
    assert data.models == ("high", "middle", "low")
    assert data.source == "AlpacaEval: 2 of 3 prompts were judged for all of 3 models."
    assert not data.judgements.flags.writeable
    with pytest.raises(
        InvalidInputError, match="No prompt was judged for all of 4 models"
    ) as found:
        alpaca_eval(path)
    assert "'none' has the fewest judgements, 0" in found.value.remedy


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: alpaca_eval(models=1), "`models` must be a whole number from 2 to 55; got 1"),
        (lambda: alpaca_eval(models=56), "from 2 to 55; got 56"),
        (lambda: alpaca_eval(models=["model 1"]), r"two different models; got \['model 1'\]"),
        (lambda: alpaca_eval(models=["model 1", "model 1"]), "two different models"),
        (lambda: alpaca_eval(models="model 1"), "two different models; got 'model 1'"),
        (
            lambda: alpaca_eval(models=["model 1", "Model-2"]),
            "asks for 'Model-2', which was not judged. Did you mean model 2",
        ),
        (lambda: alpaca_eval(models=["model 1", "?"]), "There are 55 models, of which 'model 1'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(socket, "socket")
    alpaca_eval()
    with pytest.raises(InvalidInputError):
        alpaca_eval(tmp_path / "absent.json")


def test_data_survive_pickling() -> None:
    data = pickle.loads(pickle.dumps(alpaca_eval(models=2)))
    assert isinstance(data, JudgementsData)
    np.testing.assert_array_equal(data.judgements, alpaca_eval(models=2).judgements)
