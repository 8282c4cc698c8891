"""The plan that is open is the one on record, whoever goes on with the experiment."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np

from bestarm import Experiment, Plan, Problem
from bestarm.errors import ReplayError
from bestarm.live.store.contract import Snapshot
from bestarm.policies import Policy


def both(policy: Policy, snapshot: Snapshot) -> tuple[Plan | None, Plan]:
    """The plan of the policy, and the one on record."""
    return policy.plan(), snapshot.plan(snapshot.head.phase).plan


def test_nobody_goes_on_under_another_plan_than_the_one_on_record(tmp_path: Path) -> None:
    """Arms are drawn with the weights on record, so bets with others would prove nothing.

    A policy that would plan otherwise takes the plan on record, or refuses to go on.
    """
    path = tmp_path / "store.db"
    url, problem = f"sqlite:///{path}", Problem([[0.0], [0.4], [1.0]])
    with Experiment.create(url, "offer", problem, options={"bounds": [0, 1]}, seed=1) as experiment:
        batch = experiment.ask(100)
        experiment.tell_many({number: 0.5 * number % 1 for number in batch.ids})
        planned, recorded = experiment.inspect(both)
    assert planned is not None
    assert planned.weights is not None
    assert recorded.phase == planned.phase == 2
    np.testing.assert_array_equal(planned.weights, recorded.weights)
    other = [0.2, 0.5, 0.3]
    assert not np.allclose(planned.weights, other)
    connection = sqlite3.connect(path)
    (text,) = connection.execute("SELECT plan FROM bestarm_plans WHERE phase = 2").fetchone()
    changed = json.dumps(json.loads(text) | {"weights": other})
    connection.execute("UPDATE bestarm_plans SET plan = ? WHERE phase = 2", (changed,))
    connection.commit()
    connection.close()
    with Experiment.open(url, "offer") as experiment:
        try:
            planned, _ = experiment.inspect(both)
        except ReplayError:
            return
    assert planned is not None
    assert planned.weights is not None
    assert planned.weights.tolist() == other
