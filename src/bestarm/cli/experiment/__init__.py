"""`bestarm experiment`: its commands put together."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from bestarm.cli.experiment.changes import (
    add,
    archive,
    ask,
    delete,
    describe,
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


class _Create(TyperCommand):
    """The command `create`, whose `--options` is followed by any number of names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read `--options old new` as `--options old --options new`."""
        words, flag, naming = list[str](), "--options", False
        for word in args:
            if word.startswith("-"):
                naming = word == flag
            if word != flag:
                words += [flag, word] if naming else [word]
        return super().parse_args(ctx, words)


experiment = typer.Typer(
    name="experiment",
    no_args_is_help=True,
    help="Run an experiment that any number of processes ask and tell, and none can lose.",
)

_NEGATIVE = (ask, tell, fail, lease)  # a negative number is not an option there
experiment.command(cls=_Create)(create)
for _command in (
    ask, tell, fail, status, recommend, guardrails, health, watch, log, export, report,
    verify, replay, pause, resume, expire, lease, add, retire, erase, stop, archive,
    describe,
):  # fmt: skip
    _settings = {"ignore_unknown_options": _command in _NEGATIVE}
    experiment.command(context_settings=_settings)(_command)
experiment.command()(delete)
experiment.command("list")(list_)
