"""Books kept in a database: SQLite by default, PostgreSQL by changing the URL."""

from bestarm.live.sql.ledger import SqlLedger
from bestarm.live.sql.store import Store

__all__ = ["SqlLedger", "Store"]
