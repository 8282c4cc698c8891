"""From weights to whole pulls."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import InvalidInputError
from bestarm.geometry import Array

__all__ = ["round_efficiently"]


def round_efficiently(weights: Array, pulls: int) -> NDArray[np.int64]:
    """Counts that sum to `pulls` with the best guaranteed efficiency min_i counts_i / (n p_i).

    Every arm with positive weight is pulled at least once. Start from ⌈(n − support/2) p_i⌉ and
    move one pull at a time to the arm that lacks most, or from the one that can best spare it.

    Args:
        weights: the design.
        pulls: the number of pulls, at least the number of arms with positive weight.

    Reference: Pukelsheim and Rieder (1992).
    """
    support = np.flatnonzero(weights > 0)
    if not pulls < 2**53:
        raise InvalidInputError(
            f"A plan of {pulls} pulls cannot be carried out.",
            field="pulls",
            value=pulls,
            remedy="Gaps this small need a cap: see `max_pulls` and `max_phases`.",
        )
    if pulls < len(support):
        raise InvalidInputError(
            f"{pulls} pulls cannot cover the {len(support)} arms of the design.",
            field="pulls",
            value=pulls,
        )
    share = weights[support] / weights[support].sum()
    counts = np.ceil((pulls - len(support) / 2) * share).astype(np.int64)
    while counts.sum() < pulls:
        counts[np.argmin(counts / share)] += 1
    while counts.sum() > pulls:
        counts[np.argmax((counts - 1) / share)] -= 1
    result = np.zeros(len(weights), dtype=np.int64)
    result[support] = counts
    return result
