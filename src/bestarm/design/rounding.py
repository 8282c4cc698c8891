"""Round weights to whole pulls."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, first_largest

_EDGE = 1e-9  # a quota above a whole number by less than this, relative to itself, is that number
_EDGE_PULLS = 1e-3  # … and by no more than this


def round_efficiently(weights: Array, pulls: int) -> NDArray[np.int64]:
    """Counts that sum to `pulls` with the best guaranteed efficiency min_i counts_i / (n p_i).

    Every arm with positive weight is pulled at least once. Start from ⌈(n − support/2) p_i⌉ and
    move one pull at a time to the arm that lacks most, or from the arm that lacks least; ties go to
    the first arm.

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
    quota = (pulls - len(support) / 2) * share
    counts = np.ceil(quota - np.minimum(_EDGE * quota, _EDGE_PULLS)).astype(np.int64)
    counts = np.maximum(counts, 1)
    while counts.sum() < pulls:
        counts[first_largest(share / counts)] += 1
    while counts.sum() > pulls:
        counts[first_largest((counts - 1) / share)] -= 1
    result = np.zeros(len(weights), dtype=np.int64)
    result[support] = counts
    return result


def round_any(weights: Array, pulls: int) -> NDArray[np.int64]:
    """As `round_efficiently`; with too few pulls for all arms, the heaviest come first."""
    if pulls < np.count_nonzero(weights):
        kept = np.zeros_like(weights)
        heaviest = np.argsort(-weights, kind="stable")[:pulls]
        kept[heaviest] = weights[heaviest]
        weights = kept
    return round_efficiently(weights, pulls)
