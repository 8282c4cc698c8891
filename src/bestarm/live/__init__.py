"""Experiments that people or programs answer: ask and tell."""

from bestarm.live.batches import Assignment, Batch, Listed, Receipt, Status
from bestarm.live.draws import draw
from bestarm.live.experiment import Experiment

__all__ = ["Assignment", "Batch", "Experiment", "Listed", "Receipt", "Status", "draw"]
