"""Transactions on a driver's own connection: what one outcome costs must be close to its write.

SQLAlchemy makes the connections and writes the statements, once; it does not carry them out, which
would take several times as long as the database does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Delete, Insert, Select, Table, Update

from bestarm.live.store.damage import damaged
from bestarm.live.store.sql import statements as sql
from bestarm.live.store.sql.columns import Slots

Row = tuple[Any, ...]
Columns = Mapping[str, Sequence[Any]]  # values by column, one per row


class KnownRowError(Exception):
    """A row that should be new is on record: the transaction must not be kept."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table


def no_counters() -> Exception:
    """The error where an experiment has no counters."""
    return damaged("The counters of the experiment are missing.")


class Session(ABC):
    """A connection, on which one transaction runs at a time.

    Attributes:
        raw: the driver's connection.
        counters: those of the transaction's experiment as they were when it began, by name; empty
            where the transaction is not of one experiment.
        time: by the server's clock, as the counters were read; None where there is no server.
        fresh: whether it has not begun a transaction yet.
        thread: the one that uses it, or did last.
        slots: what rows are read into, with SQLite.
    """

    dialect: str
    raw: Any
    counters: dict[str, Any]
    time: float | None = None
    fresh: bool = True
    thread: int = 0
    slots: Slots | None = None

    @abstractmethod
    def begin(
        self, *, writing: bool, experiment: int | None = None, assume_unchanged: bool = False
    ) -> None:
        """Begin a transaction; one that writes to an experiment waits for its turn.

        See `Ledger.writing` for `assume_unchanged`, and for the error of whatever comes after.
        """

    @abstractmethod
    def commit(self) -> None:
        """Keep all of the transaction; when this returns it is on disk.

        Raises:
            KnownRowError: see `add`.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Keep nothing of the transaction, if there is one."""

    @abstractmethod
    def fetch(self, statement: Select[Any], **values: Any) -> list[Row]:
        """Rows as the driver returns them."""

    @abstractmethod
    def fetch_one(self, text: str, values: Sequence[Any]) -> Row:
        """The one row of a statement in the words of the database."""

    @abstractmethod
    def change(self, statement: Insert | Update | Delete, *rows: Mapping[str, Any]) -> int:
        """Carry out a statement once per row of values; the number of rows changed, if one."""

    @abstractmethod
    def add(self, table: Table, columns: Columns) -> None:
        """Add new rows, now or with the next thing that is done.

        Raises:
            KnownRowError: one is on record; at the latest by `commit`.
        """

    @abstractmethod
    def add_unknown(self, table: Table, columns: Columns) -> int:
        """Add rows except those on record, and return the number added."""

    @abstractmethod
    def settle(self, experiment: int, numbers: list[int], *, summary: int) -> None:
        """Note in rows of deferrals which summary covers them; none did before."""

    @abstractmethod
    def save(self, experiment: int, changed: Mapping[str, Any]) -> None:
        """Write the counters of the transaction's experiment that have changed."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Whether there is a table of this name."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; a transaction in it is lost."""

    @property
    def broken(self) -> bool:
        """Whether the connection is of no more use."""
        return False

    def select(self, statement: Select[Any], **values: Any) -> list[Row]:
        """Rows, each value checked to be of its column's kind.

        Raises:
            DamagedStoreError: one is not.
        """
        return sql.written(statement, self.dialect).checked(self.fetch(statement, **values))
