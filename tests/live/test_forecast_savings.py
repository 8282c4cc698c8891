"""What forecasts save, as status, health and page say it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from foreseen import PROBLEM, Create, answer, in_memory, rows_of

from bestarm import Experiment
from bestarm.live.watch.overview import overview
from bestarm.policies import AnytimeBAI


@pytest.fixture
def create(tmp_path: Path) -> Create:
    return Create(tmp_path)


def test_status_and_health_say_what_forecasts_save(create: Create) -> None:
    experiment = create()
    assert experiment.status().variance_left is None
    answer(experiment, 300)
    status = experiment.status()
    assert status.variance_left is not None
    assert status.variance_left < 0.6
    assert f"forecasts take {1 - status.variance_left:.0%}".removesuffix("%") in str(status)
    check = experiment.health()[-1]
    assert (check.name, check.level) == ("forecasts", "ok")
    shown = overview(experiment)
    assert shown.savings in check.finding[:1].lower() + check.finding[1:]
    # What the page shows of outcomes is what was told, not what is left of it.
    rows = rows_of(experiment)[: shown.used]
    for option in shown.leaderboard:
        told = rows[rows["arm"] == option.arm]["outcome"]
        assert option.raw_mean == pytest.approx(told.mean())


def test_the_share_of_variance_left_is_what_rows_add_up_to() -> None:
    experiment, rng = in_memory("own"), np.random.default_rng(0)
    while experiment.status().pulls < 300:
        level = rng.normal(size=10)
        batch = experiment.ask(10, forecasts=level * 0.5)
        experiment.tell_many(zip(batch.ids, (level + rng.normal(size=10)).tolist(), strict=True))
    with experiment.read() as snapshot:
        ends = [record.end for record in snapshot.summaries()]
    rows = rows_of(experiment)[: ends[-1]]
    part = pd.cut(rows["id"], [-1, *(end - 1 for end in ends)])
    groups = [part, rows["arm"]]
    told = rows["outcome"]
    left = told - rows["forecast"]
    sums = [
        ((x - x.groupby(groups, observed=True).transform("mean")) ** 2).sum() for x in (left, told)
    ]
    assert experiment.status().variance_left == pytest.approx(sums[0] / sums[1])


def test_health_warns_when_forecasts_do_harm() -> None:
    experiment, rng = in_memory("own"), np.random.default_rng(0)
    while experiment.status().pulls < 400:
        batch = experiment.ask(10, forecasts=5 * rng.normal(size=10))
        experiment.tell_many(zip(batch.ids, rng.normal(size=10).tolist(), strict=True))
    check = experiment.health()[-1]
    assert (check.name, check.level) == ("forecasts", "warning")
    assert "forecasts add" in check.finding.lower()
    assert "stay valid" in check.action
    assert "forecasts add" in str(experiment.status())


def test_without_a_forecaster_nothing_is_said_of_forecasts() -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(-10, 10)), seed=0)
    for _ in range(40):
        experiment.tell(experiment.ask()[0], 0.5)
    assert experiment.status().variance_left is None
    assert "forecasts" not in {check.name for check in experiment.health()}
