"""Sequential halving: a fixed budget, spent in stages that each drop half of the targets."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import ClassVar

import numpy as np

from bestarm.checks import whole
from bestarm.design import BlockDesign, Design, blocked_xy, centered_xy, check_tolerance
from bestarm.errors import ProtocolError
from bestarm.estimation import predict_level
from bestarm.numerics.geometry import Array, centered_diameter, covariance
from bestarm.policies.anytime.block_bets import laplacian
from bestarm.policies.phased.shrinking import Shrinking, parts
from bestarm.problem import Problem
from bestarm.records import BlockPlan, Blocks, Plan, Rounds, Summary

_SINGULAR = 1e-11  # an eigenvalue of M, relative to the largest, that is zero but for rounding
_PILOT = 20  # one pull in this many goes to the pilot
EVERY_TARGET = sys.maxsize  # kept after a plan that decides nothing
_LEAST_BATCH = 50  # pulls; a level predicted from fewer adds about as much noise as it takes away


class SequentialHalving(Shrinking):
    """The best target that a given number of pulls can find, whatever the baseline does.

    There are ⌈log₂ H⌉ stages of equal length. In each, arms are drawn from the centered XY-design
    of the targets still active; afterwards the better half of them is kept, by orthogonalized
    regression on all pulls so far. Contrasts of targets that are gone no longer cost anything.

    A stage is pulled in several plans. Before each, the level of its rewards is predicted from the
    plan before and taken off, which spares the variance that a common level would add and biases
    nothing, being fixed beforehand. The first plan, a pilot of one pull in twenty, only serves to
    predict.

    With `block`, a round pulls so many different arms that share one baseline. They are compared
    within the round, where it cancels, so that nothing needs to be predicted: there is no pilot,
    and each stage is one plan. Blocks are drawn from the certified design over blocks. Where arms
    have nothing in common they are made of active arms only, and once these fit into one block,
    every round pulls all of them.

    A budget is not an error probability: the answer is never final. `simulation.estimate_error`
    says how often it would be wrong in a world one believes in.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls, at least one per stage and one for the pilot. All are used;
            with `block`, as many rounds of so many pulls as it has, of which late ones may need
            fewer.
        stages: another number of stages, each of which keeps the H^(1/stages)-th part. One stage is
            a single regression under the design for all targets.
        batches: plans per stage; the more, the better a moving baseline is followed. Each must be
            answered before the next begins; none is made shorter than 50 pulls for it. With `block`
            there is one.
        block: how many different arms a round pulls.
        seed: accepted like every policy's; the draws are not the policy's to make.
        tol: the relative gap to which designs are certified.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import SequentialHalving
        >>> policy = SequentialHalving(Problem(["a", "b", "c", "d"]), budget=1000)
        >>> policy.plan().weights.tolist()
        [0.25, 0.25, 0.25, 0.25]

    Reference: Karnin, Koren and Somekh (2013); Katz-Samuels, Jain, Karnin and Jamieson (2020).
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        budget: int,
        stages: int | None = None,
        batches: int = 32,
        block: int = 1,
        seed: int = 0,  # noqa: ARG002
        tol: float = 1e-3,
    ) -> None:
        super().__init__(problem)
        check_tolerance(tol)
        self._tol = tol
        sizes = _sizes(problem.targets, stages)
        self._block = whole(block, "block", least=1, below=problem.arms + 1)
        least = 1 + len(sizes) if self._block == 1 else self._block * len(sizes)
        self._lengths, self._keep = _schedule(
            whole(budget, "budget", least=least),
            sizes,
            whole(batches, "batches", least=1),
            block=self._block,
        )
        self._fit = _Fit(problem) if self._block == 1 else BlockFit(problem)

    @property
    def theta(self) -> Array:
        """θ̂ so far, in feature units; only its products with differences of arms mean anything."""
        return self._fit.theta

    def _make_plan(self) -> Plan:
        rounds = self._lengths[self._plans]
        if self._block > 1:
            drawn = block_design(self.problem, self._active.tobytes(), self._block, self._tol)
            self._gap = drawn.gap
            return BlockPlan.drawn(
                drawn.blocks,
                drawn.weights,
                rounds,
                arms=self.problem.arms,
                phase=self._plans + 1,
                open=True,  # a round that lost arms counts: no other is drawn in its place
                most=rounds * drawn.blocks.shape[1],
            )
        design = _design(self.problem, self._active.tobytes(), self._tol)
        self._gap = design.gap
        return Plan.randomised(design.weights, rounds, phase=self._plans + 1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:
        self._fit.add(summary, plan)
        options = self.problem.target[self._active]
        return np.asarray((options - options[0]) @ self._fit.theta)  # offsets would cost digits

    def _check_adopted(self, plan: Plan) -> None:
        if isinstance(plan, BlockPlan) != (self._block > 1):
            raise ProtocolError(
                f"The plan of phase {plan.phase} has rounds of {plan.size} pulls.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made, with the same `block`.",
            )

    def _value(self, plan: Plan) -> float:
        """The largest variance factor of an active contrast, per pull."""
        assert plan.weights is not None
        if isinstance(plan, BlockPlan):
            span, targets = self.problem.span, self.problem.target[self._active]
            contrasts = span.contrast_coordinates(targets - targets[0])
            arms = span.coordinates(self.problem.source)
            return plan.size * _diameter(arms, plan.blocks, plan.block_weights, contrasts)
        return _value(self.problem, self._active.tobytes(), plan.weights.tobytes())


def _sizes(targets: int, stages: int | None) -> list[int]:
    """How many targets are left after each stage."""
    if stages is None:
        return [math.ceil(targets / 2**k) for k in range(1, math.ceil(math.log2(targets)) + 1)]
    whole(stages, "stages", least=1, below=targets)
    return [math.ceil(round(targets ** (1 - k / stages), 9)) for k in range(1, stages + 1)]


def _schedule(
    budget: int, sizes: list[int], batches: int, *, block: int
) -> tuple[list[int], list[int]]:
    """The rounds of each plan, of one pull or of a block, and how many targets are kept after it.

    The pilot, then stages of equal length, each in plans of equal length. With blocks, one plan per
    stage and no pilot.
    """
    if block > 1:
        return parts(budget // block, len(sizes)), sizes
    pilot = max(1, budget // _PILOT)
    lengths, keep = [pilot], [EVERY_TARGET]
    for pulls, size in zip(parts(budget - pilot, len(sizes)), sizes, strict=True):
        plans = parts(pulls, min(batches, max(1, pulls // _LEAST_BATCH)))
        lengths += plans
        keep += [*[EVERY_TARGET] * (len(plans) - 1), size]
    return lengths, keep


@lru_cache(maxsize=4096)
def _design(problem: Problem, active: bytes, tol: float) -> Design:
    """A pure function of these, so runs of one simulation share the work."""
    indices = np.frombuffer(active, dtype=np.int64)
    return centered_xy(problem.source, problem.target[indices], tol=tol)


@lru_cache(maxsize=4096)
def _value(problem: Problem, active: bytes, weights: bytes) -> float:
    """The largest variance factor of an active contrast."""
    targets = problem.target[np.frombuffer(active, dtype=np.int64)]
    return centered_diameter(problem.source, np.frombuffer(weights, dtype=float), targets)


class _Fit:
    """Orthogonalized regression on all plans but the first, each at the level predicted for it.

    Every plan adds Σ x̃ (r − level − x̃·θ) to the estimating equation, a martingale difference for
    any baseline and any level fixed before it. All pulls count alike.
    """

    def __init__(self, problem: Problem) -> None:
        self._dual = problem.span.dual
        self._arms = problem.span.coordinates(problem.source)
        self._last: Summary | None = None
        self._ridge = np.zeros((problem.rank, problem.rank))
        self._gram = np.zeros((problem.rank, problem.rank))
        self._moment = np.zeros(problem.rank)
        self._slope = np.zeros(problem.rank)

    @property
    def theta(self) -> Array:
        return np.asarray(self._dual @ self._slope)

    def add(self, summary: Summary, plan: Plan) -> None:
        """Take in a plan's totals."""
        weights = plan.weights
        assert weights is not None
        mean = weights @ self._arms
        centered = self._arms - mean
        gram = centered.T @ (summary.counts[:, None] * centered)
        if self._last is None:
            # The level of the pilot is its own mean, no prediction: it serves later plans only.
            level = summary.sums.sum() / summary.pulls
            moment = centered.T @ (summary.sums - level * summary.counts)
            self._ridge = covariance(self._arms, weights)  # one pull, so that few can be solved for
            self._slope = _solve(gram + self._ridge, moment)
        else:
            level = predict_level(self._last, self._arms, mean, self._slope)
            moment = centered.T @ (summary.sums - level * summary.counts)
            self._gram, self._moment = self._gram + gram, self._moment + moment
            self._slope = _solve(self._gram + self._ridge, self._moment)
        self._last = summary


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
    return problem.rank == problem.arms - 1 and problem.compares_arms


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
        return np.asarray(self._dual @ _solve(self._gram, self._moment))

    def add(self, summary: Summary, plan: Plan) -> None:
        """Take in the rounds of a plan."""
        assert isinstance(plan, BlockPlan)
        assert isinstance(summary, Rounds)
        laplacian, sums = summary.within()
        self._gram = self._gram + self._arms.T @ laplacian @ self._arms
        self._moment = self._moment + self._arms.T @ sums


def _solve(gram: Array, moment: Array) -> Array:
    """The least solution of gram · x = moment."""
    return np.asarray(np.linalg.lstsq(gram, moment, rcond=None)[0])
