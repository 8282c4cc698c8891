"""`bestarm reproduce`: the paper's tables, with a verdict on every cell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from bestarm.cli.command import AsJson, Dask, Seed, command
from bestarm.cli.output import console, display, number, print_json, remark, table

if TYPE_CHECKING:
    from rich.progress import Progress

    from bestarm.replication import Cell, Replication, Row, Table


@command
def reproduce(
    tables: list[str] | None = None,
    *,
    paper: str = "sp-bai",
    runs: int = 100,
    seed: Seed = 0,
    workers: int | None = None,
    dask: Dask = None,
    out: Path = Path("reproduction"),
    resume: bool = False,
    data: Path | None = None,
    json: AsJson = False,
) -> None:
    """Rerun the paper's tables, and say of every published figure whether it replicates.

    Args:
        tables ([TABLE]...): Of sp-bai: small-gap, uniform, uniform-fresh, jester-ranking, jester.
            Of p1-rage: soare, malicious, multivariate, magnitudes, periods, multivariate-scales,
            multivariate-periods. Of track-and-stop: bernoulli. Of lingame: pulls. All when left
            out.
        paper (NAME): sp-bai, the seed paper, p1-rage, track-and-stop or lingame.
        runs: Runs of each row; the seed paper made 100.
        workers: Processes that share the runs; one per core if left out.
        out: The folder for the report and every run.
        resume: Continue with what the folder holds.
        data (FILE): Real Jester ratings; synthetic users when left out.
    """
    from bestarm import replication as replications
    from bestarm.checks import choice
    from bestarm.datasets import jester
    from bestarm.simulation.executors import open_executor

    ratings = jester(data, dataset=2)
    names = tables or ()
    choice(paper, replications.PAPERS, "paper")
    published = replications.PAPERS[paper]
    wanted = published.tables(names, ratings)
    if workers is None and dask is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    with open_executor(workers, dask) as executor:
        with display() as shown:
            watching = _Display(shown, runs, sum(len(table.rows) for table in wanted))
            replication = replications.reproduce(
                wanted,
                data=ratings,
                paper=published,
                runs=runs,
                seed=seed,
                out=out,
                resume=resume,
                executor=executor,
                observer=replications.RowObserver(progress=watching, finished=watching.finished),
            )
        report = None
        if not replication.interrupted:
            # Workers of a cluster may have other folders, and other fonts.
            drawing = executor if dask is None else None
            with suppress(KeyboardInterrupt):
                report = replications.write_report(replication, out, executor=drawing)
    if report is None:  # the workers have ended by now
        _leave(out, names, paper)
    judged = replication.cells()
    (_print_json if json else _print_words)(replication, judged, report)


def _leave(out: Path, names: Sequence[str], paper: str) -> NoReturn:
    words = ["bestarm reproduce", *names, f"--paper {paper}", f"--out {out} --resume"]
    again = " ".join(words)
    remark(f"interrupted; finished runs are kept. Continue with: {again}, and the options it had.")
    raise typer.Exit(130)


class _Display:
    """A bar for all rows, named after the current one, and a line per finished row, on stderr."""

    def __init__(self, shown: Progress, runs: int, rows: int) -> None:
        self._shown, self._runs = shown, runs
        self._task = shown.add_task("", total=max(runs, 0) * rows)
        self._before = 0  # runs of finished rows

    def __call__(self, table: Table, row: Row, done: int) -> None:
        """Show how far a row has come."""
        name = f"{table.key}: {row.label}"
        self._shown.update(self._task, description=name, completed=self._before + done)

    def finished(self, table: Table, row: Row, parts: Sequence[Cell]) -> None:
        """Say in a line what came of a row."""
        self._before += self._runs
        figures = "  ".join(_figure(cell) for cell in parts)
        line = f"{table.key:<15} {row.label:<19} {figures}"
        self._shown.console.print(line, soft_wrap=True)


def _figure(cell: Cell) -> str:
    digits = ",.0f" if cell.metric == "pulls" else ".3f"
    published = "" if cell.printed is None else f" (published {cell.printed.value:{digits}})"
    return f"{cell.metric} {cell.value:{digits}}{published}"


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
    from bestarm.replication.texts import verdict_counts

    grid = table("table", "cells", "consistent", "within noise", "differ")
    for part in replication.tables:
        counts = verdict_counts([cell for cell in judged if cell.table == part.key])
        grid.add_row(part.key, *map(str, (sum(counts), *counts)))
    console().print(grid)
    if replication.data.synthetic and any(t.key.startswith("jester") for t in replication.tables):
        typer.echo("The Jester tables rest on synthetic users; give real ratings with --data.")
    typer.echo(f"Report: {report}")
