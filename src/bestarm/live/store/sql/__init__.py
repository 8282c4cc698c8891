"""Experiments kept in a database: SQLite by default, PostgreSQL by changing the URL."""

from bestarm.live.store.sql.changes import Changes
from bestarm.live.store.sql.database import Store
from bestarm.live.store.sql.ledger import SqlLedger

__all__ = ["Changes", "SqlLedger", "Store"]
