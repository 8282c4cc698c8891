"""What commands say: errors as one line, tables, JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import typer

from bestarm.errors import BestArmError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "number", "print_json", "reported"]

P = ParamSpec("P")


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Turn every error a user can cause into one line on stderr and exit code 2."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BestArmError as error:
            _fail(str(error))
        except BrokenPipeError:
            raise  # the reader of our output has gone; Typer leaves quietly
        except OSError as error:
            if error.filename is None or error.strerror is None:
                raise  # not about a file that was named to us
            cause = error.strerror[0].lower() + error.strerror[1:]
            _fail(f"{str(error.filename)!r} cannot be read or written: {cause}.")

    return run


def _fail(sentence: str) -> None:
    typer.echo(f"bestarm: {' '.join(sentence.split())}", err=True)
    raise typer.Exit(2)


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
