"""The command line: commands, no logic."""

from __future__ import annotations

import io
import logging
import sys

__all__ = ["main"]


def main() -> None:
    """Run `bestarm` with the arguments of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # δ where a console has no Greek
    try:
        from bestarm.cli.app import app
        from bestarm.cli.output import Remarks
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(
            f"bestarm: the command line needs {error.name}, which is not installed. "
            "Install it with pip install 'bestarmid[cli]'.",
            file=sys.stderr,
        )
        sys.exit(2)
    log = logging.getLogger("bestarm")
    log.setLevel(logging.INFO)
    log.addHandler(Remarks())
    app()
