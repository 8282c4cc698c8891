"""What is due in a trial although nobody asks or tells at the moment."""

from __future__ import annotations

from dataclasses import replace

from bestarm.live.experiment import Experiment

__all__ = ["keep_up"]


def keep_up(experiment: Experiment) -> bool:
    """Give up what is overdue, and say whether something was."""
    with experiment._ledger.reading() as books:
        head, now = replace(books.head), experiment._now(books)
    if head.over or head.lease is None or head.oldest + head.lease > now:
        return False
    experiment.expire()
    return experiment._head().lost > head.lost
