"""Seeded replications of policies in environments, at full speed."""

from bestarm.simulation.engine import run_once, simulate
from bestarm.simulation.results import Results

__all__ = ["Results", "run_once", "simulate"]
