"""What commands print: tables, checks, JSON, remarks; progress on stderr."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from textwrap import TextWrapper
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from bestarm.errors import BestArmError, MissingDependencyError
from bestarm.tables import TextTable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

    from bestarm.live.values import Checks


class Result(NamedTuple):
    """What a command found.

    Attributes:
        data: for programs.
        lines: for people: sentences and tables.
        code: the exit code.
        note: what people should know besides.
        unprinted: what was done all the same if this cannot be printed.
    """

    data: Any
    lines: Sequence[str | TextTable] = ()
    code: int = 0
    note: str = ""
    unprinted: str = ""


_displays: list[Progress] = []  # of bars that are shown now


def remark(sentence: str) -> None:
    """Print something to know that is not the answer: on stderr, in one line, above any bars."""
    line = f"bestarm: {printable(' '.join(sentence.split()))}"
    if _displays:
        _displays[-1].console.print(line, soft_wrap=True)
    else:
        typer.echo(line, err=True)


class Remarks(logging.Handler):
    """Log records as remarks: the log says what takes long. A server has another handler."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message of a record."""
        remark(record.getMessage())


def need_server() -> None:
    """Refuse, with what to install, where a server cannot run."""
    from importlib.util import find_spec

    for name in ("sqlalchemy", "fastapi", "uvicorn"):
        if find_spec(name) is None:
            raise MissingDependencyError(
                f"This needs {name}, which is not installed.",
                field=name,
                remedy="Install it with pip install 'bestarmid[server]'.",
            )


_JOINERS = "\u200c\u200d"  # between letters of some scripts, and within some pictures


def printable(text: str) -> str:
    """A text in one line, in which nothing can move the cursor or reorder what is read.

    >>> printable("tea\\n\\x1b[2J")
    'tea\\\\n\\\\x1b[2J'
    """
    return "".join(
        each
        if each.isprintable() or each in _JOINERS or unicodedata.category(each) == "Zs"
        else each.encode("unicode_escape").decode()
        for each in text
    )


def console() -> Console:
    """Where tables go: standard output, without markup in what users named."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


def table(first: str, *figures: str) -> Table:
    """A table of a column of names and columns of figures."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column(first, overflow="fold")
    for heading in figures:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def _grid(shown: TextTable) -> Table:
    """A table with the columns of print."""
    columns = [shown.columns[0], *(shown.columns[n + 1] for n in shown.printed())]
    grid = table(*(printable(column.heading) for column in columns))
    for line in shown.lines:
        texts = (line.entries[n].text for n in shown.printed())
        grid.add_row(*map(printable, (line.name, *texts)))
    return grid


def print_result(result: Result, *, as_json: bool) -> None:
    """Print a result as JSON, or in words."""
    try:
        if as_json:
            typer.echo(json.dumps(result.data, indent=2, ensure_ascii=False, allow_nan=False))
        for part in () if as_json else result.lines:
            if isinstance(part, str):
                typer.echo(printable(part))
            else:
                if part.title:
                    typer.echo(printable(part.title))
                console().print(_grid(part))
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if not result.unprinted:
            raise
        raise BestArmError(
            f"Writing failed: {error.strerror}.", field="output", remedy=result.unprinted
        ) from error
    if result.note and not as_json:
        remark(result.note)


def wrapped(lines: Iterable[str | TextTable]) -> Iterator[str | TextTable]:
    """The same, with sentences that are no wider than the terminal."""
    whole = TextWrapper(console().width, break_long_words=False, break_on_hyphens=False)  # paths
    for part in lines:
        if isinstance(part, str):
            yield from whole.wrap(part) or [""]
        else:
            yield part


def number(value: float) -> float | None:
    """A number as JSON has it: null where it is infinite or not known."""
    return value if math.isfinite(value) else None


def checks_result(checks: Checks) -> Result:
    """The findings; the exit code is 1 if one of them is an alarm."""
    from bestarm.live.values import worst

    level = worst(checks)
    lines = str(checks).split("\n")
    data = {"level": level, "checks": [asdict(check) for check in checks]}
    return Result(data, lines, int(level == "alarm"))


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
        _displays.append(shown)
        try:
            yield shown
        finally:
            _displays.remove(shown)


@contextmanager
def bars(names: Sequence[str], runs: int) -> Iterator[dict[str, Count]]:
    """One bar per name, each moved by a function."""
    with display() as shown:
        yield {name: partial(_move, shown, shown.add_task(name, total=runs)) for name in names}


def _move(shown: Progress, task: TaskID, done: int, total: int) -> None:
    shown.update(task, completed=done, total=total)


@contextmanager
def show_progress(
    name: str, runs: int, *, what: str = "runs", every: float = 10.0
) -> Iterator[Count]:
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
