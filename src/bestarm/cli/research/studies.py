"""`bestarm reproduce` and `bestarm leaderboard`: studies, run into a folder and reported."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.command import command, modules_of_folder
from bestarm.cli.output import Result, display, number, remark
from bestarm.defaults import DELTA
from bestarm.tables import TextTable
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.field import Competitor, Condition, Standing
    from bestarm.simulation import Results
    from bestarm.studies import Cell, PublishedTable, Row, Study, StudyResults


@command
def reproduce(
    tables: list[str] | None = None,
    *,
    paper: str = "sp-bai",
    runs: int = 100,
    seed: int = 0,
    workers: int | None = None,
    out: Path = Path("reproduction"),
    resume: bool = False,
    data: Path | None = None,
) -> Result:
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
    from bestarm.checks import choice
    from bestarm.datasets import jester
    from bestarm.field import PAPERS
    from bestarm.studies import SP_BAI, Replication
    from bestarm.studies.replication import verdict_counts

    ratings = jester(data, dataset=2)
    names, papers = tables or (), {SP_BAI.name: SP_BAI, **PAPERS}
    choice(paper, papers, "paper")
    published = papers[paper]
    study = Replication(published.tables(names, ratings), ratings, published)
    words = ["bestarm reproduce", *names, f"--paper {paper}", f"--out {out} --resume"]
    results, report = _run(
        study,
        runs=runs,
        seed=seed,
        workers=workers,
        out=out,
        resume=resume,
        again=f"{' '.join(words)}, and the options it had",
        announce=_row_words,
    )
    rows = []
    for part in study.tables:
        counts = verdict_counts([cell for cell in results.cells if cell.table == part.key])
        rows.append((part.key, *map(str, (sum(counts), *counts))))
    headings = ("table", "cells", "consistent", "within noise", "differ")
    lines: list[str | TextTable] = [TextTable.of(headings, rows), f"Report: {report}"]
    if ratings.synthetic and any(part.key.startswith("jester") for part in study.tables):
        lines.insert(
            1, "Jester rests on synthetic users and is not judged; give real ones by --data."
        )
    facts = {"data": ratings.source, "synthetic": ratings.synthetic}
    return Result(_data(results, report, _cell_data, **facts), lines)


@command
def leaderboard(
    *,
    method: list[str] | None = None,
    only: list[str] | None = None,
    instance: list[str] | None = None,
    drift: list[str] | None = None,
    runs: int = 200,
    seed: int = 0,
    delta: float = DELTA,
    workers: int | None = None,
    out: Path = Path("leaderboard"),
    resume: bool = False,
) -> Result:
    """Run the field's methods on the same instances, with and without drift, and rank them.

    Args:
        method (METHOD): Your own method, beside the others: module:attribute, with options after a
            colon. Repeat it for more.
        only (NAME): Run this method of bestarm, not all. Repeat it for more.
        instance (NAME): soare, six-means, tao, many-arms or transductive; all when left out. Repeat
            it for more.
        drift (NAME): none, sine, walk, jumps, adversary, within-0.1 or within-0.05; all when left
            out. Repeat it for more.
        runs: Runs of each method on each instance, under each drift.
        workers: Processes that share the runs; one per core if left out.
        out: The folder for the report and every run.
        resume: Continue with what the folder holds.
    """
    from bestarm.field import Leaderboard, conditions
    from bestarm.field.leaderboard import GOALS, summary_table

    # What a method prints must not mix with the results.
    with modules_of_folder(), redirect_stdout(sys.stderr):
        where = conditions(instance or (), drift or ())
        competing = _select_competitors(only or ())
        for text in method or ():
            _enter(competing, text, where[0], delta=delta)
        results, report = _run(
            Leaderboard(competing, where, delta),
            runs=runs,
            seed=seed,
            workers=workers,
            out=out,
            resume=resume,
            again="the same options and --resume",
        )
    summaries = [summary_table(results.cells, goal) for goal in GOALS]
    words = f"{plural(results.runs, 'run')} per cell, δ = {delta:g}. Report: {report}"
    lines: list[str | TextTable] = [*(each for each in summaries if each.lines), words]
    return Result(_data(results, report, _standing_data, delta=delta), lines)


def _run(
    study: Study[Any],
    *,
    runs: int,
    workers: int | None,
    out: Path,
    again: str,
    announce: Callable[[Any, Row, Results], str] | None = None,
    **settings: Any,
) -> tuple[StudyResults[Any], Path]:
    """Run a study with a bar for all of its rows, and write its report.

    `announce` makes a line for stderr of every finished row; `again` says how to continue.
    """
    from bestarm.simulation.executors import open_executor
    from bestarm.studies import run_study, write_report

    if workers is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    report = None
    with display() as shown, open_executor(workers) as executor:  # which prints until it ends
        task = shown.add_task("", total=max(runs, 0) * len(study.rows()))
        finished_runs = 0

        def progress(part: Any, row: Row, done: int, _total: int) -> None:
            name = f"{part.key}: {row.label}"
            shown.update(task, description=name, completed=finished_runs + done)

        def finished(part: Any, row: Row, found: Results) -> None:
            nonlocal finished_runs
            finished_runs += runs
            if announce is not None:
                shown.console.print(announce(part, row, found), soft_wrap=True)

        results = run_study(
            study,
            runs=runs,
            out=out,
            executor=executor,
            progress=progress,
            finished=finished,
            **settings,
        )
        if not results.interrupted:
            with suppress(KeyboardInterrupt):
                report = write_report(results, out)
    if report is None:  # the workers have ended by now
        remark(f"interrupted; finished runs are kept. Continue with: {again}.")
        raise typer.Exit(130)
    return results, report


def _data(
    results: StudyResults[Any], report: Path, describe: Callable[[Any], object], **facts: object
) -> dict[str, object]:
    about = {"report": str(report), "runs": results.runs, "seed": results.seed, **facts}
    return {**about, "cells": [describe(cell) for cell in results.cells]}


def _row_words(part: PublishedTable, row: Row, found: Results) -> str:
    """What came of a row, in a line."""
    from bestarm.studies.verdicts import row_cells

    figures = "  ".join(_figure(cell) for cell in row_cells(part, row, found))
    return f"{part.key:<15} {row.label:<19} {figures}"


def _figure(cell: Cell) -> str:
    digits = ",.0f" if cell.metric == "pulls" else ".3f"
    published = "" if cell.printed is None else f" (published {cell.printed.value:{digits}})"
    return f"{cell.metric} {cell.value:{digits}}{published}"


def _cell_data(cell: Cell) -> dict[str, object]:
    return {
        "table": cell.table,
        "row": cell.row,
        "metric": cell.metric,
        "value": number(cell.value),
        "interval": [number(cell.low), number(cell.high)],
        "published": None if cell.printed is None else cell.printed.value,
        "p_value": cell.p_value,
        "verdict": cell.verdict,
    }


def _standing_data(it: Standing) -> dict[str, object]:
    return {
        "method": it.competitor.name,
        "goal": it.competitor.goal,
        "instance": it.condition.instance.name,
        "drift": it.condition.drift,
        "pulls": number(it.pulls),
        "half": number(it.half),
        "cut": it.cut,
        "errors": it.errors,
        "error_interval": [number(end) for end in it.error_interval],
        "breaks_delta": it.breaks_delta,
        "rank": it.rank,
        "rank_interval": [it.rank_low, it.rank_high],
    }


def _select_competitors(only: Sequence[str]) -> list[Competitor]:
    from bestarm.checks import choice
    from bestarm.field import competitors

    known = {each.name: each for each in competitors()}
    for name in only:
        choice(name, tuple(known), "only")
    return [each for name, each in known.items() if not only or name in only]


def _enter(competing: list[Competitor], text: str, where: Condition, *, delta: float) -> None:
    """Enter a method of the user's, unless it has been entered already."""
    from numpy.random import default_rng

    from bestarm.cli.research.methods import check_method, read_method
    from bestarm.field import Competitor

    entry = read_method(text, later=("budget",))
    found = Competitor.own(entry.name, entry.method)
    if any(each.name == found.name or each.same_method(found) for each in competing):
        return
    world = where.environment.instance(default_rng(0))
    check_method(entry, world, world.problem(delta), method=found.method(where.instance))
    competing.append(found)
