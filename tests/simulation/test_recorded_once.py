"""What a simulation records: each run once, also when it is interrupted just then."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from simulation_policies import ArmMeans

from bestarm import simulate
from bestarm.environments import Semiparametric
from bestarm.simulation.results import Outcome, RunJournal

WORLD = Semiparametric(np.eye(2), [1.0, 0.0])


def test_a_run_recorded_before_ctrl_c_is_not_recorded_again() -> None:
    """Ctrl-C comes after a piece's runs were recorded and before the piece is put away."""
    recorded: list[int] = []
    calls: list[int] = []

    def record(outcomes: object) -> None:
        assert isinstance(outcomes, list)
        recorded.extend(outcome.run for outcome in outcomes if isinstance(outcome, Outcome))

    def interrupt(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool:
        results = simulate(
            ArmMeans,
            WORLD,
            runs=3,
            executor=pool,
            progress=interrupt,
            journal=RunJournal(record=record),
        )
    assert results.interrupted
    assert recorded
    assert sorted(recorded) == sorted(set(recorded)) == results.index.tolist()
