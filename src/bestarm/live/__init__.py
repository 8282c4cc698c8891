"""Experiments whose outcomes people or programs tell: ask and tell."""

from bestarm.live.audit.verify import Audit
from bestarm.live.draws import draw, draw_block
from bestarm.live.experiment import Experiment
from bestarm.live.replay import Remark, Replayed
from bestarm.live.store.contract import Event
from bestarm.live.values import Assignment, Batch, Check, Listed, Receipt, Status

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
    "draw_block",
]
