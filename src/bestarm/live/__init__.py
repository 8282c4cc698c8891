"""Experiments that people or programs answer: ask and tell."""

from bestarm.live.draws import draw
from bestarm.live.experiment import Assignment, Batch, Experiment, Status

__all__ = ["Assignment", "Batch", "Experiment", "Status", "draw"]
