"""Studies: papers' tables run again with verdicts, and a leaderboard of the field's methods."""

from bestarm.studies.benchmark import (
    DRIFTS,
    INSTANCES,
    Competitor,
    Condition,
    competitors,
    conditions,
)
from bestarm.studies.leaderboard import Leaderboard
from bestarm.studies.papers import PAPERS
from bestarm.studies.published import Paper, Published, PublishedTable
from bestarm.studies.replication import Replication
from bestarm.studies.report import write_report
from bestarm.studies.standings import Standing
from bestarm.studies.study import Row, Study, StudyResults, Table, run_study
from bestarm.studies.verdicts import Cell

__all__ = [
    "DRIFTS",
    "INSTANCES",
    "PAPERS",
    "Cell",
    "Competitor",
    "Condition",
    "Leaderboard",
    "Paper",
    "Published",
    "PublishedTable",
    "Replication",
    "Row",
    "Standing",
    "Study",
    "StudyResults",
    "Table",
    "competitors",
    "conditions",
    "run_study",
    "write_report",
]
