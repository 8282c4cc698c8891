"""What commands say: errors as one line, tables, JSON."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import typer

from bestarm.errors import BestArmError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["OutputError", "console", "number", "print_json", "printable", "reported"]

P = ParamSpec("P")


class OutputError(Exception):
    """What was found or done could not be printed; the sentence says what then."""


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Turn every error a user can cause into one line on stderr and exit code 2."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BestArmError as error:
            _fail(str(error))
        except OutputError as error:
            _let_go_of_output()
            _fail(str(error))
        except BrokenPipeError:
            raise  # the reader of our output has gone; Typer leaves quietly
        except OSError as error:
            if error.filename is None and error.errno in _FULL:
                _let_go_of_output()
                _fail(f"Writing failed: {_cause(error)}. What was done by then is done.")
            if error.filename is None or error.strerror is None:
                raise  # not about a file that was named to us
            _fail(f"{str(error.filename)!r} cannot be read or written: {_cause(error)}.")

    return run


def _cause(error: OSError) -> str:
    said = error.strerror or ""
    return said[:1].lower() + said[1:]


# Not connections that were refused, and the like.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def _let_go_of_output() -> None:
    """Drop what standard output did not take, so that Python does not try again as it ends."""
    if sys.stdout is None:
        return  # closed from the start
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _fail(sentence: str) -> None:
    typer.echo(f"bestarm: {printable(' '.join(sentence.split()))}", err=True)
    raise typer.Exit(2)


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
    from rich.console import Console  # noqa: PLC0415

    return Console(markup=False, highlight=False, emoji=False)


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def number(value: float) -> float | None:
    """A number as JSON has it: null where it is infinite or not known."""
    return value if math.isfinite(value) else None
