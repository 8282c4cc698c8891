"""Published figures: every one has its row, and rows reproduce what is exact in them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tiny_studies import published, results_of

from bestarm import bounds, simulate
from bestarm.datasets import jester
from bestarm.environments import small_gap
from bestarm.errors import InvalidInputError
from bestarm.policies import RAGE
from bestarm.simulation import Results, RunJournal
from bestarm.studies import SP_BAI, PublishedTable, Row
from bestarm.studies.published import Metric
from bestarm.studies.sp_bai import printed_figures
from bestarm.studies.verdicts import _verdict, row_cells


def rage_length(value: float, sigma: float) -> int:
    delta = bounds.rage_delta(0.1, targets=11, phase=1)
    return bounds.rage_phase_length(
        value, phase=1, delta=delta, sigma=sigma, slack=0.2, least=math.ceil((55 + 1) / 0.2)
    )


@pytest.mark.parametrize("sigma", [1, 2, 3, 4])
def test_rage_is_as_long_as_published_but_for_the_value_of_its_design(sigma: int) -> None:
    printed = printed_figures("small-gap")[f"rage-{sigma}", "pulls"].value
    assert rage_length(20.3718, sigma) == printed
    plan = RAGE(small_gap(noise=float(sigma)).problem(0.1), sigma=float(sigma)).plan()
    assert plan is not None
    assert plan.pulls == pytest.approx(rage_length(20.0, sigma), rel=1e-3)
    assert 1.015 < printed / plan.pulls < 1.02


@pytest.fixture(scope="module")
def fixed_instances() -> tuple[PublishedTable, Row, Results]:
    """A row of the paper's table on given instances, with 230 runs."""
    table = published("uniform")
    [row] = [row for row in table.rows if row.key == "g-opt"]
    return table, row, simulate(row.method, row.environment, runs=230, delta=table.delta)


def first(runs: int, of: tuple[PublishedTable, Row, Results]) -> Results:
    """The first runs, none of which is made again."""
    table, row, most = of
    known = RunJournal(known=most.outcomes()[:runs])
    return simulate(row.method, row.environment, runs=runs, delta=table.delta, journal=known)


def test_g_opt_pulls_what_is_published(
    fixed_instances: tuple[PublishedTable, Row, Results],
) -> None:
    small = published("small-gap")
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
    runs: int, fixed_instances: tuple[PublishedTable, Row, Results]
) -> None:
    table, row, _ = fixed_instances
    pulls, _ = row_cells(table, row, first(runs, fixed_instances))
    assert pulls.value == pytest.approx(323_509.88, abs=0.005)
    assert pulls.p_value is not None
    assert _verdict(pulls, pulls.p_value) == "consistent"
    assert (pulls.high - pulls.low < 1) == (runs >= 200)


def test_a_capped_run_fails_where_the_paper_says_so_and_nowhere_else() -> None:
    """Ten runs that all name the best joke, three of them at the cap: 7 of 10, or 10 of 10."""
    table = published("jester")
    results = results_of(np.arange(1000, 1010), final=np.arange(10) >= 3)
    for row in table.rows:
        success = row_cells(table, row, results)[-1]
        assert success.metric == "success"
        assert success.value == (0.7 if row.key.startswith("ae-") else 1.0)


def metrics(table: PublishedTable) -> tuple[Metric, ...]:
    return ("pulls", table.rate) if table.counts_pulls else (table.rate,)


def test_every_published_figure_has_a_row_and_every_row_of_the_paper_a_figure() -> None:
    tables = {table.key: table for table in SP_BAI.tables((), jester())}
    assert tuple(tables) == tuple(SP_BAI.builders)
    ours = {
        (table.key, row.key, metric)
        for table in tables.values()
        for row in table.rows
        for metric in metrics(table)
        if not row.ours and table.key != "uniform-fresh"
    }
    printed = {
        (table, row, metric)
        for table in tables
        if table != "uniform-fresh"
        for row, metric in printed_figures(table)
    }
    assert ours == printed
    for table in tables.values():
        for row in table.rows:
            for metric in metrics(table):
                assert (table.printed(row, metric) is None) == row.ours
        assert any(row.ours for row in table.rows)


def test_an_unknown_table_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match="'small-gap', 'uniform'") as caught:
        SP_BAI.tables(["small"], jester())
    assert caught.value.value == "small"
    assert [t.key for t in SP_BAI.tables(["jester", "small-gap"], jester())] == [
        "small-gap",
        "jester",
    ]
