"""Seeded replications of policies in environments, at full speed."""

from bestarm.simulation.comparison import Comparison, compare
from bestarm.simulation.engine import run_once, simulate
from bestarm.simulation.methods import Oracle
from bestarm.simulation.regret import plot_regret
from bestarm.simulation.results import Outcome, Results, RunJournal

__all__ = [
    "Comparison",
    "Oracle",
    "Outcome",
    "Results",
    "RunJournal",
    "compare",
    "plot_regret",
    "run_once",
    "simulate",
]
