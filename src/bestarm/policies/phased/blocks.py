"""Rounds that pull several arms: regression within blocks, and which blocks to draw."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from bestarm.design import BlockDesign, blocked_xy
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.block_bets import laplacian
from bestarm.policies.stepwise import Indices
from bestarm.problem import Problem
from bestarm.records import BlockPlan, Blocks, Plan, Rounds, Summary

_SINGULAR = 1e-11  # an eigenvalue of M, relative to the largest, that is zero but for rounding


@lru_cache(maxsize=1024)
def block_design(problem: Problem, active: bytes, size: int, tol: float) -> BlockDesign:
    """The design over blocks of `size` arms for contrasts of the active targets.

    Where the targets are arms without anything in common, blocks are made of the active ones, and
    have all of them if they are fewer. A pure function, so runs of one simulation share the work.
    """
    targets = np.frombuffer(active, dtype=np.int64)
    if not _unrelated(problem):
        return blocked_xy(problem.source, problem.target[targets], size=size, tol=tol)
    blocks, weights = even_blocks(len(targets), min(size, len(targets)))
    arms = blocks.shape[1]
    value = _diameter(np.eye(len(targets)), blocks, weights, np.eye(len(targets)))
    # By symmetry no design is better than all blocks alike, which has this value.
    least = 2.0 * (len(targets) - 1) / (arms - 1)
    return BlockDesign(weights, value, least, value / least - 1, 0, targets[blocks])


def even_blocks(arms: int, size: int) -> tuple[Blocks, Array]:
    """Blocks in which all pairs of arms meet about equally often, and their probabilities.

    Arms lie on a circle, and a block has `size` of them at equal steps, from every start and with
    every step that does not meet an arm twice. If the number of arms is prime, or the size is 2,
    all pairs meet equally often.
    """
    start, step = np.arange(arms)[:, None], np.arange(size)
    steps = [each for each in range(1, arms // 2 + 1) if arms // math.gcd(each, arms) >= size]
    blocks = np.sort(np.concatenate([(start + each * step) % arms for each in steps]), axis=1)
    found = np.unique(blocks, axis=0).astype(np.int64)
    return found, np.full(len(found), 1 / len(found))


def _unrelated(problem: Problem) -> bool:
    """Whether the targets are the arms, and no arm says anything about another."""
    return problem.rank == problem.arms - 1 and np.array_equal(problem.source, problem.target)


def block_diameter(problem: Problem, active: Indices, plan: BlockPlan) -> float:
    """The largest yᵀM⁻¹y of a difference y of active targets under a plan, per pull."""
    arms = problem.span.coordinates(problem.source)
    targets = problem.span.contrast_coordinates(problem.target[active] - problem.target[active[0]])
    return plan.size * _diameter(arms, plan.blocks, plan.block_weights, targets)


def _diameter(arms: Array, blocks: Blocks, weights: Array, targets: Array) -> float:
    """The largest yᵀM⁻¹y of a difference of targets, M = Σ_B q_B Σ_i (x_i − x̄_B)(x_i − x̄_B)ᵀ."""
    moments = arms.T @ laplacian(blocks, weights, len(arms)) @ arms
    products = targets @ np.linalg.pinv(moments, rcond=_SINGULAR, hermitian=True) @ targets.T
    squares = np.diag(products)
    return float((squares[:, None] + squares - 2 * products).max())


class BlockFit:
    """Least squares on differences within blocks, over all plans: whatever a round shares cancels.

    Every round adds Σ_{i in B} (x_i − x̄_B)(r_i − x_i·θ) to the estimating equation, where B are the
    arms that have an outcome: a round that lost some is the smaller one that it became.
    """

    def __init__(self, problem: Problem) -> None:
        self._dual = problem.span.dual
        self._arms = problem.span.coordinates(problem.source)
        self._gram = np.zeros((problem.rank, problem.rank))
        self._moment = np.zeros(problem.rank)

    @property
    def theta(self) -> Array:
        """θ̂ so far, in feature units."""
        return np.asarray(self._dual @ solve(self._gram, self._moment))

    def add(self, summary: Summary, plan: Plan) -> None:
        """Take in the rounds of a plan."""
        assert isinstance(plan, BlockPlan)
        assert isinstance(summary, Rounds)
        laplacian, sums = summary.within()
        self._gram = self._gram + self._arms.T @ laplacian @ self._arms
        self._moment = self._moment + self._arms.T @ sums


def solve(gram: Array, moment: Array) -> Array:
    """The least solution of gram · x = moment."""
    return np.asarray(np.linalg.lstsq(gram, moment, rcond=None)[0])
