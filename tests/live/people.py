"""People whose outcomes hang on what is known of them, and experiments with forecasts of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from bestarm import Experiment, Problem
from bestarm.forecasting import Forecaster
from bestarm.numerics.geometry import Array
from bestarm.policies import AnytimeBAI

__all__ = ["OPTIONS", "PROBLEM", "Echo", "answer", "in_memory", "reopen", "rows_of"]

PROBLEM = Problem(np.eye(2), delta=0.1, baseline=3.0, source_labels=["tea", "coffee"])
OPTIONS = {"bounds": [-10, 10]}


class Echo(Forecaster):
    """Forecasts the first covariate, and remembers all it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        known = None if covariates is None else float(covariates[0])
        self.heard.append(("forecast", number, known))
        return 0.0 if known is None else known

    def learn(self, number: int, features: Array, reward: float) -> None:
        self.heard.append(("learn", number, int(features.argmax()), reward))

    def __deepcopy__(self, memo: object) -> Echo:
        return Echo()


def in_memory(forecaster: Any = "default", **given: Any) -> Experiment:
    policy = AnytimeBAI(PROBLEM, bounds=(-10, 10), forecasts=True)
    return Experiment(policy, seed=1, forecaster=forecaster, **given)


def reopen(experiment: Experiment, **given: Any) -> Experiment:
    assert experiment.place is not None
    return Experiment.open(experiment.place, experiment.name, **given)


def answer(experiment: Experiment, count: int, *, seed: int = 0) -> None:
    """Ask one at a time of people whose outcome hangs on what is known of them."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        age, country = float(rng.normal()), str(rng.choice(["CH", "PE"]))
        batch = experiment.ask(covariates={"age": age, "country": country})
        if not batch:
            return
        level = np.clip(2 * age, -4, 4) + (country == "PE")
        experiment.tell(batch[0], float(level + rng.normal() * 0.1))


def rows_of(experiment: Experiment) -> Any:
    told = experiment.outcomes().rename(columns={"reward": "outcome"})
    return experiment.assignments().merge(told, on="id", how="left")
