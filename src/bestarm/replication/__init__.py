"""The paper's tables, replicated with error bars."""

from bestarm.replication.cell import Cell
from bestarm.replication.report import write_report
from bestarm.replication.runner import Replication, RowObserver, reproduce
from bestarm.replication.tables import TABLES, Row, Table, paper_tables

__all__ = [
    "TABLES",
    "Cell",
    "Replication",
    "Row",
    "RowObserver",
    "Table",
    "paper_tables",
    "reproduce",
    "write_report",
]
