"""The paper's tables, replicated with error bars."""

from bestarm.replication.cell import Cell
from bestarm.replication.papers import PAPERS, Paper
from bestarm.replication.report import write_report
from bestarm.replication.runner import Replication, RowObserver, reproduce
from bestarm.replication.tables import Row, Table

__all__ = [
    "PAPERS",
    "Cell",
    "Paper",
    "Replication",
    "Row",
    "RowObserver",
    "Table",
    "reproduce",
    "write_report",
]
