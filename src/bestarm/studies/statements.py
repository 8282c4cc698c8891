"""The paper's bounds on lengths and errors, with their constants: see docs/paper.md.

Statements about designs are in `bestarm.design`, and shares of δ in `bestarm.bounds`. Numbers are
those of "Nearly Optimal Best Arm Identification for Semiparametric Bandits".
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.bounds import phase_delta, phase_length
from bestarm.design import complexity
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem

__all__ = [
    "anchored_lower_bound",
    "concentration_bound",
    "gaps",
    "information_limit",
    "last_phase",
    "theorem_chain",
]


def concentration_bound(
    value: float,
    *,
    pulls: int,
    delta: float,
    stability: float,
    dimension: int,
    c1: float = 1.0,
    c2: float = 1.0,
) -> float:
    """The bound on |y·(θ̂ − θ)| after t pulls under one policy, in units of the normalised rewards.

        c₁ √(L log(t/δ) / t) + c₂ M √L log(d/δ) / t

    It holds with probability at least 1 − δ for absolute constants above 1 that are not in print.
    `python -m benchmarks.concentration` measures how far errors stay below it with both at 1.

    Args:
        value: L, ‖y‖² under Σ_cov,p⁻¹.
        pulls: t.
        delta: δ.
        stability: M, max_i ‖x_i − x̄_p‖² under Σ_cov,p⁻¹.
        dimension: d.
        c1: c₁.
        c2: c₂.

    Reference: the paper's equation (4); Kim, Kim and Oh (2025).
    """
    main = math.sqrt(value * math.log(pulls / delta) / pulls)
    return c1 * main + c2 * stability * math.sqrt(value) * math.log(dimension / delta) / pulls


def gaps(problem: Problem, theta: Array) -> Array:
    """Δ_z = (z* − z)·θ of every target; 0 for the best."""
    means = (problem.target - problem.target[0]) @ theta
    return np.asarray(means.max() - means)


def anchored_lower_bound(problem: Problem, theta: Array, *, anchor: int = 0) -> float:
    """Proposition 1: τ_lin(Z : X − x_anchor) log(1/δ), whose absolute constant is not in print.

    For unit noise, and times the square of the noise otherwise.
    """
    tau = complexity(problem, theta, "shifted", anchor=anchor).value
    return problem.noise**2 * tau * math.log(1 / problem.delta)


def information_limit(problem: Problem, theta: Array) -> float:
    """2σ² τ*_cov kl(δ, 1 − δ): what Proposition 1 sharpens to. docs/lower-bound.md proves it."""
    delta = problem.delta
    bits = (1 - 2 * delta) * math.log((1 - delta) / delta)
    return 2 * problem.noise**2 * complexity(problem, theta).value * bits


def last_phase(smallest_gap: float) -> int:
    """L* = max(1, ⌈log₂(4/Δ_min)⌉): on the good event of Lemma 1 one target is left after it.

    The gap is in units of the normalised rewards. Reference: Lemma 2.
    """
    return max(1, math.ceil(math.log2(4 / smallest_gap)))


def theorem_chain(
    problem: Problem,
    theta: Array,
    *,
    anchor: int = 0,
    r1: float = 1 / 3,
    r2: float = 1 / 3,
) -> int:
    """Theorem 1 with the constants of its proof: Σ_{ℓ ≤ L*} n_ℓ with V_ℓ ≤ 512 τ ε_ℓ².

    τ is τ_lin(Z : X − x_anchor), M is 32 d, and |A_ℓ| at most H.

    Reference: equations (12) to (15) and the last display of the proof.
    """
    scaled = np.asarray(theta) / problem.scale
    tau, behind = complexity(problem, scaled, "shifted", anchor=anchor).value, gaps(problem, scaled)
    total = 0
    for phase in range(1, last_phase(float(np.min(behind[behind > 0]))) + 1):
        epsilon = 2.0**-phase
        total += phase_length(
            512 * tau * epsilon**2,
            epsilon=epsilon,
            delta=phase_delta(problem.delta, active=problem.targets, phase=phase),
            stability=32.0 * problem.dimension,
            dimension=problem.dimension,
            r1=r1,
            r2=r2,
        )
    return total
