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
    peace_delta,
    peace_phase_length,
    xy_phase_threshold,
    xy_threshold,
)
from bestarm.thresholds.pulls import (
    LinearThreshold,
    certified_threshold,
    counts_threshold,
    lazy_experiments,
    lazy_threshold,
    linear_experiments,
    lingame_threshold,
    lingape_threshold,
)

__all__ = [
    "AlbaStep",
    "LinearThreshold",
    "Rate",
    "alba_radius",
    "alba_step",
    "bose",
    "certified_threshold",
    "chernoff",
    "counts_threshold",
    "gaussian_ratio",
    "kl_lucb",
    "lazy_experiments",
    "lazy_threshold",
    "lil_ucb",
    "lil_ucb_tuned",
    "linear_experiments",
    "lingame_threshold",
    "lingape_threshold",
    "peace_delta",
    "peace_phase_length",
    "tuned",
    "xy_phase_threshold",
    "xy_threshold",
]
