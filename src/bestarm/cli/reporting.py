"""What commands print: errors as one line, tables, checks, JSON."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import typer

from bestarm.errors import BestArmError, MissingDependencyError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from bestarm.live.values import Check

__all__ = [
    "console",
    "count",
    "need_server",
    "number",
    "percent_range",
    "print_checks",
    "print_json",
    "print_result",
    "printable",
    "remark",
    "reported",
    "table",
]

P = ParamSpec("P")

# Not connections that were refused, and the like.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Turn every error a user can cause into one line on stderr and exit code 2."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BestArmError as error:
            sentence = str(error)
        except BrokenPipeError:
            raise  # the reader of our output has gone; Typer leaves quietly
        except OSError as error:
            words = error.strerror or ""
            cause = words[:1].lower() + words[1:]
            if error.filename is not None and cause:
                sentence = f"{str(error.filename)!r} cannot be read or written: {cause}."
            elif error.filename is None and error.errno in _FULL:
                sentence = f"Writing failed: {cause}. What was done by then is done."
            else:
                raise  # not about a file that was named to us
        else:
            return
        _discard_output()
        remark(sentence)
        raise typer.Exit(2)

    return run


def _discard_output() -> None:
    """Drop what standard output did not take, so that Python does not try again at exit."""
    if sys.stdout is None:
        return  # closed from the start
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def remark(sentence: str) -> None:
    """Print something to know that is not the answer: on stderr, in one line."""
    typer.echo(f"bestarm: {printable(' '.join(sentence.split()))}", err=True)


def need_server() -> None:
    """Refuse, with what to install, where a server cannot run."""
    from importlib.util import find_spec

    for name in ("sqlalchemy", "fastapi", "uvicorn", "sse_starlette"):
        if find_spec(name) is None:
            raise MissingDependencyError(
                f"This needs {name}, which is not installed.",
                field=name,
                remedy="Install it with pip install 'bestarm[server]'.",
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


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 run, 2,000 runs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent_range(value: float, interval: tuple[float, float]) -> str:
    """A share with its interval, in percent."""
    low, high = interval
    return f"{value:.1%} ({100 * low:.1f}–{100 * high:.1f})"


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_result(data: object, *lines: str, as_json: bool) -> None:
    """Print a result as JSON, or in words."""
    if as_json:
        print_json(data)
    elif lines:
        typer.echo("\n".join(map(printable, lines)))


def number(value: float) -> float | None:
    """A number as JSON has it: null where it is infinite or not known."""
    return value if math.isfinite(value) else None


_MARKS = {"ok": "ok     ", "warning": "WARNING", "alarm": "ALARM  "}


def print_checks(about: dict[str, object], checks: Sequence[Check], *, as_json: bool) -> None:
    """Print the findings, and end with exit code 1 if one of them is an alarm."""
    from bestarm.live.values import worst

    level = worst(checks)
    width = max((len(check.name) for check in checks), default=0)
    lines = [
        f"{_MARKS[check.level]} {check.name:<{width}}  {check.finding} {check.action}".rstrip()
        for check in checks
    ]
    data = {**about, "level": level, "checks": [asdict(check) for check in checks]}
    print_result(data, *lines, as_json=as_json)
    if level == "alarm":
        raise typer.Exit(1)
