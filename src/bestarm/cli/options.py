"""Options that several commands have, and how their numbers are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bestarm.defaults import STORE

DEFAULT_STORE = STORE


def read_number(text: str) -> float | None:
    """A number as people write it, or None. With an underscore, 0_1 is a slip and not 1.

    >>> read_number("0.1"), read_number("0_1")
    (0.1, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def decimal(value: str) -> float:
    """Parse a number."""
    text = str(value)
    number = read_number(text)
    if number is None:
        raise typer.BadParameter(f"{text!r} is not a number.")
    return number


def whole(value: str) -> int:
    """Parse a whole number."""
    text = str(value)
    try:
        return int("none" if "_" in text else text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None


Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE.csv",
        help="Features of the arms one can pull, one row per arm. A header is optional; a first "
        "column that is not numeric holds labels; a file of names alone will do. Or a .json file.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option(
        metavar="TARGET.csv",
        help="Features of the options to choose among; the source when left out.",
    ),
]
Delta = Annotated[float, typer.Option(parser=decimal, help="The error probability allowed.")]
Noise = Annotated[
    float | None,
    typer.Option(
        parser=decimal, help="The scale of the noise; 1 if left out, or what bounds imply."
    ),
]
Baseline = Annotated[
    float | None,
    typer.Option(
        parser=decimal,
        help="A bound on the baseline's size; 1 if left out, or what bounds imply.",
    ),
]
Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option(
        parser=decimal,
        metavar="LOW HIGH",
        help="The lowest and the highest reward: 0 1 for no and yes.",
    ),
]
Runs = Annotated[int, typer.Option(parser=whole, help="Runs of each method.")]
Seed = Annotated[int, typer.Option(parser=whole, help="Results depend on it and on nothing else.")]
Workers = Annotated[
    int | None,
    typer.Option(parser=whole, metavar="N", help="Processes that share the runs; 1 if left out."),
]
Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers share the runs."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The experiment's name in the store.")]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="BESTARM_STORE",
        help="The database: sqlite:///experiments.db for a file, postgresql://user@host/name.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
