"""The P1-RAGE paper's stored results, and the rows that run them again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bestarm import simulate
from bestarm.datasets import jester
from bestarm.errors import InvalidInputError
from bestarm.replication.p1_rage import stored
from bestarm.replication.papers import PAPERS

TABLES = PAPERS["p1-rage"].tables


def test_every_row_has_its_stored_result() -> None:
    for table in TABLES((), jester()):
        assert table.rows
        for row in table.rows:
            found = stored()[table.key, row.key]
            assert 0 <= found.errors <= found.runs
            # Copies of runs widen the difference to all runs: it is that of about 1,400 runs.
            spread = (found.plotted * (1 - found.plotted) / 1400) ** 0.5
            assert abs(found.errors / found.runs - found.plotted) <= 5 * spread + 5e-5
    assert [table.key for table in TABLES(["periods"], jester())] == ["periods"]
    with pytest.raises(InvalidInputError, match="soare"):
        TABLES(["sorae"], jester())


def test_the_authors_errors_are_reproduced() -> None:
    """Two rows of the quickest method: false alarms with probability 2e-4."""
    (table,) = TABLES(["soare"], jester())
    for row in table.rows[:2]:
        errors = int((~simulate(row.method, row.environment, runs=500).correct).sum())
        theirs = stored()[table.key, row.key]
        counts = [[errors, 500 - errors], [theirs.errors, theirs.runs - theirs.errors]]
        assert stats.fisher_exact(np.array(counts)).pvalue > 1e-4
