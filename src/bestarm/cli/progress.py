"""Progress on stderr: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

__all__ = ["Bar", "bars", "lines", "progress_columns", "status"]


class Bar:
    """A bar that `simulate` moves by calling it with (runs done, runs in all)."""

    def __init__(self, display: Progress, task: TaskID) -> None:
        self._display, self._task = display, task

    def __call__(self, done: int, _total: int) -> None:
        """Show how many runs are done."""
        self._display.update(self._task, completed=done)


@contextmanager
def bars(names: Sequence[str], runs: int) -> Iterator[dict[str, Bar]]:
    """One display with one bar per name, if stderr is a terminal."""
    from rich import progress as rich
    from rich.console import Console

    screen = Console(stderr=True)
    columns = (*progress_columns(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=screen, disable=not screen.is_terminal) as display:
        yield {name: Bar(display, display.add_task(name, total=runs)) for name in names}


def progress_columns() -> tuple[ProgressColumn, ...]:
    """The columns that every display has: name, bar, count, time."""
    from rich import progress as rich

    return (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
    )


@contextmanager
def status(words: str) -> Iterator[None]:
    """Say what is going on, if stderr is a terminal."""
    from rich.console import Console

    screen = Console(stderr=True, markup=False)
    if not screen.is_terminal:
        yield
        return
    with screen.status(words):
        yield


@contextmanager
def lines(every: float = 10.0) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (runs done, runs in all), which prints them if no bar is shown.

    It writes a line to stderr at its first call, and then every so many seconds, whether or not a
    run has ended meanwhile.
    """
    start, finished = time.monotonic(), Event()
    latest = (0, 0)

    def say() -> None:
        done, total = latest
        typer.echo(
            f"bestarm: {done:,} of {total:,} runs after {time.monotonic() - start:.0f} s", err=True
        )

    def repeat() -> None:
        while not finished.wait(every):
            say()

    thread = Thread(target=repeat, name="lines", daemon=True)

    def report(done: int, total: int) -> None:
        nonlocal latest
        latest = done, total
        if thread.ident is None:
            say()
            thread.start()

    if sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    try:
        yield report
    finally:
        finished.set()
        if thread.ident is not None:
            thread.join()
