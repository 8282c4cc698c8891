"""Seeded replications of policies in environments, at full speed."""

from bestarm.simulation.budget import ErrorEstimate, estimate_error
from bestarm.simulation.engine import run_once, simulate
from bestarm.simulation.oracle import Oracle
from bestarm.simulation.regrets import regret
from bestarm.simulation.results import Outcome, Results, RunJournal

__all__ = [
    "ErrorEstimate",
    "Oracle",
    "Outcome",
    "Results",
    "RunJournal",
    "estimate_error",
    "regret",
    "run_once",
    "simulate",
]
