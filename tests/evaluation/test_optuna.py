"""Trials of real studies that are confirmed, or not."""

# ruff: noqa: PLC0415 - of optional packages, which may be missing
from __future__ import annotations

import random
from typing import Any

import pytest
from needed import need_module

from bestarm.errors import InvalidInputError


@pytest.fixture(autouse=True)
def _optuna() -> None:
    need_module("optuna", extra="optuna")


def study_of(direction: Any, trials: int = 25, noise: float = 0.3) -> tuple[Any, Any]:
    """A study of a noisy parabola with its best value at 0.5, by name and not by number."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rng = random.Random(4)

    def objective(trial: Any) -> float:
        distance = abs(trial.suggest_float("x", 0, 1) - 0.5)
        value = 0.2 + 0.6 * (1 - distance if direction == "maximize" else distance)
        return float(min(1.0, max(0.0, value + rng.uniform(-noise, noise))))

    sampler = optuna.samplers.RandomSampler(seed=3)
    study = optuna.create_study(direction=direction, sampler=sampler)
    study.optimize(objective, n_trials=trials)
    return study, objective


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_best_trial_is_confirmed_on_new_values(direction: str) -> None:
    from bestarm.optuna import confirm

    study, objective = study_of(direction)
    found = confirm(study, objective, bounds=(0, 1), top=8, tolerance=0.1, seed=1)
    assert found.recommendation.final
    assert len(found.means) == 8
    true = {number: abs(study.trials[number].params["x"] - 0.5) for number in found.means}
    assert 0.6 * (true[found.trial.number] - min(true.values())) <= 0.1
    assert found.trial.params == study.trials[found.trial.number].params
    assert "evaluated anew" in str(found)
    assert sum(found.evaluations.values()) == found.recommendation.pulls


def test_a_round_has_a_number_that_an_objective_may_take_for_its_seed() -> None:
    from bestarm.optuna import confirm

    study, _ = study_of("maximize")
    seeds = []

    def seeded(trial: Any) -> float:
        seeds.append(trial.number)
        noise = random.Random(trial.number).random()  # the same for all trials of a round
        return float(0.5 * noise + 0.5 * trial.suggest_float("x", 0, 1))

    found = confirm(study, seeded, bounds=(0, 1), top=3, tolerance=0.02, max_evaluations=3000)
    assert seeds[:6] == [0, 0, 0, 1, 1, 1]
    assert found.recommendation.final


def test_it_ends_undecided_at_its_limit() -> None:
    from bestarm.optuna import confirm

    study, objective = study_of("maximize")
    found = confirm(study, objective, bounds=(0, 1), top=2, max_evaluations=4, seed=1)
    assert (found.recommendation.final, found.recommendation.reason) == (False, "max_pulls")
    assert sum(found.evaluations.values()) == 4


@pytest.mark.parametrize("value", [None, "much", float("nan"), 1.5])
def test_a_value_that_is_none_is_refused(value: object) -> None:
    from bestarm.optuna import confirm

    study, _ = study_of("maximize")
    objective: Any = lambda trial: value  # noqa: E731
    with pytest.raises(InvalidInputError, match=r"the objective returned .* is not a number from"):
        confirm(study, objective, bounds=(0, 1))


def test_studies_that_cannot_be_confirmed_are_refused() -> None:
    import optuna

    from bestarm.optuna import confirm

    study, objective = study_of("maximize", trials=1)
    with pytest.raises(InvalidInputError, match="The study has 1 finished trial with different"):
        confirm(study, objective, bounds=(0, 1))
    both = optuna.create_study(directions=["maximize", "minimize"])
    with pytest.raises(InvalidInputError, match="The study has 2 objectives"):
        confirm(both, objective, bounds=(0, 1))
