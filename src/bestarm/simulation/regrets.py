"""Regret: what pulling other arms than the best one costs, added up over a run."""

from __future__ import annotations

import numpy as np

from bestarm.defaults import DELTA
from bestarm.environments import Environment, Semiparametric, Stream
from bestarm.errors import InvalidInputError
from bestarm.geometry import Array
from bestarm.policies import Method
from bestarm.records import Plan, Summary
from bestarm.simulation.engine import Simulation, carry_out
from bestarm.simulation.oracle import Oracle
from bestarm.simulation.results import run_count
from bestarm.simulation.threads import one_thread

__all__ = ["regret"]


def regret(
    method: Method | Oracle,
    environment: Environment,
    *,
    runs: int,
    seed: int = 0,
    delta: float = DELTA,
) -> Array:
    """Σ_t (max_a x_a·θ − x_{a_t}·θ) over the pulls of each run, of a policy that stops.

    Run i is that of `simulate` with the same seed, for policies that make plans. It needs no more
    of a policy than its plans, so it says of every method what it costs to learn.

    Args:
        method: makes a policy from a problem and a seed.
        environment: the environment of the runs; its worlds must know their θ.
        runs: the number of runs.
        seed: results depend only on it.
        delta: the error probability that the policy must keep.

    Raises:
        InvalidInputError: the arm means of a world are not known.
    """
    work = Simulation(method, environment, delta=delta, seed=seed)
    costs = np.zeros(run_count(runs))
    with one_thread:
        for run in range(len(costs)):
            policy, stream, world = work.begin(run)
            if not isinstance(world, Semiparametric):
                raise InvalidInputError(
                    f"The means of the arms of {environment.name!r} are not known.",
                    field="environment",
                    value=environment,
                    remedy="Regret can be had in worlds with a θ, such as Semiparametric.",
                )
            counted = _Counted(stream, policy.problem.arms)
            carry_out(policy, counted)
            means = policy.problem.source @ world.theta
            costs[run] = counted.counts @ (means.max() - means)
    return costs


class _Counted(Stream):
    """A run that counts the pulls of every arm."""

    def __init__(self, stream: Stream, arms: int) -> None:
        self._stream = stream
        self.counts = np.zeros(arms, dtype=np.int64)

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals."""
        summary = self._stream.pull(plan)
        self.counts += summary.counts
        return summary
