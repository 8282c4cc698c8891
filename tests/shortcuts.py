"""What every process that runs tests would otherwise do again for each of them."""

from __future__ import annotations

import importlib.metadata
from functools import cache

import typer.testing
from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

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
