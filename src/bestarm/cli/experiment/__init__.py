"""`bestarm experiment`: its commands put together."""

from __future__ import annotations

import typer

from bestarm.cli.experiment.ask import ask
from bestarm.cli.experiment.audit import replay, verify
from bestarm.cli.experiment.create import create
from bestarm.cli.experiment.export import export
from bestarm.cli.experiment.fail import fail
from bestarm.cli.experiment.health import health
from bestarm.cli.experiment.lease import lease
from bestarm.cli.experiment.listing import list_
from bestarm.cli.experiment.log import log
from bestarm.cli.experiment.recommend import recommend
from bestarm.cli.experiment.report import report
from bestarm.cli.experiment.state import pause, resume, stop
from bestarm.cli.experiment.status import status
from bestarm.cli.experiment.tell import tell

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
