"""Thresholds of linear methods in phases."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.numerics.geometry import Array

__all__ = [
    "AlbaStep",
    "alba_radius",
    "alba_step",
    "peace_delta",
    "peace_phase_length",
    "xy_phase_threshold",
    "xy_threshold",
]


def xy_threshold(
    *, sigma: float, delta: float, targets: int, directions: int | None
) -> tuple[float, float]:
    """The threshold of the XY rules after n pulls: factor·(2 log n + level) for (lead/width)².

    With `directions` it is the published one, 8σ² log(6 n² directions/(π²δ)). It is proven for
    σ-sub-Gaussian noise and an allocation fixed beforehand, with room: a contrast leaves its
    interval after n pulls with probability at most (6 n² directions/(π²δ))⁻⁴, and only the H − 1
    contrasts with the best target can mislead, so that errors have probability at most
    (H − 1) ζ(8) (π²δ/(6 directions))⁴ < δ.

    XY-adaptive takes it with the n pulls of each phase, whose allocation is fixed given earlier
    ones. Phases for the same targets have different lengths, but for a last one that a cap cuts
    short, and there are at most H − 1 sets of targets: errors have probability at most
    (H − 1) ((H − 1) ζ(8) + 1) (π²δ/(6H²))⁴ < δ.

    With None it is 2σ² log(π² n² (H − 1)/(6δ)), from the union bound without the room.

    Args:
        sigma: the sub-Gaussian scale of the noise.
        delta: the allowed error probability.
        targets: the number of targets, H.
        directions: how many directions the published threshold counts, H or H².

    Returns:
        The factor and the level.

    Reference: Soare, Lazaric and Munos (2014), Proposition 1 and equations 11 and 13.
    """
    if directions is None:
        return 2 * sigma**2, math.log(math.pi**2 * (targets - 1) / (6 * delta))
    return 8 * sigma**2, math.log(6 * directions / (math.pi**2 * delta))


def xy_phase_threshold(*, sigma: float, delta: float, targets: int, phase: int) -> float:
    """2σ² log(π² j² (H − 1)/(6δ)) for (lead/width)² in the j-th phase of XY-adaptive.

    Given earlier phases the allocation of a phase is fixed, and only the H − 1 contrasts with the
    best target can drop it. The shares 6δ/(π²j²) of the phases sum to δ.
    """
    return 2 * sigma**2 * math.log(math.pi**2 * phase**2 * (targets - 1) / (6 * delta))


class AlbaStep(NamedTuple):
    """A step of ALBA: one look at the pulls of a round.

    Attributes:
        sigma: the sub-Gaussian scale of the noise.
        bound: L, a bound on |x·θ|.
        rank: the dimension of the span of the arms that are left.
        delta: the share of δ, 6/π² δ_r/s² with δ_r = 6/π² δ/(r + 1)².
        log_factor: log(5 |S|²/(2δ_s)): pulls are this times ℓ.
        accuracy: of every estimate x·θ̂ after the step, 2/1.1^s (Theorem 12).
        pulls: how many the round has after the step.
    """

    sigma: float
    bound: float
    rank: int
    delta: float
    log_factor: float
    accuracy: float
    pulls: int


def alba_step(
    *, sigma: float, bound: float, delta: float, rank: int, arms: int, place: tuple[int, int]
) -> AlbaStep:
    """The s-th step of round r: ⌈ℓ log(5 |S|²/(2δ_s))⌉ pulls in the round.

        ℓ = 4 c₀ (2 + (6 + ε) d)/ε²,   ε = 4/1.1^s,   c₀ = max(4L², 3σ², 3)

    Args:
        sigma: the sub-Gaussian scale of the noise.
        bound: L, a bound on |x·θ|.
        delta: the allowed error probability.
        rank: d, the dimension of the span of the arms that are left.
        arms: |S|, how many were left when the round began.
        place: the numbers of the round, from 0, and of the step, from 1.

    Reference: Tao, Blanco and Zhou (2018), Algorithms 3 and 4.
    """
    round_, step = place
    share = (6 / math.pi**2) ** 2 * delta / ((round_ + 1) * step) ** 2
    log_factor = math.log(5 * arms**2 / (2 * share))
    epsilon = 4 / 1.1**step
    length = 4 * max(4 * bound**2, 3 * sigma**2, 3) * (2 + (6 + epsilon) * rank) / epsilon**2
    pulls = math.ceil(length * log_factor)
    return AlbaStep(sigma, bound, rank, share, log_factor, epsilon / 2, pulls)


def alba_radius(
    widths: Array, *, lead: Array, spread: Array, length: float, step: AlbaStep
) -> Array:
    """The lead at which ALBA drops an arm: the smaller of err and Err in Lemma 7, at θ̂.

        err = √2 L w/√ℓ + 2 (2L + L w √d)/(3ℓ) + z
        Err = √(2 spread/ℓ) + 2 (lead + a + L w √d)/(3ℓ) + z
        z = √2 σ w √((1 + √(3d/ℓ))/ℓ)

    with a the accuracy of estimates. (The paper has L ‖y‖₂ where we have 2L, for features of norm
    at most 1; |x·θ| ≤ L is all that is used.) Infinite for ℓ < 3d, where the lemma says nothing.

    Args:
        widths: w² = ‖y‖² under M(λ)⁻¹ for each contrast.
        lead: |y·θ̂|.
        spread: E_z (y·M(λ)⁻¹z (|z·θ̂| + a))² under the design.
        length: ℓ.
        step: the step.
    """
    if length < 3 * step.rank:
        return np.full(len(widths), np.inf)
    width = np.sqrt(widths)
    noise = math.sqrt(2 * (1 + math.sqrt(3 * step.rank / length)) / length) * step.sigma * width
    most = step.bound * width * math.sqrt(step.rank)
    plain = math.sqrt(2 / length) * step.bound * width + (4 * step.bound + 2 * most) / (3 * length)
    known = np.sqrt(2 * spread / length) + 2 * (lead + step.accuracy + most) / (3 * length)
    return np.asarray(np.minimum(plain, known) + noise)


def peace_delta(delta: float, *, phase: int) -> float:
    """The share of δ that the k-th phase of Peace spends: δ/(2k²), in sum less than δ."""
    return delta / (2 * phase**2)


def peace_phase_length(
    value: float, *, sigma: float, gap: float, slack: float, support: int
) -> int:
    """The pulls of a phase of Peace: ⌈(1 + ε) σ² τ/(gap/2)²⌉, but at least support/ε.

    τ = γ + 2 log(1/δ_k) ρ is the value of the design. For Gaussian noise the largest error of a
    contrast is, but with probability δ_k, at most √γ + √(2 log(1/δ_k) ρ) ≤ √(2τ) times σ √(c/n)
    (Borell, Tsirelson, Ibragimov and Sudakov), where whole pulls cost the factor
    c ≤ 1/(1 − support/n) ≤ 1/(1 − ε). That is gap/√(2(1 − ε²)), for ε < 0.7 less than the lead at
    which a target is dropped.

    Args:
        value: τ.
        sigma: the standard deviation of the noise.
        gap: the lead at which the phase drops targets.
        slack: ε, what rounding to whole pulls may cost.
        support: how many arms the design pulls.

    Reference: Katz-Samuels, Jain, Karnin and Jamieson (2020), Algorithm 1.
    """
    wanted = (1 + slack) * sigma**2 * value * 4 / gap**2
    return max(math.ceil(wanted), math.ceil(support / slack))
