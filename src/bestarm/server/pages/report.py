"""The printable report: one file that needs nothing else, not even a script."""

from __future__ import annotations

from pathlib import Path

from bestarm.live import Experiment
from bestarm.live.watch.overview import overview
from bestarm.live.watch.views import Overview
from bestarm.server.pages.panels import panels, render

__all__ = ["report", "write_report"]


def report(seen: Overview) -> str:
    """A trial as HTML."""
    return render("report.html", seen=seen, panels=panels(seen, printed=True), printed=True)


def write_report(experiment: Experiment, path: str | Path) -> Path:
    """Write a trial as it stands to an HTML file, and give its path back.

    The folder is made if need be. Raises OSError where the file cannot be written.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(report(overview(experiment)), encoding="utf-8")
    return file
