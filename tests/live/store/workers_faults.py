"""Processes that share an experiment, for the tests of faults."""

from __future__ import annotations

import atexit
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np

from bestarm import Problem
from bestarm.errors import ExperimentExistsError
from bestarm.live import Experiment

__all__ = ["begin", "forks", "forks_one_that_ends", "together"]


def begin(url: str, name: str = "offer") -> Experiment:
    """An experiment that never ends by itself: one plan of very many pulls."""
    problem = Problem(np.eye(3), delta=0.01)
    return Experiment.create(url, name, problem, policy="sp-bai", options={"r1": 1e6}, seed=0)


def together(url: str, folder: Path, number: int, start: Barrier, rounds: int) -> None:
    """Begin an experiment with others at once, or open it; ask, tell, and note the ids."""
    start.wait(60)
    try:
        experiment = begin(url)
    except ExperimentExistsError:
        experiment = Experiment.open(url, "offer")
    got: list[int] = []
    for turn in range(rounds):
        batch = experiment.ask(1 + (number + turn) % 3)
        experiment.tell_many([(each, float(each)) for each in batch.ids])
        got += batch.ids
    (folder / f"ids {number}").write_text(" ".join(map(str, got)))


def forks(url: str, folder: Path) -> None:
    """Use an experiment, fork, and go on with it on both sides."""
    experiment = begin(url)
    experiment.tell_many([(each, float(each)) for each in experiment.ask(3).ids])
    child = os.fork()
    got: list[int] = []
    try:
        for _ in range(30):
            batch = experiment.ask(2)
            experiment.tell_many([(each, float(each)) for each in batch.ids])
            got += batch.ids
        if child:
            assert os.waitpid(child, 0)[1] == 0
            batch = experiment.ask(1)
            experiment.tell(batch.ids[0], 1.0)
            assert experiment.verify().sound
        (folder / f"ids {'parent' if child else 'child'}").write_text(" ".join(map(str, got)))
    except BaseException:
        if not child:
            os._exit(1)
        raise
    if not child:
        os._exit(0)


def forks_one_that_ends(url: str) -> None:
    """Use an experiment, fork a process that ends as programs do, and go on."""
    experiment = begin(url)
    experiment.tell(experiment.ask(3).ids[0], 1.0)
    child = os.fork()
    if not child:
        atexit._run_exitfuncs()
        os._exit(0)
    os.waitpid(child, 0)
    assert experiment.tell(1, 1.0).recorded
