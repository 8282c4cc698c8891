"""SP-BAI: the paper's Algorithm 2, in the order of its lines.

`stepwise` counts plans and pulls and keeps the trace; `design.anchored` has the designs XOR and
DEO, `estimation.orthogonalized` the estimate of θ, and `bounds` δ_ℓ and n_ℓ.
"""

from __future__ import annotations

import math
import sys
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from bestarm import bounds
from bestarm.checks import choice, positive, whole
from bestarm.design import check_tolerance, deo, xor
from bestarm.design.memo import recall
from bestarm.errors import InvalidInputError
from bestarm.estimation import orthogonalized
from bestarm.numerics.geometry import Array, centered_diameter, first_largest
from bestarm.policies.stepwise import StepwisePolicy, require_pullable_targets
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class PhaseTerms(NamedTuple):
    """The numbers of phase ℓ, which follow from the probabilities that it draws with.

    Attributes:
        epsilon: ε_ℓ, its accuracy in units of the normalised rewards.
        delta: δ_ℓ, its share of the error probability.
        value: V_ℓ, the largest variance factor of an active contrast, or of an active arm.
        stability: M, which enters the length.
        pulls: n_ℓ, before any cap; may be more than can ever be pulled.
    """

    epsilon: float
    delta: float
    value: float
    stability: float
    pulls: int


class SPBAI(StepwisePolicy):
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
        anchor: `"best"` takes the source arm nearest to the empirically best target of the previous
            phase (a random arm in phase 1), a whole number that arm always.
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
        super().__init__(problem, max_pulls=max_pulls)
        choice(preset, ("paper", "replication"), "preset")
        self._replication = preset == "replication"
        if max_phases is not None:
            whole(max_phases, "max_phases", least=1)
        elif self._replication:
            max_phases = 10
        if max_phase_pulls is not None:
            whole(max_phase_pulls, "max_phase_pulls", least=1)
        self._max_phases, self._max_phase_pulls = max_phases, max_phase_pulls
        check_tolerance(tol)
        self._tol = tol
        self._r1, self._r2 = positive(r1, "r1"), positive(r2, "r2")
        if anchor != "best":
            whole(anchor, "anchor", least=0, below=problem.arms)
        if self._replication:
            require_pullable_targets(problem, "The replication preset")
            if anchor != "best":
                raise InvalidInputError(
                    f"The replication preset keeps `anchor` at 'best'; got {anchor!r}.",
                    field="anchor",
                    value=anchor,
                    remedy="Leave it out, or take preset='paper'.",
                )
        self._anchor = anchor
        rng = np.random.default_rng(whole(seed, "seed", least=0))
        self._first_anchor = int(rng.integers(problem.arms))

    # Lines 4 to 7: what phase ℓ draws from, and how often.

    def _make_plan(self) -> Plan:
        phase = self._plans + 1
        weights, self._gap = self._design()
        pulls = self._terms(phase, weights).pulls
        return Plan.randomised(weights, min(pulls, self._allowed_pulls()), phase=phase)

    def _design(self) -> tuple[Array, float]:
        """p_ℓ = ½ p_xor + ½ p_G for the active targets, and the certified gap of XOR."""
        problem, anchor = self.problem, self._current_anchor()
        pullable = self._active if self._replication else np.arange(problem.arms)
        contrast = recall(
            xor,
            problem.source[pullable],
            problem.target[self._active],
            anchor=int(np.searchsorted(pullable, anchor)),
            tol=self._tol,
        )
        weights = 0.5 * recall(deo, problem.source, anchor=0, tol=self._tol).weights
        weights[pullable] += 0.5 * contrast.weights
        return weights, contrast.gap

    def _current_anchor(self) -> int:
        if self._anchor != "best":
            return int(self._anchor)
        if not self._trace:
            return self._first_anchor
        if self._replication:
            return self._leader
        return _nearest_arm(self.problem, self._leader)

    def _terms(self, phase: int, weights: Array) -> PhaseTerms:
        """ε_ℓ, δ_ℓ and n_ℓ of a phase that draws with these probabilities."""
        problem, epsilon = self.problem, 2.0**-phase
        # δ_ℓ = δ / (|A|² ℓ(ℓ+1))
        delta = bounds.phase_delta(problem.delta, active=len(self._active), phase=phase)
        targets = problem.target[self._active]
        value = recall(centered_diameter, problem.source, weights, targets)
        stability = 32.0 * problem.dimension
        # n_ℓ = R₁ V/ε² log(V/(ε δ_ℓ)) + R₂ M √V/ε log(d/δ_ℓ)
        pulls = bounds.phase_length(
            value,
            epsilon=epsilon,
            delta=delta,
            stability=stability,
            dimension=problem.dimension,
            r1=self._r1,
            r2=self._r2,
        )
        return PhaseTerms(epsilon, delta, value, stability, pulls)

    def _allowed_pulls(self) -> int:
        """How many pulls the caps leave for the next phase."""
        return min(self._pulls_left(), self._max_phase_pulls or sys.maxsize)

    # Lines 8 to 14 are the pulls, which whoever carries the plan out makes.

    # Lines 15 to 18: the estimate of θ, and who is dropped.

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        assert plan.weights is not None
        terms = self._terms(plan.phase, plan.weights)
        # A plan on record may be shorter by rounding alone: that matters only at a cap.
        cut_short = self._allowed_pulls() <= plan.pulls < terms.pulls
        over_cap = cut_short and plan.pulls == self._max_phase_pulls
        # The estimate of θ, in units of the rewards: their scale would cancel.
        theta = orthogonalized(
            self.problem, summary, plan.weights, ridge=self._ridge(plan.pulls, terms.delta)
        )
        # The empirical best.
        options = self.problem.target
        eligible = np.arange(len(options)) if over_cap else self._active
        scores = (options[eligible] - options[eligible[0]]) @ theta  # offsets would cost digits
        self._leader = int(eligible[first_largest(scores, size=summary.largest_mean)])
        # Targets ε_ℓ behind it are dropped; a phase that was cut short is not accurate enough.
        contrasts = (options[self._leader] - options[self._active]) @ theta
        radius = terms.epsilon * self.problem.scale
        dropped = (contrasts >= radius) & (not cut_short)
        self._end_phase(
            plan,
            dropped,
            contrasts=contrasts,
            radii=np.full(len(contrasts), radius),
            delta=terms.delta,
            weights=plan.weights,
            value=terms.value,
            stability=terms.stability,
        )
        if over_cap:
            return "max_phase_pulls"
        if len(self._active) == 1:
            return "identified"
        if cut_short or plan.pulls >= self._pulls_left():
            return "max_pulls"
        if self._max_phases is not None and len(self._trace) >= self._max_phases:
            return "max_phases"
        return None

    def _ridge(self, pulls: int, delta: float) -> float:
        if self._replication:
            return max(1.0, math.log(pulls / self.problem.delta))
        return math.log(pulls / delta)


def _nearest_arm(problem: Problem, target: int) -> int:
    """The source arm nearest to a target; the target itself where it can be pulled."""
    distance = problem.source - problem.target[target]
    size = float(np.square(problem.source).max())
    return first_largest(-np.einsum("ij,ij->i", distance, distance), size=size)
