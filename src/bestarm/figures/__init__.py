"""Pictures of runs, made with Matplotlib's object interface: no global state."""

from bestarm.figures.evidence import evidence
from bestarm.figures.ink import save
from bestarm.figures.phases import phases

__all__ = ["evidence", "phases", "save"]
