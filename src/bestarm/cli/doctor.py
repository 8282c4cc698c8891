"""`bestarm doctor`: is a database safe to keep an experiment in?"""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.command import command
from bestarm.cli.options import DEFAULT_STORE, AsJson
from bestarm.cli.reporting import checks_result, print_result


@command
def doctor(
    url: Annotated[
        str,
        typer.Argument(
            metavar="[URL]",
            envvar="BESTARM_STORE",
            help="The database: sqlite:///experiments.db for a file, postgresql://user@host/name.",
        ),
    ] = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Say whether a database is safe to keep an experiment in: exit code 1 on an alarm."""
    from bestarm.cli.database_checks import check_database

    data, lines, code = checks_result(check_database(url))
    print_result(data, *lines, as_json=json)
    raise typer.Exit(code)
