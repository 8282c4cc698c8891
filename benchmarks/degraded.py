"""Would worse designs, or ratings less spread out, give the published figures that ours do not?

    python -m benchmarks.degraded [--only uniform|jester|small-gap] [--runs N] [--data FILE] [--ae]

Uniform, on the published instances, one run in each: the designs as they are, and spoiled on
purpose. A spoiled design is Frank–Wolfe from uniform weights, stopped early, which sees only the
diagonal of the inverse matrix; a collapsed XOR has its half on the anchor and one arm more.

Jester: the rows of LUCB (and of AE with `--ae`) with the ratings as they are, and drawn nearer to
each joke's mean. Without `--data` the users are made up.

Small gap: V of SP-BAI's first phase, with XOR as it is and collapsed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from unittest.mock import patch

import numpy as np
from scipy.stats import chi2

from bestarm import simulate
from bestarm.datasets import RatingsData, jester
from bestarm.design import Design
from bestarm.environments import small_gap
from bestarm.numerics.geometry import Array, centered_diameter
from bestarm.policies import SPBAI, one_shot, rage, sbe, spbai
from bestarm.simulation import Results
from bestarm.studies import SP_BAI, Cell, PublishedTable, Row
from bestarm.studies.published import RUNS
from bestarm.studies.verdicts import row_cells

Makers = dict[str, Callable[..., Design]]

RIDGE = 1e-8  # with few arms active, spoiled designs invert a singular matrix


# --- designs spoiled on purpose --------------------------------------------------------------


def _diagonal_frank_wolfe(source: Array, contrasts: Array | None, steps: int) -> Design:
    """Frank–Wolfe with step sizes 2/3, 1/2, 2/5, …, blind to all but the diagonal of M(p)⁻¹.

    Without contrasts it goes to the arm it takes for the least known (G), with them to the arm it
    takes for the most telling about the worst one (XY). The value is what it believes.
    """
    weights = np.full(len(source), 1 / len(source))
    judged = source if contrasts is None else contrasts
    for step in range(steps):
        diagonal = _inverse_diagonal(source, weights)
        arm = int(np.argmax(judged**2 @ diagonal))
        if contrasts is not None:
            arm = int(np.argmax((source @ (diagonal * contrasts[arm])) ** 2))
        size = 2 / (step + 3)
        weights *= 1 - size
        weights[arm] += size
    return _uncertified(weights, float(np.max(judged**2 @ _inverse_diagonal(source, weights))))


def _inverse_diagonal(source: Array, weights: Array) -> Array:
    moment = source.T @ (weights[:, None] * source) + RIDGE * np.eye(source.shape[1])
    return np.diag(np.linalg.inv(moment))


def _uncertified(weights: Array, value: float = math.nan) -> Design:
    """Rounded, because a last bit of a weight can change what is drawn."""
    kept = (weights / weights.sum()).round(12)
    return Design(kept / kept.sum(), value, lower_bound=0.0, gap=math.inf, iterations=0)


def _differences(target: Array) -> Array:
    first, second = np.triu_indices(len(target), 1)
    return np.asarray(target[first] - target[second])


def spoiled_deo(source: Array, *, steps: int, anchor: int = 0, **_: float) -> Design:
    others = np.delete(source - source[anchor], anchor, axis=0)
    found = _diagonal_frank_wolfe(others, None, steps)
    return _uncertified(np.insert(found.weights / 2, anchor, 0.5), found.value)


def spoiled_linear_xy(source: Array, target: Array, *, steps: int, **_: float) -> Design:
    return _diagonal_frank_wolfe(source, _differences(target), steps)


def collapsed_xor(
    source: Array, target: Array, *, anchor: int, arms: int = 1, **_: float
) -> Design:
    """Half on the anchor, half on the arms that the first step from uniform weights favours."""
    shifted = source - source[anchor]
    inverse = np.linalg.pinv(shifted.T @ shifted / len(shifted))
    contrasts = _differences(target)
    values = np.einsum("ij,jk,ik->i", contrasts, inverse, contrasts).round(9)  # ties stay ties
    gain = ((shifted @ inverse @ contrasts[np.argmax(values)]) ** 2).round(9)
    gain[anchor] = -1.0
    chosen = np.argsort(-gain, kind="stable")[: min(arms, len(source) - 1)]
    weights = np.zeros(len(source))
    weights[anchor], weights[chosen] = 0.5, 0.5 / len(chosen)
    return _uncertified(weights)


@contextmanager
def policies_with(makers: Makers) -> Iterator[None]:
    """Policies take these designs, and remember none from before, nor any of these afterwards."""
    places = {"deo": (one_shot, sbe, spbai), "xor": (spbai,), "linear_xy": (rage,)}
    with ExitStack() as stack:
        for name, maker in makers.items():
            for module in places[name]:
                stack.enter_context(patch.object(module, name, maker))
        for module in (one_shot, rage, sbe, spbai):
            for function in filter(lambda f: hasattr(f, "cache_clear"), vars(module).values()):
                function.cache_clear()
                stack.callback(function.cache_clear)
        yield


# --- uniform ---------------------------------------------------------------------------------

STEPS = (5, 6, 7)
OPTIMAL: dict[str, Makers] = {"optimal": {}}
COLLAPSED: Makers = {"xor": collapsed_xor}
COLLAPSES: dict[str, Makers] = {
    "collapsed on one arm": COLLAPSED,
    "collapsed on two arms": {"xor": partial(collapsed_xor, arms=2)},
}
DEOS: dict[str, Makers] = {f"DEO, {n} steps": {"deo": partial(spoiled_deo, steps=n)} for n in STEPS}
SPOILED: dict[str, dict[str, Makers]] = {
    "g-opt": DEOS,
    "sbe": DEOS,
    "sp-bai": DEOS
    | {"XOR collapsed": COLLAPSED}
    | {f"{name}, and XOR collapsed": makers | COLLAPSED for name, makers in DEOS.items()},
    "rage-1": {
        f"XY, {n} steps": {"linear_xy": partial(spoiled_linear_xy, steps=n)} for n in (*STEPS, 30)
    },
}


def _uniform(runs: int, seed: int, data: RatingsData) -> None:
    (table,) = SP_BAI.tables(["uniform"], data)
    print(f"\n**Uniform arms, the published instances: {runs} runs, ± one standard error**\n")
    print("| row | designs | pulls | error |\n|---|---|---:|---:|")
    for key, spoiled in SPOILED.items():
        row = _print_published(table, key)
        for name, makers in (OPTIMAL | spoiled).items():
            with policies_with(makers):
                results = simulate(row.method, row.environment, runs=runs, seed=seed, delta=0.1)
            _print(row, name, results)


def _print_published(table: PublishedTable, key: str) -> Row:
    (row,) = (row for row in table.rows if row.key == key)
    pulls, error = table.printed(row, "pulls"), table.printed(row, "error")
    assert pulls is not None and pulls.spread is not None and error is not None  # noqa: PT018
    shown = _pulls(pulls.value, pulls.spread, RUNS)
    print(f"| {row.label} | *published* | {shown} | {error.value:.2f} |")
    return row


def _print(row: Row, name: str, results: Results) -> None:
    shown = _pulls(results.mean_pulls, results.std_pulls, results.runs)
    print(f"| {row.label} | {name} | {shown} | {results.error_rate:.3f} |", flush=True)


def _pulls(mean: float, spread: float, runs: int) -> str:
    return f"{mean:,.0f} ± {spread / math.sqrt(runs):,.0f}"


# --- Jester ----------------------------------------------------------------------------------


def _jester(runs: int, seed: int, data: RatingsData, spreads: Sequence[float], ae: bool) -> None:
    print(f"\n{data.source}\nz is of the tests of `bestarm reproduce`, and at most 3.9 for pulls.")
    print("χ² assumes that the published rows are independent, which is not known.")
    means = np.average(data.ratings, axis=0, weights=data.weights)
    for spread in spreads:
        nearer = np.ascontiguousarray(means + spread * (data.ratings - means))
        (table,) = SP_BAI.tables(["jester"], replace(data, ratings=nearer))
        for method in ("lucb", "ae") if ae else ("lucb",):
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


# --- small gap -------------------------------------------------------------------------------


def _small_gap(runs: int, seed: int, data: RatingsData) -> None:
    (table,) = SP_BAI.tables(["small-gap"], data)
    print(f"\n**Small gap: {runs} runs, ± one standard error; V is phase 1's, over all anchors**\n")
    print("| row | XOR | pulls | error |\n|---|---|---:|---:|")
    row, problem = _print_published(table, "sp-bai"), small_gap(declared_baseline=1.0).problem(0.1)
    for name, makers in (OPTIMAL | COLLAPSES).items():
        with policies_with(makers):
            plans = [SPBAI(problem, preset="replication", seed=n).plan() for n in range(64)]
            designs = [plan.weights for plan in plans if plan and plan.weights is not None]
            values = [centered_diameter(problem.source, p, problem.target) for p in designs]
            results = simulate(row.method, row.environment, runs=runs, seed=seed, delta=0.1)
        _print(row, f"{name}: V = {min(values):.2f} to {max(values):.2f}", results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=("small-gap", "uniform", "jester"))
    parser.add_argument("--runs", type=int, help="of each row; else 300, 100 and 1000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="Jester's ratings; made-up ones by default")
    parser.add_argument("--spread", type=float, nargs="+", default=[1.0, 0.92])
    parser.add_argument("--ae", action="store_true", help="the rows of AE too")
    options = parser.parse_args()
    if options.runs is not None and options.runs < RUNS:
        parser.error(f"--runs must be at least {RUNS}: fewer are no match for the paper's")
    data = jester(options.data)
    if options.only in (None, "small-gap"):
        _small_gap(options.runs or 300, options.seed, data)
    if options.only in (None, "uniform"):
        _uniform(options.runs or RUNS, options.seed, data)
    if options.only in (None, "jester"):
        _jester(options.runs or 1000, options.seed, data, options.spread, options.ae)


if __name__ == "__main__":
    main()
