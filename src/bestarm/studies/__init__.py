"""Studies: a paper's tables run again, with a verdict on every published figure."""

from bestarm.studies.published import Paper, Published, PublishedTable
from bestarm.studies.replication import Replication
from bestarm.studies.report import write_report
from bestarm.studies.sp_bai import SP_BAI
from bestarm.studies.study import Row, Study, StudyResults, Table, run_study
from bestarm.studies.verdicts import Cell

__all__ = [
    "SP_BAI",
    "Cell",
    "Paper",
    "Published",
    "PublishedTable",
    "Replication",
    "Row",
    "Study",
    "StudyResults",
    "Table",
    "run_study",
    "write_report",
]
