"""Processes that open a store of an older version, for the tests of migrations."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier

from workers_killed import die_at

from bestarm.live import Experiment

__all__ = ["opens_and_dies", "opens_with_others"]


def opens_with_others(url: str, name: str, start: Barrier) -> None:
    """Open an experiment at the same time as others do."""
    start.wait(60)
    with Experiment.open(url, name) as experiment:
        assert experiment.verify().sound


def opens_and_dies(url: str, name: str, instant: int) -> None:
    """Open an experiment, and be killed before the n-th statement unless it takes fewer."""
    die_at(instant)
    Experiment.open(url, name).close()
