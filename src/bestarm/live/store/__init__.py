"""Where experiments are kept: SQLite by default, PostgreSQL by changing the URL, or memory."""

from bestarm.live.store.database import Store
from bestarm.live.store.feed import ChangeFeed
from bestarm.live.store.ledger import Ledger, Snapshot, Transaction
from bestarm.live.store.session import Session

__all__ = ["ChangeFeed", "Ledger", "Session", "Snapshot", "Store", "Transaction"]
