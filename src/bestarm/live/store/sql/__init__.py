"""Books kept in a database: SQLite by default, PostgreSQL by changing the URL."""

from bestarm.live.store.sql.books import SqlLedger
from bestarm.live.store.sql.database import Store

__all__ = ["SqlLedger", "Store"]
