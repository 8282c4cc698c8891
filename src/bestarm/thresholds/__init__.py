"""Thresholds of the field's methods: how much evidence each wants before it stops.

Like `bounds`, this is where δ is divided; see the reference of each function for its theorem.
"""

from bestarm.thresholds.means import (
    Rate,
    bose,
    chernoff,
    gaussian_ratio,
    kl_lucb,
    lil_ucb,
    lil_ucb_tuned,
    tuned,
)
from bestarm.thresholds.phases import (
    AlbaStep,
    alba_radius,
    alba_step,
    xy_phase_threshold,
    xy_threshold,
)

__all__ = [
    "AlbaStep",
    "Rate",
    "alba_radius",
    "alba_step",
    "bose",
    "chernoff",
    "gaussian_ratio",
    "kl_lucb",
    "lil_ucb",
    "lil_ucb_tuned",
    "tuned",
    "xy_phase_threshold",
    "xy_threshold",
]
