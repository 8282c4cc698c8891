"""`bestarm doctor`: is a database safe."""

from __future__ import annotations

from bestarm.cli.command import command
from bestarm.cli.output import Result, checks_result
from bestarm.defaults import STORE


@command
def doctor(*, store: str = STORE) -> Result:
    """Say whether a database is safe to keep an experiment in: exit code 1 on an alarm."""
    from bestarm.cli.database_checks import check_database

    return checks_result(check_database(store))
