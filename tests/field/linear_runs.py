"""Runs of linear rules on rewards that are fixed beforehand, and least squares in plain NumPy."""

from __future__ import annotations

import numpy as np

from bestarm import Problem, Summary
from bestarm.field.pull_by_pull import PullByPull
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards

# Features without an order, of full rank, not of full rank, and targets that cannot be pulled.
FLAT = np.random.default_rng(1).normal(size=(4, 2)) @ np.array([[1.0, 0.5, -1.0], [0.3, -1, 0.2]])
_DIRECT = np.array([[1, 0, 0.1], [0, 1, 0], [0, 0.2, 0.9], [1, 1, 1]])
_WANTED = np.array([[1, 0.9, 0], [0, 1, 1.1], [1, 0.1, 1]])
# The longest arm has norm 1, which is the unit of regularisation and of bounds on ‖θ‖.
PROBLEMS = {
    "soare": Problem([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.8, 0.6, 0]], delta=0.1),
    "two": Problem([[0.6, 0.1], [0.6, 0.8]], delta=0.1),
    "flat": Problem(FLAT / np.linalg.norm(FLAT, axis=1).max(), delta=0.1),
    "transductive": Problem(_DIRECT / 3**0.5, target=_WANTED / 3**0.5, delta=0.1),
}


def rewards_of(problem: Problem, pulls: int, seed: int = 7) -> PresampledRewards:
    """Rewards of so many pulls: linear, with noise."""
    rng = np.random.default_rng(seed)
    means = problem.source @ rng.normal(size=problem.dimension)
    table = means[None, :]
    table.flags.writeable = False
    return PresampledRewards(table, np.zeros(pulls, dtype=np.int64), rng.normal(size=pulls))


def drive(policy: PullByPull, presampled: PresampledRewards) -> list[int]:
    """The arms that it pulls, one plan after the other."""
    pulled = []
    for noise in presampled.common:
        if (plan := policy.plan()) is None:
            break
        counts = np.asarray(plan.counts)
        pulled.append(int(np.argmax(counts)))
        reward = presampled.table[0, pulled[-1]] + noise
        policy.update(Summary(counts, counts * reward, counts * reward**2))
    return pulled


def least_squares(
    problem: Problem, counts: Array, sums: Array, ridge: float
) -> tuple[Array, Array]:
    """The (pseudo-)inverse of A, and θ̂."""
    design = ridge * np.eye(problem.dimension) + problem.source.T @ (
        counts[:, None] * problem.source
    )
    inverse = np.asarray(np.linalg.pinv(design, rcond=1e-10, hermitian=True), dtype=float)
    return inverse, inverse @ problem.source.T @ sums


def closest(problem: Problem, inverse: Array, theta: Array) -> tuple[int, Array, Array]:
    """The leader, and by how much and with which ‖z_leader − z‖² it is ahead of every target."""
    means = problem.target @ theta
    leader = int(np.argmax(means))
    contrasts = problem.target[leader] - problem.target
    return leader, means[leader] - means, np.einsum("ij,jk,ik->i", contrasts, inverse, contrasts)
