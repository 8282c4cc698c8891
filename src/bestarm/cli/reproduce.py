"""`bestarm reproduce`: the paper's tables, with a verdict on every cell."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.options import AsJson, Dask, Seed, whole
from bestarm.cli.progress import progress_columns
from bestarm.cli.reporting import console, number, print_json, remark, reported

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from bestarm.replication import Cell, Replication, Row, Table

__all__ = ["reproduce"]


@reported
def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="small-gap, uniform, uniform-fresh, jester-ranking, jester; all when left out.",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(parser=whole, help="Runs of each row; the paper made 100.")
    ] = 100,
    seed: Seed = 0,
    workers: Annotated[
        int | None,
        typer.Option(parser=whole, help="Processes that share the runs; one per core if left out."),
    ] = None,
    dask: Dask = None,
    out: Annotated[Path, typer.Option(help="The folder for the report and every run.")] = Path(
        "reproduction"
    ),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue with what the folder holds.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Real Jester ratings; synthetic users when left out."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Rerun the paper's tables, and say of every published figure whether it replicates."""
    from bestarm import replication as paper
    from bestarm.datasets import jester
    from bestarm.simulation.executors import open_executor

    ratings = jester(data, dataset=2)
    names = tables or ()
    wanted = paper.paper_tables(names, ratings)
    if workers is None and dask is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    with open_executor(workers, dask) as executor, _Display.shown(wanted, runs) as display:
        replication = paper.reproduce(
            wanted,
            data=ratings,
            runs=runs,
            seed=seed,
            out=out,
            resume=resume,
            executor=executor,
            observer=paper.RowObserver(progress=display, finished=display.finished),
        )
    if replication.interrupted:
        _leave(out, names)
    try:
        report = paper.write_report(replication, out)
    except KeyboardInterrupt:
        _leave(out, names)
    judged = replication.cells()
    (_print_json if json else _print_words)(replication, judged, report)


def _leave(out: Path, names: Sequence[str]) -> None:
    again = " ".join(["bestarm reproduce", *names, f"--out {out} --resume"])
    remark(f"interrupted; finished runs are kept. Continue with: {again}, and the options it had.")
    raise typer.Exit(130)


class _Display:
    """A bar for the current row and one for all rows, on stderr; a line per finished row.

    Where stderr is not a terminal, only the lines.
    """

    def __init__(
        self, screen: Console, bars: Progress, row: TaskID, everything: TaskID, runs: int
    ) -> None:
        self._screen, self._bars, self._row, self._all = screen, bars, row, everything
        self._runs = runs
        self._before = 0  # runs of finished rows

    @classmethod
    @contextmanager
    def shown(cls, tables: Sequence[Table], runs: int) -> Iterator[_Display]:
        from rich import progress as rich
        from rich.console import Console

        screen = Console(stderr=True, markup=False, highlight=False, emoji=False)
        columns = progress_columns()
        total = max(runs, 0) * sum(len(table.rows) for table in tables)
        with rich.Progress(*columns, console=screen, disable=not screen.is_terminal) as bars:
            row = bars.add_task("", total=runs)
            yield cls(screen, bars, row, bars.add_task("all rows", total=total), runs)

    def __call__(self, table: Table, row: Row, done: int) -> None:
        """Show how far a row has come."""
        name = f"{table.key}: {row.label}"
        self._bars.update(self._row, description=name, completed=done, total=self._runs)
        self._bars.update(self._all, completed=self._before + done)

    def finished(self, table: Table, row: Row, parts: Sequence[Cell]) -> None:
        """Say in a line what came of a row."""
        self._before += self._runs
        figures = "  ".join(_figure(cell) for cell in parts)
        self._screen.print(f"{table.key:<15} {row.label:<19} {figures}", soft_wrap=True)


def _figure(cell: Cell) -> str:
    if cell.metric == "pulls":
        printed = "" if cell.printed is None else f" (published {cell.printed.value:,.0f})"
        return f"{cell.value:>12,.0f} pulls{printed}"
    printed = "" if cell.printed is None else f" (published {cell.printed.value:.2f})"
    return f"{cell.metric} {cell.value:.3f}{printed}"


def _print_json(replication: Replication, judged: Sequence[Cell], report: Path) -> None:
    print_json(
        {
            "report": str(report),
            "runs": replication.runs,
            "seed": replication.seed,
            "data": replication.data.source,
            "synthetic": replication.data.synthetic,
            "cells": [
                {
                    "table": cell.table,
                    "row": cell.row,
                    "metric": cell.metric,
                    "value": number(cell.value),
                    "interval": [number(cell.low), number(cell.high)],
                    "published": None if cell.printed is None else cell.printed.value,
                    "p_value": cell.p_value,
                    "verdict": cell.verdict,
                }
                for cell in judged
            ],
        }
    )


def _print_words(replication: Replication, judged: Sequence[Cell], report: Path) -> None:
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for heading in ("table", "cells", "consistent", "within noise", "differ"):
        grid.add_column(heading, justify="left" if heading == "table" else "right")
    for table in replication.tables:
        verdicts = Counter(
            cell.verdict for cell in judged if cell.table == table.key and cell.verdict
        )
        same, differ = verdicts["consistent"], verdicts["differs"]
        every = sum(verdicts.values())
        counts = (every, same, every - same - differ, differ)
        grid.add_row(table.key, *map(str, counts))
    screen = console()
    screen.print(grid)
    if replication.data.synthetic and any(t.key.startswith("jester") for t in replication.tables):
        screen.print(
            "The Jester tables rest on synthetic users; give real ratings with --data.",
            soft_wrap=True,
        )
    screen.print(f"Report: {report}", soft_wrap=True)
