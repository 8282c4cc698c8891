"""Experiments that people or programs answer: ask and tell."""

from bestarm.live.audit.chain import Audit
from bestarm.live.check import Check
from bestarm.live.draws import draw
from bestarm.live.experiment import Experiment
from bestarm.live.replayed import Remark, Replayed
from bestarm.live.store.contract import Event
from bestarm.live.values import Assignment, Batch, Listed, Receipt, Status

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
