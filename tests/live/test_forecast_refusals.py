"""What cannot be forecast, or used for it, is refused, and nothing is assigned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foreseen import OPTIONS, PROBLEM, Create, Echo, in_memory, reopen

from bestarm import Experiment
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.policies import SPBAI, AnytimeBAI


@pytest.fixture
def create(tmp_path: Path) -> Create:
    return Create(tmp_path)


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ("default", {"covariates": [{"x": 1.0}]}, "covariates"),
    ("default", {"covariates": [{"x": 1.0}, {"x": float("nan")}]}, "covariates['x']"),
    ("default", {"covariates": [{"x": 1.0}, {"x": [1]}]}, "covariates['x']"),
    ("default", {"covariates": ["a", "b"]}, "covariates"),
    ("default", {"covariates": 3}, "covariates"),
    ("default", {"covariates": [{"x": "y" * 20_000}] * 2}, "covariates"),
    ("default", {"forecasts": [1.0, 2.0]}, "forecasts"),
    ("own", {"forecasts": [1.0]}, "forecasts"),
    ("own", {"forecasts": [1.0, float("inf")]}, "forecasts"),
    ("own", {"forecasts": "ab"}, "forecasts"),
    ("own", {"covariates": [{"x": 1.0}] * 2}, "forecasts"),
    ("own", {}, "forecasts"),
]


@pytest.mark.parametrize(("forecaster", "given", "field"), REFUSED)
def test_what_cannot_be_used_is_refused_and_nothing_is_assigned(
    forecaster: str, given: dict[str, Any], field: str
) -> None:
    experiment = in_memory(forecaster)
    with pytest.raises(InvalidInputError) as refused:
        experiment.ask(2, **given)
    assert refused.value.field == field
    assert refused.value.remedy
    assert experiment.status().pulls == 0


def test_a_forecast_that_is_no_number_assigns_nothing() -> None:
    class Nowhere(Echo):
        def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
            return float("nan")

    experiment = in_memory(Nowhere())
    with pytest.raises(InvalidInputError, match="not a number"):
        experiment.ask()
    assert experiment.status().pulls == 0


@pytest.mark.parametrize("given", [{"covariates": {"x": 1.0}}, {"forecasts": [1.0]}])
def test_an_experiment_without_a_forecaster_says_so(given: dict[str, Any]) -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(-10, 10)))
    with pytest.raises(InvalidInputError, match="no forecaster") as refused:
        experiment.ask(**given)
    assert "forecaster='default'" in refused.value.remedy


def test_a_forecaster_of_ones_own_is_given_again(create: Create) -> None:
    experiment = create(Echo())
    with reopen(experiment) as again:
        with pytest.raises(InvalidInputError) as refused:
            again.ask()
        assert "Experiment.open(…, forecaster=…)" in refused.value.remedy
        assert again.status().pulls == 0
        again.ask(forecasts=0.5)  # or the forecasts themselves
    with pytest.raises(InvalidInputError, match="created with forecaster='own'"):
        reopen(experiment, forecaster="default")


def test_policy_and_forecaster_must_fit() -> None:
    with pytest.raises(InvalidInputError, match="there is no forecaster"):
        in_memory(None)
    with pytest.raises(InvalidInputError, match="was not made for") as refused:
        Experiment(SPBAI(PROBLEM), forecaster="default")
    assert refused.value.field == "policy"
    with pytest.raises(InvalidInputError, match="must be 'default'"):
        in_memory("another")


def test_options_cannot_ask_for_forecasts_that_nobody_makes(
    create: Create,
) -> None:
    with pytest.raises(InvalidInputError, match="there is no forecaster"):
        create(None, options=OPTIONS | {"forecasts": True})
