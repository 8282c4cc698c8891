"""The paper's choice of a baseline's scale: the fewest pulls at an error below 10 %.

On Jester it runs LUCB and AE at seven σ, and sets SP-BAI beside the σ that took the fewest pulls
among those that erred in less than 10 % of 100 runs. Such a choice is itself random. Here our runs
are drawn with replacement, 100 of each row at a time, and the choice is made as in the paper.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.studies.published import RUNS, PublishedTable
from bestarm.studies.study import Row, StudyResults
from bestarm.studies.verdicts import Cell

_EXPERIMENTS = 4000


@dataclass(frozen=True)
class Choice:
    """What the rule picks from one method's rows, in so many experiments of 100 runs.

    Attributes:
        table: the table's key.
        method: the method that it picks from.
        published: the label of the row that the paper picked.
        shares: how often each row is picked, the most frequent first; "none" where every row erred
            too often.
        fewer: how often the reference takes fewer pulls than the pick, if there is one.
        qualified: how often the reference errs in less than 10 % of the 100 runs itself.
    """

    table: str
    method: str
    published: str
    shares: tuple[tuple[str, float], ...]
    fewer: float
    qualified: float


def choices(results: StudyResults[Cell], table: PublishedTable, *, seed: int = 0) -> list[Choice]:
    """The paper's rule on each method of a table that it is applied to, beside SP-BAI."""
    rng, rows = np.random.default_rng(seed), {row.key: row for row in table.rows}
    found = []
    for method in table.chosen_by_error:
        family = [row for key, row in rows.items() if key.startswith(f"{method}-")]
        if "sp-bai" not in rows or not family or results.runs < RUNS:
            continue
        pulls, errors = _experiments(results, table, rows["sp-bai"], rng)
        each = [_experiments(results, table, row, rng) for row in family]
        # A row that errs too often is never the one with the fewest pulls.
        usable = np.array([np.where(error < 0.1, mean, np.inf) for mean, error in each])
        best, picked = usable.min(axis=0), usable.argmin(axis=0)
        labels = [
            family[place].label if value < np.inf else "none"
            for place, value in zip(picked.tolist(), best.tolist(), strict=True)
        ]
        shares = tuple((name, n / len(labels)) for name, n in Counter(labels).most_common())
        found.append(
            Choice(
                table.key,
                method,
                _published_pick(table, family),
                shares,
                float((pulls < best).mean()),
                float((errors < 0.1).mean()),
            )
        )
    return found


def _experiments(
    results: StudyResults[Cell], table: PublishedTable, row: Row, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Mean pulls and error of experiments of 100 runs each."""
    runs = results.of(table, row)
    drawn = rng.integers(runs.runs, size=(_EXPERIMENTS, RUNS))
    wrong = ~row.succeeded(runs)
    return np.asarray(runs.pulls, dtype=float)[drawn].mean(axis=1), wrong[drawn].mean(axis=1)


def _published_pick(table: PublishedTable, family: list[Row]) -> str:
    printed = [(table.printed(row, "pulls"), table.printed(row, table.rate)) for row in family]
    usable = [
        (pulls.value, row.label)
        for row, (pulls, rate) in zip(family, printed, strict=True)
        if pulls is not None and rate is not None and rate.value > 0.9
    ]
    return min(usable)[1]
