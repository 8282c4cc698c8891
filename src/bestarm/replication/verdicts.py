"""The verdict on every published figure.

A cell *differs* if the p-value of its test (see `cell`) stays below 0.05 after Holm's correction
for all cells of the report. Otherwise it is *consistent* if the published figure lies in our own
95 % interval, and if not, *the published difference is within the noise of 100 runs*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bestarm.geometry import Array
from bestarm.replication.cell import ROUNDING, Cell, Verdict, row_cells
from bestarm.replication.runner import Replication

__all__ = ["LEVEL", "cells"]

LEVEL = 0.05
_WITHIN_NOISE: Verdict = "the published difference is within the noise of 100 runs"


def cells(replication: Replication) -> list[Cell]:
    """Every cell with its verdict, in the order of the tables."""
    tested = [
        cell
        for table in replication.tables
        for row in table.rows
        for cell in row_cells(table, row, replication.of(table, row))
    ]
    smallest = _holm([cell.p_value for cell in tested if cell.p_value is not None])
    adjusted = iter(smallest)
    return [
        cell if cell.p_value is None else replace(cell, verdict=_verdict(cell, next(adjusted)))
        for cell in tested
    ]


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order of the input."""
    order = np.argsort(p_values)
    steps: Array = np.asarray(p_values)[order] * (len(p_values) - np.arange(len(p_values)))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in adjusted]


def _verdict(cell: Cell, adjusted: float) -> Verdict:
    assert cell.printed is not None
    if adjusted < LEVEL:
        return "differs"
    slack = ROUNDING if cell.metric == "pulls" else 1e-9  # rates are printed exactly
    if abs(cell.value - cell.printed.value) <= slack:
        return "consistent"
    if cell.low - slack <= cell.printed.value <= cell.high + slack:
        return "consistent"
    return _WITHIN_NOISE
