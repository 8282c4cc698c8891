"""`bestarm experiment`: its commands put together."""

from __future__ import annotations

import typer

from bestarm.cli.experiment.changes import (
    add,
    ask,
    erase,
    expire,
    fail,
    lease,
    pause,
    resume,
    retire,
    stop,
    tell,
)
from bestarm.cli.experiment.create import create
from bestarm.cli.experiment.records import (
    export,
    guardrails,
    health,
    list_,
    log,
    recommend,
    replay,
    report,
    status,
    verify,
)
from bestarm.cli.experiment.watch import watch

__all__ = ["experiment"]

experiment = typer.Typer(
    name="experiment",
    no_args_is_help=True,
    help="Run an experiment that any number of processes ask and tell, and none can lose.",
)

_NEGATIVE = (ask, tell, fail, lease)  # a negative number is not an option there
for _command in (
    create, ask, tell, fail, status, recommend, guardrails, health, watch, log, export, report,
    verify, replay, pause, resume, expire, lease, add, retire, erase, stop,
):  # fmt: skip
    _settings = {"ignore_unknown_options": _command in _NEGATIVE}
    experiment.command(context_settings=_settings)(_command)
experiment.command("list")(list_)
