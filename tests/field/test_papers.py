"""Figures of other people's papers: every one has its row, and quick ones are reproduced."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bestarm import simulate
from bestarm.datasets import jester
from bestarm.environments.two_point import TwoPoint
from bestarm.field import PAPERS
from bestarm.field.p1_rage_results import stored_results
from bestarm.tables import to_latex


@pytest.mark.parametrize("paper", ["track-and-stop", "lingame"])
def test_every_row_has_the_published_pulls(paper: str) -> None:
    for table in PAPERS[paper].tables((), jester()):
        assert table.rows
        for row in table.rows:
            printed = table.printed(row, "pulls")
            assert printed is not None
            assert printed.runs == (3000 if paper == "track-and-stop" else 100)
            assert table.printed(row, "error") is None


def test_the_scenarios_of_table_1_are_those_of_the_paper() -> None:
    """The legend of Garivier and Kaufmann's table, best arm first."""
    (table,) = PAPERS["track-and-stop"].tables((), jester())
    means = {}
    for row in table.rows:
        world = row.environment.instance(np.random.default_rng(0))
        assert isinstance(world, TwoPoint)
        means[world.name] = sorted(world.theta.tolist(), reverse=True)
    assert means == {
        "scenario 1": [0.5, 0.45, 0.43, 0.4],
        "scenario 2": [0.3, 0.21, 0.2, 0.19, 0.18],
    }
    assert table.delta == 0.1


def test_lingame_needs_the_published_pulls() -> None:
    """Both means of runs have an error; four of them are exceeded with probability 6e-5."""
    (table,) = PAPERS["lingame"].tables((), jester())
    for row in table.rows:
        results = simulate(row.method, row.environment, runs=30, seed=3, delta=table.delta)
        printed = table.printed(row, "pulls")
        assert printed is not None
        error = results.pulls.std() * math.sqrt(1 / 30 + 1 / printed.runs)
        assert abs(results.pulls.mean() - printed.value) < 4 * error
        assert results.correct.sum() >= 26  # 1 % may err: 5 of 30 with probability 1e-5


def test_every_row_has_its_stored_result() -> None:
    for table in PAPERS["p1-rage"].tables((), jester()):
        assert table.rows
        for row in table.rows:
            found = stored_results()[table.key, row.key]
            assert 0 <= found.errors <= found.runs
            # Copies of runs widen the difference to all runs: it is that of about 1,400 runs.
            spread = (found.plotted * (1 - found.plotted) / 1400) ** 0.5
            assert abs(found.errors / found.runs - found.plotted) <= 5 * spread + 5e-5


def test_the_authors_errors_are_reproduced() -> None:
    """Two rows of the quickest method: false alarms with probability 2e-4."""
    (table,) = PAPERS["p1-rage"].tables(["soare"], jester())
    for row in table.rows[:2]:
        errors = int((~simulate(row.method, row.environment, runs=500).correct).sum())
        theirs = stored_results()[table.key, row.key]
        counts = [[errors, 500 - errors], [theirs.errors, theirs.runs - theirs.errors]]
        assert stats.fisher_exact(np.array(counts)).pvalue > 1e-4


def test_their_own_words_have_names_in_latex() -> None:
    """No label, protocol or note of the tables loses a character."""
    for table in (table for paper in PAPERS.values() for table in paper.tables((), jester())):
        words = [table.title, table.protocol, *(f"{r.label} {r.protocol}" for r in table.rows)]
        assert "?" not in to_latex(" ".join(words))
