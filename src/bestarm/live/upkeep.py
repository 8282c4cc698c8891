"""What is due in a trial although nobody asks or tells at the moment."""

from __future__ import annotations

from bestarm.live.experiment import Experiment

__all__ = ["keep_up"]


def keep_up(experiment: Experiment) -> bool:
    """Give up what is overdue, and say whether something was."""
    head = experiment._head()
    if head.over or head.lease is None or head.oldest + head.lease > experiment._clock():
        return False
    experiment.expire()
    return experiment._head().lost > head.lost
