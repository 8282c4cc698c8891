"""`bestarm experiment`: its commands put together."""

from __future__ import annotations

import typer

from bestarm.cli.experiment.assignments import ask, fail, tell
from bestarm.cli.experiment.create import create
from bestarm.cli.experiment.management import lease, pause, resume, stop
from bestarm.cli.experiment.records import export, log, replay, report, verify
from bestarm.cli.experiment.views import health, list_, recommend, status

__all__ = ["experiment"]

experiment = typer.Typer(
    name="experiment",
    no_args_is_help=True,
    help="Run an experiment that any number of processes ask and tell, and none can lose.",
)

for _command in (create, ask, fail, status, recommend, health, log, export, verify, replay):
    experiment.command()(_command)
# A negative reward is not an option.
experiment.command(context_settings={"ignore_unknown_options": True})(tell)
for _further in (report, pause, resume, lease, stop):
    experiment.command()(_further)
experiment.command("list")(list_)
