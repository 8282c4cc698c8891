"""What a run that reached its cap counts as: in the runs of action elimination, as a failure."""

from __future__ import annotations

import numpy as np
from tiny_tables import data

from bestarm.replication import PAPERS
from bestarm.replication.cell import row_cells
from bestarm.simulation import Results


def test_a_capped_run_fails_where_the_paper_says_so_and_nowhere_else() -> None:
    """Ten runs that all name the best joke, three of them at the cap: 7 of 10, or 10 of 10."""
    (table,) = PAPERS["sp-bai"].tables(["jester"], data())
    runs = np.arange(10)
    results = Results(
        method="m",
        environment="e",
        seed=0,
        delta=0.1,
        requested=10,
        interrupted=False,
        index=runs,
        pulls=1000 + runs,
        correct=runs >= 0,
        final=runs >= 3,
        target=0 * runs,
        plans=runs + 1,
        rounds=runs + 1,
    )
    for row in table.rows:
        success = row_cells(table, row, results)[-1]
        assert success.metric == "success"
        assert success.value == (0.7 if row.key.startswith("ae-") else 1.0)
