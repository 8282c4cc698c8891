"""Seeded replications of policies in environments, at full speed."""

from bestarm.simulation.engine import run_once, simulate
from bestarm.simulation.oracle import Oracle
from bestarm.simulation.results import Outcome, Results

__all__ = ["Oracle", "Outcome", "Results", "run_once", "simulate"]
