"""`bestarm experiment report`: a trial as a page to print or keep."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from bestarm.errors import MissingDependencyError
from bestarm.live import Experiment

__all__ = ["run_report"]


def run_report(name: str, *, store: str, out: Path, as_json: bool = False) -> None:
    """Write a trial's report, and say where it is."""
    try:
        from bestarm.server.pages.report import write_report  # noqa: PLC0415 - optional
    except ImportError as error:
        raise MissingDependencyError(
            f"The report needs {error.name}, which is not installed.",
            field="out",
            value=str(out),
            remedy="Run: pip install 'bestarm[server]'.",
        ) from None
    with Experiment.open(store, name) as experiment:
        written = write_report(experiment, out)
    if as_json:
        typer.echo(json.dumps({"experiment": name, "file": str(written)}))
    else:
        typer.echo(f"Wrote {written}.")
