"""`bestarm leaderboard`: the field's methods on the same instances, with and without drift."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bestarm.cli.command import AsJson, Dask, Delta, Seed, command, modules_of_folder
from bestarm.cli.output import console, display, number, print_json, remark, table
from bestarm.defaults import DELTA

if TYPE_CHECKING:
    from rich.progress import Progress

    from bestarm.leaderboard import Column, Contestant, Leaderboard, Standing


@command
def leaderboard(
    *,
    method: list[str] | None = None,
    only: list[str] | None = None,
    instance: list[str] | None = None,
    drift: list[str] | None = None,
    runs: int = 200,
    seed: Seed = 0,
    delta: Delta = DELTA,
    workers: int | None = None,
    dask: Dask = None,
    out: Path = Path("leaderboard"),
    resume: bool = False,
    json: AsJson = False,
) -> None:
    """Run the field's methods on the same instances, with and without drift, and rank them.

    Args:
        method (METHOD): Your own method, beside the others: module:attribute, with options after a
            colon. Repeat it for more.
        only (NAME): Run this method of bestarm, not all. Repeat it for more.
        instance (NAME): soare, six-means, tao, many-arms or transductive; all when left out. Repeat
            it for more.
        drift (NAME): none, sine, walk, jumps or adversary; all when left out. Repeat it for more.
        runs: Runs of each method in each column.
        workers: Processes that share the runs; one per core if left out.
        out: The folder for the report and every run.
        resume: Continue with what the folder holds.
    """
    from bestarm import leaderboard as boards
    from bestarm.simulation.executors import open_executor

    if workers is None and dask is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    # What a method prints must not mix with the results.
    with modules_of_folder(), redirect_stdout(sys.stderr):
        columns = boards.columns(instance or (), drift or ())
        playing = _playing(only or ())
        for text in method or ():
            _enter(playing, text, columns[0], delta=delta)
        with open_executor(workers, dask) as executor, display() as shown:
            board = boards.run_leaderboard(
                playing,
                columns,
                out=out,
                runs=runs,
                seed=seed,
                delta=delta,
                resume=resume,
                executor=executor,
                progress=_Display(shown, runs, playing, columns),
            )
    if board.interrupted:
        remark("interrupted; finished runs are kept. Continue with the same options and --resume.")
        raise typer.Exit(130)
    report = boards.write_report(board, out)
    found = board.standings()
    (_print_json if json else _print_words)(board, found, report)


def _playing(only: Sequence[str]) -> list[Contestant]:
    from bestarm.checks import choice
    from bestarm.leaderboard import contestants

    known = {each.name: each for each in contestants()}
    for name in only:
        choice(name, tuple(known), "only")
    return [each for name, each in known.items() if not only or name in only]


def _enter(playing: list[Contestant], text: str, column: Column, *, delta: float) -> None:
    """Enter a method of the user's, unless it is playing already."""
    from numpy.random import default_rng

    from bestarm.cli.methods import check_question, make, read_method
    from bestarm.leaderboard import Contestant

    entry = read_method(text, later=("budget",))
    found = Contestant.own(entry.name, entry.method)
    if any(each.name == found.name or each.same_method(found) for each in playing):
        return
    world = column.environment.instance(default_rng(0))
    method = found.method(column)
    check_question(entry.name, make(entry, world, world.problem(delta), method=method))
    playing.append(found)


class _Display:
    """A bar for all cells, named after the current one, on stderr."""

    def __init__(
        self,
        shown: Progress,
        runs: int,
        playing: Sequence[Contestant],
        columns: Sequence[Column],
    ) -> None:
        from bestarm.leaderboard.runner import cells_of

        self._shown, self._runs = shown, max(runs, 0)
        cells = cells_of(playing, columns)
        self._places = {(who.name, where.key): at for at, (who, where) in enumerate(cells)}
        self._task = shown.add_task("", total=self._runs * len(cells))

    def __call__(self, contestant: Contestant, column: Column, done: int) -> None:
        """Show how far a cell has come."""
        before = self._runs * self._places[contestant.name, column.key]
        name = f"{column.instance.name}, {column.drift}: {contestant.name}"
        self._shown.update(self._task, description=name, completed=before + done)


def _print_json(board: Leaderboard, found: Sequence[Standing], report: Path) -> None:
    print_json(
        {
            "report": str(report),
            "runs": board.runs,
            "seed": board.seed,
            "delta": board.delta,
            "cells": [
                {
                    "method": each.contestant.name,
                    "goal": each.contestant.goal,
                    "instance": each.column.instance.name,
                    "drift": each.column.drift,
                    "pulls": number(each.pulls),
                    "half": number(each.half),
                    "cut": each.cut,
                    "errors": each.errors,
                    "error_interval": [number(end) for end in each.error_interval],
                    "breaks_delta": each.breaks_delta,
                    "rank": each.rank,
                    "rank_interval": [each.rank_low, each.rank_high],
                }
                for each in found
            ],
        }
    )


def _print_words(board: Leaderboard, found: Sequence[Standing], report: Path) -> None:
    from bestarm.leaderboard.report import summaries

    rows = summaries(found, "confidence")
    if rows:
        grid = table("method", "assumes", "above δ", "largest error", "no answer", "pulls ÷ best")
        for row in rows:
            broken = f"{row.broken} of {row.columns}"
            grid.add_row(row.method, row.model, broken, row.worst, row.unanswered, row.relative)
        console().print(grid)
    rows = summaries(found, "budget")
    if rows:
        grid = table("method", "assumes", "largest error", "mean error")
        for row in rows:
            grid.add_row(row.method, row.model, row.worst, row.relative)
        console().print(grid)
    typer.echo(f"{board.runs} runs per cell, δ = {board.delta:g}. Report: {report}")
