"""Runs of a method that should hardly ever err: the first few decide, where none is wrong."""

from __future__ import annotations

from bestarm.environments import Environment
from bestarm.policies import Method
from bestarm.simulation import Results, RunJournal, simulate

__all__ = ["FIRST", "enough"]

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
