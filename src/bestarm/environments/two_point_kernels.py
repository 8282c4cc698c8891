"""Outcomes of two values on a moving level, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.records import Counts


@compiled
def win(
    pulls: tuple[Any, ...], means: Array, bounds: tuple[float, float], counts: Counts, hits: Counts
) -> tuple[float, float]:
    """Count the pulls of each arm, and those that pay the higher of two rewards.

    Args:
        pulls: their arms, what the level adds to each mean, and uniform draws.
        means: the means of the arms.
        bounds: the two rewards.
        counts: pulls of each arm; added to.
        hits: those that pay the higher reward; added to.

    Returns:
        The lowest and the highest mean there was.
    """
    arms, values, draws = pulls
    low, width = float(bounds[0]), float(bounds[1]) - float(bounds[0])
    least, largest = np.inf, -np.inf
    for i in range(len(arms)):
        arm = arms[i]
        mean = means[arm] + values[i]
        least, largest = min(least, mean), max(largest, mean)
        counts[arm] += 1
        hits[arm] += draws[i] < (mean - low) / width
    return least, largest
