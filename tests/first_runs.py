"""Runs of a method that should hardly ever err: the first few decide, where none is wrong."""

from __future__ import annotations

import numpy as np

from bestarm.environments import Environment
from bestarm.forecasting import Forecaster
from bestarm.policies import Method
from bestarm.simulation import Results, RunJournal, simulate

__all__ = ["FIRST", "enough", "until_settled"]

# The upper end of a 95 % Wilson interval is below δ = 0.1 where none of so many is wrong. Of
# methods that err in 10 % of their runs, 0.9³⁵ = 2.5 % get through; of those that err in 20 %,
# one in 2500; of those that a baseline ruins, none.
FIRST = 35


def enough(
    method: Method, world: Environment, *, runs: int, seed: int = 0, delta: float = 0.1
) -> Results:
    """All of so many runs, or the first of them if they name nothing wrong."""
    first = simulate(method, world, runs=FIRST, seed=seed, delta=delta)
    if not (first.final & ~first.correct).any():
        return first
    return simulate(
        method, world, runs=runs, seed=seed, delta=delta, journal=RunJournal(known=first.outcomes())
    )


def until_settled(
    method: Method,
    world: Environment,
    *,
    runs: int,
    most: int,
    seed: int = 0,
    delta: float = 0.1,
    forecaster: Forecaster | None = None,
) -> Results:
    """The first of so many runs, until the others cannot change whether over `most` are wrong."""
    made, known = runs - most, RunJournal()
    while True:
        results = simulate(
            method, world, runs=made, seed=seed, delta=delta, forecaster=forecaster, journal=known
        )
        wrong = int(np.count_nonzero(results.final & ~results.correct))
        needed = min(runs - most + wrong, runs)
        if wrong > most or made >= needed:
            return results
        made, known = needed, RunJournal(known=results.outcomes())
