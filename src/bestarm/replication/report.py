"""The outputs of a replication: a page, figures, LaTeX tables, and CSV of every run and cell."""

from __future__ import annotations

import csv
import math
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bestarm.errors import InvalidInputError
from bestarm.replication.cell import Cell, succeeded
from bestarm.replication.comparisons import comparisons
from bestarm.replication.folder import alone, named
from bestarm.replication.html import page
from bestarm.replication.latex import latex_table
from bestarm.replication.pictures import ink, pictures
from bestarm.replication.runner import Replication
from bestarm.replication.tables import TABLES
from bestarm.replication.texts import QUANTILES, table_text

__all__ = ["write_report"]

_PAGE = "report.html"
_PARTS = ("figures", "tables")
_FRESH = ".report"  # where everything is made, before anything of old is replaced
_RUNS = "table,row,method,environment,run,pulls,success,correct,final,target,plans"
_CELLS = (
    "table,row,metric,value,low,high,spread,runs,q10,q25,q50,q75,q90,published,published_spread,"
    "p_value,verdict"
)


def write_report(replication: Replication, folder: Path) -> Path:
    """Write the report of a finished replication; the same replication gives the same bytes.

    In `folder` there are then `report.html`, which needs no other file, `runs.csv`, `cells.csv`,
    `figures/*.png` and `*.pdf`, and `tables/*.tex`. Files of an earlier report are replaced only
    once all new ones are complete.

    Args:
        replication: what `reproduce` returned, with every row finished.
        folder: where to; it is made if need be.

    Returns:
        The path of the page.

    Raises:
        InvalidInputError: rows are not finished, or another process writes to the folder.
        MissingDependencyError: Matplotlib or Jinja2 is not installed.
        OSError: the folder cannot be written.
    """
    _check(replication)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / _FRESH
    with alone(folder), named(fresh):
        shutil.rmtree(fresh, ignore_errors=True)  # of one that was killed
        try:
            for name in _PARTS:
                (fresh / name).mkdir(parents=True)
            _write(replication, fresh)
            _move(fresh, folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder / _PAGE


def _check(replication: Replication) -> None:
    rows = [(table.key, row.key) for table in replication.tables for row in table.rows]
    missing = [key for key in rows if key not in replication.results]
    if replication.interrupted or missing:
        raise InvalidInputError(
            f"{len(missing)} of {len(rows)} rows have not finished, so there is nothing to report.",
            field="replication",
            value=missing,
            remedy="Go on with it with resume=True.",
        )


def _write(replication: Replication, fresh: Path) -> None:
    judged = replication.cells()
    _write_csv(fresh / "runs.csv", _RUNS, _runs(replication))
    _write_csv(fresh / "cells.csv", _CELLS, map(_cell, judged))
    tables = []
    for table in replication.tables:
        own = [cell for cell in judged if cell.table == table.key]
        text = table_text(table, own)
        tex = latex_table(text, runs=replication.runs, seed=replication.seed)
        _write_text(fresh / "tables" / f"{table.key}.tex", tex)
        drawn = []
        with ink.style():
            for picture in pictures(replication, table, own):
                svg = ink.write(picture.figure, fresh / "figures" / picture.name)
                drawn.append((picture, svg))
        tables.append((text, drawn))
    _write_text(fresh / _PAGE, page(replication, judged, tables, comparisons(replication)))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_csv(path: Path, header: str, lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{header}\n")
        csv.writer(file, lineterminator="\n").writerows(lines)


def _runs(replication: Replication) -> Iterator[Sequence[object]]:
    for table in replication.tables:
        for row in table.rows:
            results = replication.of(table, row)
            names = (table.key, row.key, results.method, results.environment)
            good = succeeded(row, results).tolist()
            for outcome, success in zip(results.outcomes(), good, strict=True):
                run, pulls, *rest = map(int, outcome)
                yield *names, run, pulls, int(success), *rest


def _cell(cell: Cell) -> Sequence[object]:
    quantiles = cell.quantiles or dict.fromkeys(QUANTILES)
    printed = (None, None) if cell.printed is None else (cell.printed.value, cell.printed.spread)
    ours = (cell.value, cell.low, cell.high, cell.spread, cell.runs, *quantiles.values())
    figures = [*ours, *printed, cell.p_value]
    known = [None if figure is None or math.isnan(figure) else figure for figure in figures]
    return [cell.table, cell.row, cell.metric, *known, cell.verdict]


def _move(fresh: Path, folder: Path) -> None:
    """Put every file in its place, the page last, and remove files of an earlier report."""
    files = sorted(path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file())
    files.sort(key=lambda path: path.name == _PAGE)
    for path in files:
        (folder / path).parent.mkdir(exist_ok=True)
    for path in files:
        (fresh / path).replace(folder / path)
    ours = re.compile(rf"({'|'.join(TABLES)})(-\w+)?\.(png|pdf|tex)")
    for name in _PARTS:
        for old in (folder / name).glob("*"):
            if ours.fullmatch(old.name) and old.relative_to(folder) not in files:
                old.unlink()
