"""Experiments that people or programs answer: ask and tell."""

from bestarm.live.audit import Audit
from bestarm.live.batches import Assignment, Batch, Listed, Receipt, Status
from bestarm.live.check import Check
from bestarm.live.draws import draw
from bestarm.live.experiment import Experiment
from bestarm.live.ledger import Event
from bestarm.live.replayed import Remark, Replayed

__all__ = [
    "Assignment",
    "Audit",
    "Batch",
    "Check",
    "Event",
    "Experiment",
    "Listed",
    "Receipt",
    "Remark",
    "Replayed",
    "Status",
    "draw",
]
