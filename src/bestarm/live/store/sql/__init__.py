"""Experiments kept in a database: SQLite by default, PostgreSQL by changing the URL."""

from bestarm.live.store.sql.database import Store
from bestarm.live.store.sql.feed import ChangeFeed
from bestarm.live.store.sql.ledger import SqlLedger, SqlSnapshot
from bestarm.live.store.sql.session import Session

__all__ = ["ChangeFeed", "Session", "SqlLedger", "SqlSnapshot", "Store"]
