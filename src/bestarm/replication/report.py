"""The outputs of a replication: a page, figures, LaTeX tables, and CSV of every run and cell."""

from __future__ import annotations

import csv
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.replication.cell import Cell, succeeded
from bestarm.replication.comparisons import PaperComparison, comparisons
from bestarm.replication.latex import latex_table
from bestarm.replication.looks import style, write_figure
from bestarm.replication.papers import PAPERS
from bestarm.replication.pictures import pictures
from bestarm.replication.runner import Replication
from bestarm.replication.tables import RUNS, Table
from bestarm.replication.texts import (
    QUANTILES,
    TableText,
    counted,
    p_value,
    prose,
    signed,
    table_text,
    verdict_counts,
)
from bestarm.simulation.folder import exclusive, naming_file

_PAGE = "report.html"
_PARTS = ("figures", "tables")
_FRESH = ".report"  # where everything is made, before anything of old is replaced
_RUNS = "table,row,method,environment,run,pulls,success,correct,final,target,plans,rounds"
_ENOUGH = 1000  # runs, to show heavy tails
_KINDS = {
    "consistent": "good",
    "within noise": "noise",
    "differs": "bad",
    "confirmed": "good",
    "reversed": "bad",
    "not found": "bad",
    "not resolved": "open",
}
_CELLS = (
    "table,row,metric,value,low,high,spread,runs,q10,q25,q50,q75,q90,published,published_spread,"
    "p_value,verdict"
)


class DrawnPicture(NamedTuple):
    """A picture that is drawn: its title, its caption, and its SVG."""

    title: str
    caption: str
    svg: str


def write_report(
    replication: Replication, folder: Path, *, executor: Executor | None = None
) -> Path:
    """Write the report of a finished replication; the same replication gives the same bytes.

    In `folder` there are then `report.html`, which needs no other file, `runs.csv`, `cells.csv`,
    `figures/*.png` and `*.pdf`, and `tables/*.tex`. Files of an earlier report are replaced only
    once all new ones are complete.

    Args:
        replication: what `reproduce` returned, with every row finished.
        folder: where to; it is made if need be.
        executor: processes of this machine that draw the pictures; without it this process does.

    Returns:
        The path of the page.

    Raises:
        InvalidInputError: rows are not finished, `executor` has threads, or another process writes
            to the folder.
        MissingDependencyError: Matplotlib or Jinja2 is not installed.
        OSError: the folder cannot be written.
    """
    _check(replication)
    _check_executor(executor)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / _FRESH
    with exclusive(folder), naming_file(fresh):
        shutil.rmtree(fresh, ignore_errors=True)  # of one that was killed
        try:
            fresh.mkdir()  # not through a link that somebody left in its place
            for name in _PARTS:
                (fresh / name).mkdir()
            _write(replication, fresh, executor)
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


def _check_executor(executor: Executor | None) -> None:
    """Refuse threads: Matplotlib draws in one thread at a time."""
    if isinstance(executor, ThreadPoolExecutor):
        raise InvalidInputError(
            f"`executor` must have processes, not threads; got {executor!r}.",
            field="executor",
            value=executor,
            remedy="Try concurrent.futures.ProcessPoolExecutor(), or leave it out.",
        )


def _write(replication: Replication, fresh: Path, executor: Executor | None) -> None:
    judged = replication.cells()
    own = {
        table.key: [cell for cell in judged if cell.table == table.key]
        for table in replication.tables
    }
    with _drawing(replication, own, fresh / "figures", executor) as drawings:
        _write_csv(fresh / "runs.csv", _RUNS, _runs(replication))
        _write_csv(fresh / "cells.csv", _CELLS, map(_cell, judged))
        found = comparisons(replication)
        tables = []
        for table in replication.tables:
            text = table_text(table, own[table.key])
            tex = latex_table(text, runs=replication.runs, seed=replication.seed)
            (fresh / "tables" / f"{table.key}.tex").write_text(tex, encoding="utf-8", newline="\n")
            tables.append((text, drawings[table.key]()))
    html = page(replication, judged, tables, found)
    (fresh / _PAGE).write_text(html, encoding="utf-8", newline="\n")


