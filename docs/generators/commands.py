"""The page of the command line, from the tree of commands that Typer builds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
import typer.core

from bestarm.cli.app import app

__all__ = ["command_page", "commands"]

_INTRODUCTION = """# Command line

Every error in what a user gives a command (a file, a number, a folder) is one line on stderr that
starts with `bestarm:`. An unknown command or option is answered with the usage. The exit code is 2
in both cases. Exit code 1 means that a command did its work and found something wrong: an alarm, a
record that is not sound, a replay that disagrees. Ctrl-C prints what has finished, says that it is
partial, and ends with exit code 130.

Numbers are written as they are printed: 20,000 or 20000, 0.5 or 50 %; also 20k and 1e4. Commas
separate thousands, and decimals have a point.
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Every group and every command with its full name, in the order of `--help`."""
    yield from _walk("bestarm", typer.main.get_command(app))


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    if isinstance(command, typer.core.TyperGroup):
        context = typer.Context(command, info_name=name)
        for part in command.list_commands(context):
            yield from _walk(f"{name} {part}", command.commands[part])


def command_page() -> str:
    """Usage, help, arguments and options of every command, as Markdown."""
    return _INTRODUCTION + "".join(_section(name, command) for name, command in commands())


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"\n## `{name}`\n", f"```text\n{usage}\n```\n", f"{command.help}\n"]
    lines += [_entry(*record) for record in _records(command, context)]
    return "\n".join(lines) + "\n"


def _records(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    """Names and help of what a command takes, as `--help` shows them."""
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield record


def _entry(names: str, text: str) -> str:
    return f"- `{names}`: {' '.join(text.split())}"
