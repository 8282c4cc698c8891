"""The `bestarm` command: its commands put together. What is heavy loads when a command runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bestarm import __version__
from bestarm.cli.demo import demo
from bestarm.cli.doctor import doctor
from bestarm.cli.evaluate import evaluate
from bestarm.cli.experiment import experiment
from bestarm.cli.plan import plan
from bestarm.cli.research.check import check
from bestarm.cli.research.compare import compare
from bestarm.cli.research.design import design
from bestarm.cli.research.studies import leaderboard, reproduce
from bestarm.cli.serve import serve, token


class _Bestarm(TyperGroup):
    """The command itself, which knows that `status` is one of `experiment`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named, or a hint at the one that has it."""
        for name, each in self.commands.items():
            if args[0] not in self.commands and args[0] in getattr(each, "commands", ()):
                ctx.fail(f"No such command {args[0]!r}. Did you mean '{name} {args[0]}'?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="bestarm",
    cls=_Bestarm,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bestarm {__version__}")
        raise typer.Exit


@app.callback()
def _bestarm(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Which of these options is best, when everything around them keeps drifting?"""


_CORE = (
    demo, evaluate, compare, design, check, plan, reproduce, leaderboard, serve, doctor
)  # fmt: skip
for _command in _CORE:
    app.command()(_command)
app.add_typer(experiment)
app.add_typer(token)
