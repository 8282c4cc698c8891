"""What rules on arm means share, compiled: rates β(t, δ) in one form, and looks at the arms."""

from __future__ import annotations

import math

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.policies.stepwise import Indices


@compiled
def rate(t: float, constants: tuple[float, ...]) -> float:
    """β(t) = level + power · log t + outer · log(shift + log t): see `bounds.Rate`."""
    level, power, outer, shift = constants
    log = math.log(t)
    if outer == 0:
        return level + power * log
    return level + power * log + outer * math.log(shift + log)


@compiled
def first_without_pulls(counts: Indices) -> int:
    """The first arm without pulls, or −1."""
    for a in range(len(counts)):
        if counts[a] == 0:
            return a
    return -1


@compiled
def best_mean(means: Array, counts: Indices) -> int:
    """The first arm with the best mean, of those that were pulled; 0 if none was."""
    leader = 0
    for a in range(1, len(means)):
        if counts[a] > 0 and (means[a] > means[leader] or counts[leader] == 0):
            leader = a
    return leader
