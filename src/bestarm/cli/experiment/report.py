"""`bestarm experiment report`: an experiment as a page to print or keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, reported
from bestarm.errors import MissingDependencyError

__all__ = ["report"]


@reported
def report(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")] = Path(
        "report.html"
    ),
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Write an experiment as one page to print or keep."""
    try:
        from bestarm.server.pages.report import write_report
    except ImportError as error:
        raise MissingDependencyError(
            f"The report needs {error.name}, which is not installed.",
            field="out",
            value=str(out),
            remedy="Run: pip install 'bestarm[server]'.",
        ) from None
    with open_experiment(store, name) as experiment:
        written = write_report(experiment, out)
    if json:
        print_json({"experiment": name, "file": str(written)})
    else:
        typer.echo(f"Wrote {written}.")
