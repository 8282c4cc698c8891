"""Summaries of plans that are told by hand."""

from __future__ import annotations

import numpy as np

from bestarm import Summary

__all__ = ["told"]


def told(counts: object, sums: object) -> Summary:
    """Totals of equal rewards within each arm."""
    numbers, totals = np.asarray(counts, dtype=np.int64), np.asarray(sums, dtype=float)
    return Summary(numbers, totals, totals**2 / np.maximum(numbers, 1))
