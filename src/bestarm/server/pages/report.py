"""The printable report: one file that needs nothing else, not even a script."""

from __future__ import annotations

from pathlib import Path

from bestarm.live import Experiment
from bestarm.live.watch.overview import overview
from bestarm.live.watch.views import Overview
from bestarm.server.pages.panels import panels, render
from bestarm.server.pages.snippets import Snippets, snippets

_USUAL_ADDRESS = "http://127.0.0.1:8000"  # of `bestarm serve`


def report(shown: Overview, pasted: Snippets) -> str:
    """An experiment as HTML."""
    parts = panels(shown, pasted, printed=True)
    return render("report.html", overview=shown, panels=parts, printed=True)


def write_report(experiment: Experiment, path: str | Path) -> Path:
    """Write an experiment as it stands to an HTML file, and return its path.

    The folder is made if necessary. Raises OSError if the file cannot be written.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    pasted = snippets(experiment.name, address=_USUAL_ADDRESS, store=experiment.place)
    file.write_text(report(overview(experiment), pasted), encoding="utf-8")
    return file
