"""`bestarm experiment export`: all assignments and outcomes as a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, printable, reported

__all__ = ["export"]


class Layout(StrEnum):
    """What columns an export has."""

    ASSIGNMENTS = "assignments"
    MRT = "mrt"


@reported
def export(
    name: Name,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file, .csv or .parquet.")],
    layout: Annotated[
        Layout,
        typer.Option(help="All that is on record, or as micro-randomised trials are analysed."),
    ] = Layout.ASSIGNMENTS,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of every option.")
    ] = False,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Write all assignments with their outcomes to a file."""
    with open_experiment(store, name) as experiment:
        rows = experiment.export(path, layout=layout.value, probabilities=probabilities)
    if json:
        print_json({"experiment": name, "path": str(path), "layout": layout.value, "rows": rows})
    else:
        typer.echo(printable(f"{rows} assignments written to {path}."))
