"""What every process that runs tests would otherwise do again for each of them."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from typing import Any

import typer.testing
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

__all__ = ["upgrade", "upgrade_from_recording"]

# Typer makes all commands again for each call of one, which takes ten times as long as most calls.
typer.testing.__dict__["_get_command"] = cache(typer.main.get_command)

importlib.metadata.__dict__["version"] = cache(importlib.metadata.version)

# A statement is compiled once for all stores of a kind, and not again for each one that is opened:
# dialects of a kind are all alike here.
_statements: dict[object, object] = {}


@event.listens_for(Engine, "engine_connect")
def _share(connection: Connection) -> None:
    connection.execution_options(compiled_cache=_statements)


for kind in (PGDialect_psycopg, SQLiteDialect_pysqlite):
    kind.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign]
    kind.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]

_made: dict[str, list[tuple[str, Any]]] = {}  # by the kind of database
_THINGS = {
    "sqlite": "SELECT count(*) FROM sqlite_master",
    "postgresql": "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace",
}
upgrade = command.upgrade


def upgrade_from_recording(config: Config, revision: str) -> None:
    """Make the tables of an empty database by the statements that made those of the first."""
    connection: Connection = config.attributes["connection"]
    kind = connection.dialect.name
    if connection.exec_driver_sql(_THINGS[kind]).scalar_one():
        upgrade(config, revision)
    elif kind in _made:
        for statement, parameters in _made[kind]:
            connection.exec_driver_sql(statement, parameters)
    else:
        made: list[tuple[str, Any]] = []

        def note(_on: object, _by: object, statement: str, parameters: Any, *_: object) -> None:
            made.append((statement, parameters))

        event.listen(connection, "before_cursor_execute", note)
        upgrade(config, revision)
        event.remove(connection, "before_cursor_execute", note)
        _made[kind] = _joined(made) if kind == "postgresql" else made


def _joined(made: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The statements that change something, none of which has parameters, in one go."""
    changes = [each for each in made if not each[0].startswith("SELECT")]
    assert not any(parameters for _, parameters in changes)
    return [(";".join(statement for statement, _ in changes), ())]
