"""Would ratings that are less spread out give the paper's rows of LUCB and AE on Jester?

    python -m benchmarks.jester_spread FILE [--runs N] [--spread 1 0.92]

The rows are run with the ratings as they are, and drawn nearer to each joke's mean.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from scipy.stats import chi2

from bestarm import simulate
from bestarm.datasets import RatingsData, jester
from bestarm.studies import SP_BAI, Cell, PublishedTable, Row
from bestarm.studies.published import RUNS
from bestarm.studies.verdicts import row_cells


def _pulls(mean: float, spread: float, runs: int) -> str:
    return f"{mean:,.0f} ± {spread / math.sqrt(runs):,.0f}"


def _compare(runs: int, seed: int, data: RatingsData, spreads: Sequence[float]) -> None:
    print(f"\n{data.source}\nz is of the tests of `bestarm reproduce`, and at most 3.9 for pulls.")
    print("The published rows are independent: each has a seed of its own.")
    means = np.average(data.ratings, axis=0, weights=data.weights)
    for spread in spreads:
        nearer = np.ascontiguousarray(means + spread * (data.ratings - means))
        (table,) = SP_BAI.tables(["jester"], replace(data, ratings=nearer))
        for method in ("lucb", "ae"):
            print(f"\n**{data.name}, spread × {spread:g}: {runs} runs of each row**\n")
            print("| row | pulls | published | z | success | published | z |\n" + "|---:" * 7 + "|")
            rows = [row for row in table.rows if row.key.startswith(f"{method}-")]
            cells = [_jester_row(table, row, runs, seed) for row in rows]
            print()
            for column in zip(*cells, strict=True):
                total = sum(_z(part) ** 2 for part in column)
                p = float(chi2.sf(total, len(rows)))
                print(f"χ² of {column[0].metric}, {len(rows)} rows: {total:.1f} (p = {p:.2g})")
            if method == "ae":
                _common_factor([pulls for pulls, _ in cells[2:]])


def _jester_row(table: PublishedTable, row: Row, runs: int, seed: int) -> tuple[Cell, Cell]:
    results = simulate(row.method, row.environment, runs=runs, seed=seed, delta=table.delta)
    pulls, success = row_cells(table, row, results)
    assert pulls.printed is not None and success.printed is not None  # noqa: PT018
    print(
        f"| {row.label} | {_pulls(results.mean_pulls, results.std_pulls, runs)} | "
        f"{pulls.printed.value:,.0f} | {_z(pulls):+.1f} | "
        f"{success.value:.3f} | {success.printed.value:.2f} | {_z(success):+.1f} |",
        flush=True,
    )
    return pulls, success


def _z(part: Cell) -> float:
    """The published figure less ours, as the normal deviate of the test's p-value."""
    assert part.printed is not None and part.p_value is not None  # noqa: PT018
    size = -NormalDist().inv_cdf(part.p_value / 2)
    return math.copysign(size, part.printed.value - part.value)


def _common_factor(cells: Sequence[Cell]) -> None:
    """Whether one factor on all our means would do, with normal errors: not for heavy tails."""
    ours = np.array([part.value for part in cells])
    printed = np.array([part.printed.value for part in cells if part.printed is not None])
    spread = np.array([part.spread for part in cells if part.spread is not None])
    weight = 1 / (spread**2 * (1 / RUNS + 1 / cells[0].runs))
    factor = float((weight * ours) @ printed / ((weight * ours) @ ours))
    rest = float(weight @ (printed - factor * ours) ** 2)
    p = float(chi2.sf(rest, len(cells) - 1))
    print(f"σ ≥ 2, our pulls times the best factor {factor:.3f}: χ² {rest:.1f} (p = {p:.2g})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="Jester's ratings")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spread", type=float, nargs="+", default=[1.0, 0.92])
    options = parser.parse_args()
    if options.runs < RUNS:
        parser.error(f"--runs must be at least {RUNS}: fewer are no match for the paper's")
    _compare(options.runs, options.seed, jester(options.data), options.spread)


if __name__ == "__main__":
    main()
