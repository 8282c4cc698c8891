"""Processes that make the tables of a new store, for the tests of migrations."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier

import numpy as np
from workers_killed import die_at

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.store.sql import Store

__all__ = ["creates_with_others", "prepares_and_dies"]


def creates_with_others(url: str, name: str, start: Barrier) -> None:
    """Create an experiment at the same time as others do."""
    start.wait(60)
    with Experiment.create(url, name, Problem(np.eye(3)), seed=0) as experiment:
        assert experiment.verify().sound


def prepares_and_dies(url: str, instant: int) -> None:
    """Make the tables, and be killed before the n-th statement unless it takes fewer."""
    die_at(instant)
    store = Store(url)
    store.prepare()
    store.close()
