"""Progress on stderr: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Count = Callable[[int, int], object]  # called with (done, in all), of runs or the like


@contextmanager
def display() -> Iterator[Progress]:
    """A display of bars, which are shown if stderr is a terminal."""
    from rich import progress as rich
    from rich.console import Console

    screen = Console(stderr=True, markup=False, highlight=False, emoji=False)
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=screen, disable=not screen.is_terminal) as shown:
        yield shown


@contextmanager
def bars(names: Sequence[str], runs: int) -> Iterator[dict[str, Count]]:
    """One bar per name, each moved by a function."""
    with display() as shown:
        yield {name: partial(_move, shown, shown.add_task(name, total=runs)) for name in names}


def _move(shown: Progress, task: TaskID, done: int, total: int) -> None:
    shown.update(task, completed=done, total=total)


@contextmanager
def counted(name: str, runs: int, *, what: str = "runs", every: float = 10.0) -> Iterator[Count]:
    """A function that moves a bar in a terminal, and else has lines written to stderr.

    The first call writes a line; another follows every so many seconds, whether or not a run has
    ended meanwhile.
    """
    if sys.stderr.isatty():
        with bars([name], runs) as shown:
            yield shown[name]
        return
    start, finished = time.monotonic(), Event()
    latest = (0, runs)

    def write() -> None:
        over = False
        while not over:
            done, total = latest
            after = time.monotonic() - start
            typer.echo(f"bestarm: {done:,} of {total:,} {what} after {after:.0f} s", err=True)
            over = finished.wait(every)

    thread = Thread(target=write, name="lines", daemon=True)

    def report(done: int, total: int) -> None:
        nonlocal latest
        latest = done, total
        if thread.ident is None:
            thread.start()

    try:
        yield report
    finally:
        finished.set()
        if thread.ident is not None:
            thread.join()
