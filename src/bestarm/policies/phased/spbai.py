"""SP-BAI: the paper's phase elimination on orthogonalized regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from bestarm import bounds
from bestarm.checks import choice, positive, whole
from bestarm.design import check_tolerance, deo, xor
from bestarm.errors import InvalidInputError
from bestarm.estimation import orthogonalized
from bestarm.numerics.geometry import Array, centered_diameter, first_largest
from bestarm.policies.designs import cached_design
from bestarm.policies.phased.elimination import Elimination, PhaseDesign, PhaseRequest
from bestarm.policies.stepwise import Indices, require_pullable_targets
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


@dataclass(frozen=True)
class _Reading:
    """The options that shape a phase; hashable, so that phases can be remembered across runs."""

    replication: bool
    r1: float
    r2: float
    tol: float


class SPBAI(Elimination):
    """Fixed-confidence best-arm identification under a moving baseline, in phases.

    In phase ℓ, arms are drawn half from XOR and half from DEO, θ is estimated from the phase's
    pulls by orthogonalized regression with ridge log(n_ℓ/δ_ℓ), and targets estimated 2^−ℓ or more
    below the leader (times the reward scale) are dropped.

    **The replication preset** (`preset="replication"`) is the algorithm as the paper's experiments
    ran it: XOR pulls active arms only, the ridge is max(1, log(n_ℓ/δ)) with the δ of the whole
    run, and there are at most 10 phases. Its designs are certified.

    Assumes rewards x·θ + ν_t + noise with ν_t fixed before arm t is drawn, |ν_t| ≤
    `problem.baseline` and noise of scale `problem.noise`. No error probability is proven, because
    the constants are tuned: the `error_bound` of a recommendation is None.

    Args:
        problem: the problem.
        preset: `"paper"` follows the paper's text, `"replication"` its experiments; the latter
            takes no other `anchor`, and targets that are the source arms.
        r1: the constant R₁ of the phase length.
        r2: the constant R₂.
        anchor: `"best"` takes the source arm nearest to the empirically best
            target of the previous phase (a random arm in phase 1), a whole number that arm always.
        seed: for the random first anchor.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.
        max_phases: stop after this many phases; never final either, unless one target is left.
            Left out, it is 10 under the replication preset and no limit otherwise.
        max_phase_pulls: a phase that wants more than this draws this many and is the last; the best
            of all targets under its estimate, dropped ones included, is then named, never final.
        tol: the relative gap to which designs are certified.

    Example:
        >>> from bestarm import Problem, SPBAI
        >>> policy = SPBAI(Problem([[1, 0], [0, 1]]))
        >>> policy.plan().weights.round(2).tolist()
        [0.5, 0.5]

    Reference: "Nearly Optimal Best Arm Identification for Semiparametric Bandits", Algorithm 2.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        preset: Literal["paper", "replication"] = "paper",
        r1: float = 1 / 3,
        r2: float = 1 / 3,
        anchor: Literal["best"] | int = "best",
        seed: int = 0,
        max_pulls: int | None = None,
        max_phases: int | None = None,
        max_phase_pulls: int | None = None,
        tol: float = 1e-3,
    ) -> None:
        choice(preset, ("paper", "replication"), "preset")
        replication = preset == "replication"
        super().__init__(
            problem,
            max_pulls=max_pulls,
            max_phases=10 if replication and max_phases is None else max_phases,
            max_phase_pulls=max_phase_pulls,
        )
        check_tolerance(tol)
        if anchor != "best":
            whole(anchor, "anchor", least=0, below=problem.arms)
        if replication:
            _check_replication(problem, anchor)
        self._reading = _Reading(replication, positive(r1, "r1"), positive(r2, "r2"), tol)
        self._anchor = anchor
        rng = np.random.default_rng(whole(seed, "seed", least=0))
        self._first_anchor = int(rng.integers(problem.arms))

    def _design(self, phase: int, active: Indices) -> PhaseRequest:
        anchor = self._current_anchor()
        weights, gap = _design_phase(self.problem, self._reading, active.tobytes(), anchor)
        return PhaseRequest(weights, self._describe_weights(phase, active, weights).pulls, gap)

    def _describe(self, plan: Plan, active: Indices) -> PhaseDesign:
        assert plan.weights is not None
        return self._describe_weights(plan.phase, active, plan.weights)

    def _describe_weights(self, phase: int, active: Indices, weights: Array) -> PhaseDesign:
        return _describe_phase(
            self.problem, self._reading, phase, active.tobytes(), weights.tobytes()
        )

    def _current_anchor(self) -> int:
        if self._anchor != "best":
            return int(self._anchor)
        if not self._trace:
            return self._first_anchor
        if self._reading.replication:
            return self._leader
        return _nearest_arm(self.problem, self._leader)

    def _estimate(self, design: PhaseDesign, plan: Plan, summary: Summary) -> Array:
        # Rewards divided by s are normalised; the estimate of θ/s is multiplied back. Both cancel,
        # because the ridge does not depend on the rewards.
        ridge = math.log(plan.pulls / design.delta)
        if self._reading.replication:
            ridge = max(1.0, math.log(plan.pulls / self.problem.delta))
        return orthogonalized(self.problem, summary, design.weights, ridge=ridge)