@contextmanager
def _drawing(
    replication: Replication,
    cells: Mapping[str, Sequence[Cell]],
    folder: Path,
    executor: Executor | None,
) -> Iterator[dict[str, Callable[[], list[DrawnPicture]]]]:
    """Functions that give the pictures of each table; an executor has begun to draw them.

    Nothing is drawn any more once this ends.
    """
    work = {
        table.key: partial(draw_table, _of_table(replication, table), cells[table.key], folder)
        for table in replication.tables
    }
    if executor is None:
        yield dict(work)
        return
    futures: dict[str, Future[list[DrawnPicture]]] = {}
    try:
        futures.update((key, executor.submit(each)) for key, each in work.items())
        yield {key: future.result for key, future in futures.items()}
    finally:
        for future in futures.values():
            future.cancel()
        wait(futures.values())


def _of_table(replication: Replication, table: Table) -> Replication:
    """What is known of one table, to be sent to another process."""
    own = {key: part for key, part in replication.results.items() if key[0] == table.key}
    return replace(replication, tables=(table,), results=own)


def draw_table(replication: Replication, cells: Sequence[Cell], folder: Path) -> list[DrawnPicture]:
    """Draw the pictures of the only table of a replication, and write them to a folder."""
    (table,) = replication.tables
    drawn = []
    with style():
        for picture in pictures(replication, table, cells):
            svg = write_figure(picture.figure, folder / picture.name)
            drawn.append(DrawnPicture(picture.title, picture.caption, svg))
    return drawn


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
    keys = "|".join(key for paper in PAPERS.values() for key in paper.builders)
    ours = re.compile(rf"({keys})(-\w+)?\.(png|pdf|tex)")
    for name in _PARTS:
        for old in (folder / name).glob("*"):
            if ours.fullmatch(old.name) and old.relative_to(folder) not in files:
                old.unlink()


def page(
    replication: Replication,
    cells: Sequence[Cell],
    tables: Sequence[tuple[TableText, Sequence[DrawnPicture]]],
    found: Sequence[PaperComparison],
) -> str:
    """The report as HTML: all cells, each table with its pictures, and differences of methods.

    Raises:
        MissingDependencyError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - optional
        from markupsafe import Markup, escape  # noqa: PLC0415 - comes with it
    except ImportError:
        raise MissingDependencyError.of("The report", "jinja2", extra="cli") from None
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["maths"] = lambda text: Markup(
        re.sub(r"([νθδ])_(\w)", r"\1<sub>\2</sub>", str(escape(text)))
    )
    template = environment.from_string(_file("report.html"))
    rated = any(
        row.environment.name == replication.data.name
        for table in replication.tables
        for row in table.rows
    )
    return template.render(
        css=Markup(_file("report.css")),
        kinds=_KINDS,
        p_value=p_value,
        prose=prose,
        signed=signed,
        levels=["median" if q == 0.5 else f"{100 * q:g} %" for q in QUANTILES],
        zip=zip,
        data=replication.data if rated else None,
        counted=counted(cells),
        runs=replication.runs,
        seed=replication.seed,
        version=version("bestarm"),
        paper=replication.paper,
        published_runs=_published_runs(replication),
        few=replication.runs < _ENOUGH,
        summary=[
            (text.table, verdict_counts(cell for cell in cells if cell.table == text.table.key))
            for text, _ in tables
        ],
        tables=[
            (text, [(picture, Markup(picture.svg)) for picture in drawn]) for text, drawn in tables
        ],
        differences=[
            (text.table.title, [part for part in found if part.table == text.table.key])
            for text, _ in tables
            if text.table.key in {part.table for part in found}
        ],
        command=_command(replication),
    )


def _published_runs(replication: Replication) -> str:
    """The number of runs behind the published figures, or from how many to how many."""
    found = {
        printed.runs
        for table in replication.tables
        for row in table.rows
        if (printed := table.printed(row, table.rate)) is not None
    }
    least, most = min(found, default=RUNS), max(found, default=RUNS)
    return str(least) if least == most else f"{least} to {most}"


def _file(name: str) -> str:
    return resources.files("bestarm.replication").joinpath(name).read_text(encoding="utf-8")


def _command(replication: Replication) -> str:
    names = [table.key for table in replication.tables]
    paper = replication.paper
    words = ["bestarm reproduce", *([] if names == list(paper.builders) else names)]
    if paper is not next(iter(PAPERS.values())):
        words.append(f"--paper {paper.name}")
    return " ".join([*words, f"--runs {replication.runs}", f"--seed {replication.seed}"])
