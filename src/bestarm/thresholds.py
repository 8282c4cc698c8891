"""Thresholds of the field's methods: how much evidence each wants before it stops.

Like `bounds`, this is where δ is divided; see the reference of each function for its theorem.
"""

from __future__ import annotations

import math

__all__ = ["xy_phase_threshold", "xy_threshold"]


def xy_threshold(
    *, sigma: float, delta: float, targets: int, directions: int | None
) -> tuple[float, float]:
    """The threshold of the XY rules after n pulls: factor·(2 log n + level) for (lead/width)².

    With `directions` it is the published one, 8σ² log(6 n² directions/(π²δ)). It is proven for
    σ-sub-Gaussian noise and an allocation fixed beforehand, with room: a contrast leaves its
    interval after n pulls with probability at most (6 n² directions/(π²δ))⁻⁴, and only the H − 1
    contrasts with the best target can mislead, so that errors have probability at most
    (H − 1) ζ(8) (π²δ/(6 directions))⁴ < δ.

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
