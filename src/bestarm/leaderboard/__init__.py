"""The field's methods beside each other: instances, drifts, ranks with intervals."""

from bestarm.leaderboard.column import DRIFTS, INSTANCES, Column, columns
from bestarm.leaderboard.contestant import Contestant, contestants
from bestarm.leaderboard.report import write_report
from bestarm.leaderboard.runner import Leaderboard, run_leaderboard
from bestarm.leaderboard.standing import Standing, standings

__all__ = [
    "DRIFTS",
    "INSTANCES",
    "Column",
    "Contestant",
    "Leaderboard",
    "Standing",
    "columns",
    "contestants",
    "run_leaderboard",
    "standings",
    "write_report",
]
