"""Published figures in which nothing is random."""

from __future__ import annotations

import math

import pytest

from bestarm import bounds
from bestarm.datasets import jester
from bestarm.environments import small_gap
from bestarm.policies import RAGE
from bestarm.replication import PAPERS
from bestarm.replication.tables import published
from bestarm.simulation import simulate


def rage_length(value: float, sigma: float) -> int:
    delta = bounds.rage_delta(0.1, targets=11, phase=1)
    return bounds.rage_phase_length(
        value, phase=1, delta=delta, sigma=sigma, slack=0.2, least=math.ceil((55 + 1) / 0.2)
    )


@pytest.mark.parametrize("sigma", [1, 2, 3, 4])
def test_rage_is_as_long_as_published_but_for_the_value_of_its_design(sigma: int) -> None:
    printed = published()["small-gap", f"rage-{sigma}", "pulls"].value
    assert rage_length(20.3718, sigma) == printed
    plan = RAGE(small_gap(noise=float(sigma)).problem(0.1), sigma=float(sigma)).plan()
    assert plan is not None
    assert plan.pulls == pytest.approx(rage_length(20.0, sigma), rel=1e-3)
    assert 1.015 < printed / plan.pulls < 1.02


def test_g_opt_pulls_what_is_published() -> None:
    tables = {
        table.key: table for table in PAPERS["sp-bai"].tables(("small-gap", "uniform"), jester())
    }
    for table, runs in (("small-gap", 2), ("uniform", 100)):
        [row] = [row for row in tables[table].rows if row.key == "g-opt"]
        printed = tables[table].printed(row, "pulls")
        assert printed is not None
        results = simulate(row.method, row.environment, runs=runs, delta=tables[table].delta)
        assert results.mean_pulls == pytest.approx(printed.value, abs=0.005)
        assert results.std_pulls == pytest.approx(printed.spread, abs=0.005)
