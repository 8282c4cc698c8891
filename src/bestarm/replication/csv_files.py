"""Every run and every cell as CSV files, for further analysis."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from bestarm.replication.cell import Cell, succeeded
from bestarm.replication.runner import Replication
from bestarm.replication.texts import QUANTILES

__all__ = ["write_cells", "write_runs"]

_RUNS = "table,row,method,environment,run,pulls,success,correct,final,target,plans"
_CELLS = (
    "table,row,metric,value,low,high,spread,runs,q10,q25,q50,q75,q90,published,published_spread,"
    "p_value,verdict"
)


def write_runs(replication: Replication, path: Path) -> None:
    """One line per run, in the order of tables, rows and runs."""
    _write(path, _RUNS, _runs(replication))


def _runs(replication: Replication) -> Iterable[Sequence[object]]:
    for table in replication.tables:
        for row in table.rows:
            results = replication.of(table, row)
            names = (table.key, row.key, results.method, results.environment)
            good = succeeded(row, results).tolist()
            for outcome, success in zip(results.outcomes(), good, strict=True):
                run, pulls, correct, final, target, plans = outcome
                yield *names, run, pulls, int(success), int(correct), int(final), target, plans


def write_cells(cells: Iterable[Cell], path: Path) -> None:
    """One line per cell; missing values are empty."""
    _write(path, _CELLS, map(_cell, cells))


def _cell(cell: Cell) -> Sequence[object]:
    quantiles = [None if cell.quantiles is None else cell.quantiles[q] for q in QUANTILES]
    printed = (None, None) if cell.printed is None else (cell.printed.value, cell.printed.spread)
    figures = (cell.value, cell.low, cell.high, cell.spread, cell.runs, *quantiles, *printed)
    known = [
        None if isinstance(figure, float) and math.isnan(figure) else figure
        for figure in (*figures, cell.p_value)
    ]
    return [cell.table, cell.row, cell.metric, *known, cell.verdict]


def _write(path: Path, header: str, lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{header}\n")
        csv.writer(file, lineterminator="\n").writerows(lines)
