"""How much evidence a page says is needed: the level at which the policy itself decides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bestarm import Experiment, Problem
from bestarm.live.watch.overview import overview


@pytest.mark.parametrize(
    ("options", "events"), [({}, 1), ({"top": 2}, 6), ({"tolerance": 0.05}, 4)]
)
def test_the_evidence_is_shown_in_parts_of_what_decides(
    sqlite_url: str, options: dict[str, Any], events: int
) -> None:
    """log(1/δ) for the best of 5; δ is shared by m(H − m) pairs for a set or with a tolerance."""
    rng, problem = np.random.default_rng(3), Problem(np.eye(5), delta=0.06)
    given = {"bounds": [0, 1], **options}
    with Experiment.create(sqlite_url, "offer", problem, options=given, seed=2) as experiment:
        batch = experiment.ask(300)
        chances = np.array([0.7, 0.6, 0.5, 0.4, 0.1])[batch.arms]
        experiment.tell_many(dict(zip(batch.ids, rng.binomial(1, chances).tolist(), strict=True)))
        values = experiment.inspect(lambda policy, _: policy.evidence())  # type: ignore[attr-defined]
        board = overview(experiment).leaderboard
    parts = np.clip(np.log(values) / math.log(events / 0.06), 0, 1)
    assert any(0.1 < part < 0.9 for part in parts)
    for option in board:
        if option.status != "out":
            assert option.evidence == pytest.approx(parts[option.target])