@lru_cache(maxsize=1024)
def _design_phase(
    problem: Problem, reading: _Reading, active: bytes, anchor: int
) -> tuple[Array, float]:
    """Weights and certified gap; a pure function of these, so runs of a simulation share them."""
    indices = np.frombuffer(active, dtype=np.int64)
    pullable = indices if reading.replication else np.arange(problem.arms)
    contrast = cached_design(
        xor,
        problem.source[pullable],
        problem.target[indices],
        anchor=int(np.searchsorted(pullable, anchor)),
        tol=reading.tol,
    )
    weights = 0.5 * cached_design(deo, problem.source, anchor=0, tol=reading.tol).weights
    weights[pullable] += 0.5 * contrast.weights
    weights.flags.writeable = False
    return weights, contrast.gap


@lru_cache(maxsize=1024)
def _describe_phase(
    problem: Problem, reading: _Reading, phase: int, active: bytes, weights: bytes
) -> PhaseDesign:
    """The quantities that follow from the weights of a phase."""
    targets = problem.target[np.frombuffer(active, dtype=np.int64)]
    distribution = np.frombuffer(weights, dtype=float)
    value = centered_diameter(problem.source, distribution, targets)
    stability, epsilon = 32.0 * problem.dimension, 2.0**-phase
    delta = bounds.phase_delta(problem.delta, active=len(targets), phase=phase)
    pulls = bounds.phase_length(
        value,
        epsilon=epsilon,
        delta=delta,
        stability=stability,
        dimension=problem.dimension,
        r1=reading.r1,
        r2=reading.r2,
    )
    return PhaseDesign(
        pulls=pulls,
        weights=distribution,
        radius=epsilon * problem.scale,
        delta=delta,
        value=value,
        stability=stability,
    )


def _check_replication(problem: Problem, anchor: object) -> None:
    """Raise unless the targets are arms that can be pulled, around the best of them."""
    require_pullable_targets(problem, "The replication preset")
    if anchor != "best":
        raise InvalidInputError(
            f"The replication preset keeps `anchor` at 'best'; got {anchor!r}.",
            field="anchor",
            value=anchor,
            remedy="Leave it out, or take preset='paper'.",
        )


@lru_cache(maxsize=1024)
def _nearest_arm(problem: Problem, target: int) -> int:
    """The source arm nearest to a target; the target itself where it can be pulled."""
    distance = problem.source - problem.target[target]
    size = float(np.square(problem.source).max())
    return first_largest(-np.einsum("ij,ij->i", distance, distance), size=size)
