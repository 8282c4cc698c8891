"""Experiments whose outcomes people or programs tell: ask and tell."""

from bestarm.live.audit.verify import Audit
from bestarm.live.draws import draw, draw_block
from bestarm.live.experiment import Experiment
from bestarm.live.replay import Remark, ReplayResult
from bestarm.live.store.rows import Event
from bestarm.live.values import Assignment, Batch, Check, Checks, ExperimentListing, Receipt, Status

__all__ = [
    "Assignment",
    "Audit",
    "Batch",
    "Check",
    "Checks",
    "Event",
    "Experiment",
    "ExperimentListing",
    "Receipt",
    "Remark",
    "ReplayResult",
    "Status",
    "draw",
    "draw_block",
]
