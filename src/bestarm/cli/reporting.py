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

    from bestarm.live.values import Check

__all__ = [
    "OutputError",
    "console",
    "need_server",
    "number",
    "print_checks",
    "print_json",
    "printable",
    "remark",
    "reported",
]

P = ParamSpec("P")


class OutputError(Exception):
    """Results could not be printed; the sentence says what to do."""


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Turn every error a user can cause into one line on stderr and exit code 2."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BestArmError as error:
            _fail(str(error))
        except OutputError as error:
            _discard_output()
            _fail(str(error))
        except BrokenPipeError:
            raise  # the reader of our output has gone; Typer leaves quietly
        except OSError as error:
            if error.filename is None and error.errno in _FULL:
                _discard_output()
                _fail(f"Writing failed: {_cause(error)}. What was done by then is done.")
            if error.filename is None or error.strerror is None:
                raise  # not about a file that was named to us
            _fail(f"{str(error.filename)!r} cannot be read or written: {_cause(error)}.")

    return run


def _cause(error: OSError) -> str:
    words = error.strerror or ""
    return words[:1].lower() + words[1:]


# Not connections that were refused, and the like.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


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


def _fail(sentence: str) -> None:
    remark(sentence)
    raise typer.Exit(2)


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


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def number(value: float) -> float | None:
    """A number as JSON has it: null where it is infinite or not known."""
    return value if math.isfinite(value) else None


_MARKS = {"ok": "ok     ", "warning": "WARNING", "alarm": "ALARM  "}


def print_checks(about: dict[str, object], checks: Sequence[Check], *, as_json: bool) -> None:
    """Print the findings, and end with exit code 1 if one of them is an alarm."""
    from bestarm.live.values import worst

    level = worst(checks)
    if as_json:
        print_json({**about, "level": level, "checks": [asdict(check) for check in checks]})
    else:
        width = max((len(check.name) for check in checks), default=0)
        for check in checks:
            words = printable(f"{check.finding} {check.action}".strip())
            typer.echo(f"{_MARKS[check.level]} {check.name:<{width}}  {words}")
    if level == "alarm":
        raise typer.Exit(1)
