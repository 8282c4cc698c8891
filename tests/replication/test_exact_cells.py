"""Published figures in which nothing is random."""

from __future__ import annotations

import math

import pytest

from bestarm import bounds
from bestarm.datasets import jester
from bestarm.environments import small_gap
from bestarm.policies import RAGE
from bestarm.replication import PAPERS, Row, Table
from bestarm.replication.cell import _verdict, row_cells
from bestarm.replication.tables import published
from bestarm.simulation import Results, RunJournal, simulate


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


@pytest.fixture(scope="module")
def fixed_instances() -> tuple[Table, Row, Results]:
    """A row of the paper's table on given instances, with 230 runs."""
    [table] = PAPERS["sp-bai"].tables(["uniform"], jester())
    [row] = [row for row in table.rows if row.key == "g-opt"]
    return table, row, simulate(row.method, row.environment, runs=230, delta=table.delta)


def first(runs: int, of: tuple[Table, Row, Results]) -> Results:
    """The first runs, none of which is made again."""
    table, row, most = of
    known = RunJournal(known=most.outcomes()[:runs])
    return simulate(row.method, row.environment, runs=runs, delta=table.delta, journal=known)


def test_g_opt_pulls_what_is_published(fixed_instances: tuple[Table, Row, Results]) -> None:
    [small] = PAPERS["sp-bai"].tables(["small-gap"], jester())
    [row] = [row for row in small.rows if row.key == "g-opt"]
    results = simulate(row.method, row.environment, runs=2, delta=small.delta)
    for table, shown, found in (
        (small, row, results),
        (*fixed_instances[:2], first(100, fixed_instances)),
    ):
        printed = table.printed(shown, "pulls")
        assert printed is not None
        assert found.mean_pulls == pytest.approx(printed.value, abs=0.005)
        assert found.std_pulls == pytest.approx(printed.spread, abs=0.005)


@pytest.mark.parametrize("runs", [100, 150, 200, 230])
def test_fixed_instances_count_the_same_whatever_the_number_of_runs(
    runs: int, fixed_instances: tuple[Table, Row, Results]
) -> None:
    table, row, _ = fixed_instances
    pulls, _ = row_cells(table, row, first(runs, fixed_instances))
    assert pulls.value == pytest.approx(323_509.88, abs=0.005)
    assert pulls.p_value is not None
    assert _verdict(pulls, pulls.p_value) == "consistent"
    assert (pulls.high - pulls.low < 1) == (runs >= 200)
