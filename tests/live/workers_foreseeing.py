"""A worker with a forecaster of its own; started again, it repeats all its requests."""

from __future__ import annotations

from workers_killed import die_at, reward

from bestarm.forecasting import Forecaster
from bestarm.live import Experiment
from bestarm.numerics.geometry import Array

__all__ = ["Level", "work", "work_until"]


class Level(Forecaster):
    """The first covariate, and the mean of what it did not foresee."""

    def __init__(self) -> None:
        self._known: dict[int, float] = {}
        self._sum, self._count = 0.0, 0

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        self._known[number] = 0.0 if covariates is None else float(covariates[0])
        return self._known[number] + self._sum / max(1, self._count)

    def learn(self, number: int, features: Array, reward: float) -> None:
        self._sum, self._count = self._sum + reward - self._known.pop(number), self._count + 1


def work(experiment: Experiment, first: int, end: int) -> None:
    """Ask for two assignments at a time, and tell their outcomes."""
    for request in range(first, end):
        known = [{"level": 0.1 * request}, {"level": -0.1 * request}]
        batch = experiment.ask(2, request_id=f"{request}", covariates=known)
        experiment.tell_many([(each.id, reward(each.id, each.arm)) for each in batch])


def work_until(url: str, name: str, first: int, end: int, instant: int) -> None:
    """Take part, and be killed at an instant."""
    die_at(instant)
    with Experiment.open(url, name, forecaster=Level()) as experiment:
        work(experiment, first, end)
