"""Certified designs: beside a conic solver, beside a plain loop, and how their cost grows.
Last, what it costs to check a problem with as many features as arms.

    python -m benchmarks.designs            # about two minutes
    python -m benchmarks.designs --quick    # seconds

Both sides of every row solve the same random `centered_xy` problem in one run on one core. The
conic solver is cvxpy with Clarabel, in its quick form (rotated second-order cones) and in the form
one writes first (`matrix_frac`, one for each contrast); building the program in Python is timed
apart from solving it. The plain loop is the multiplicative rule p_i ← p_i √w_i with exponential
weights on the contrasts, in NumPy, run for the wall time the library took.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from bestarm import Problem
from bestarm.design import centered_xy
from bestarm.numerics import geometry
from bestarm.numerics.geometry import Array, centered_diameter, farthest

TOL = 1e-3
ONE_HOT = (500, 1000, 2000)
CONIC = (30, 30, 5)
LARGE = (
    (100, 100, 10), (1000, 1000, 20), (10_000, 1000, 50), (1000, 10_000, 20), (100_000, 1000, 20)
)  # fmt: skip
# One size grows at a time; the others stay as in the middle.
GROWTH = {
    "K": [(k, 400, 10) for k in (500, 1000, 2000, 4000, 8000)],
    "H": [(400, h, 10) for h in (500, 1000, 2000, 4000, 8000)],
    "d": [(1000, 400, d) for d in (5, 10, 20, 40)],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only, under 20 seconds")
    parser.add_argument("--size", type=int, nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with threadpool_limits(1):  # every side has one core
        if arguments.size:
            print(json.dumps(_measure(*arguments.size)))
        else:
            _tables(quick=arguments.quick)


def _tables(*, quick: bool) -> None:
    # First: a child's peak memory counts what its parent held when it forked, cvxpy included.
    _large_table(LARGE[:1] if quick else LARGE)
    _conic_table((12, 12, 3) if quick else CONIC, repeats=3)
    _growth_table({name: sizes[:3] for name, sizes in GROWTH.items()} if quick else GROWTH)
    _problem_table(ONE_HOT[:1] if quick else ONE_HOT)


def points(arms: int, targets: int, dimension: int, seed: int = 0) -> tuple[Array, Array]:
    """Source and targets, uniformly on the sphere."""
    rng = np.random.default_rng([arms, targets, dimension, seed])
    tables = [rng.normal(size=(count, dimension)) for count in (arms, targets)]
    source, target = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in tables)
    return source, target


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(title: str, *cells: str) -> None:
    print(f"\n### {title}\n")
    row(*cells)
    row(*["---"] * len(cells))


def seconds(value: float) -> str:
    return f"{1e3 * value:,.1f} ms" if value < 1 else f"{value:,.1f} s"


def _best_of(repeats: int, call: Callable[[], object]) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


# --- beside a conic solver -----------------------------------------------------------------------


def _conic_table(size: tuple[int, int, int], repeats: int) -> None:
    arms, _, dimension = size
    source, target = points(*size)
    design = centered_xy(source, target, tol=TOL)  # warm
    ours = _best_of(repeats, lambda: centered_xy(source, target, tol=TOL))
    header(
        f"K = H = {arms}, d = {dimension}, gap {TOL:g}: beside cvxpy + Clarabel",
        "", "value", "gap", "total", "of which solver", "ratio, total", "ratio, solver only",
    )  # fmt: skip
    row("bestarm", f"{design.value:.4f}", f"{design.gap:.1e}", seconds(ours), seconds(ours),
         "1", "1")  # fmt: skip
    for name, build in (("cvxpy, cones", _cones), ("cvxpy, matrix_frac", _matrix_frac)):
        runs = [_conic(build, source, target) for _ in range(repeats)]
        value, total, solver = min(runs, key=lambda run: run[1])
        row(
            name, f"{value:.4f}", f"{max(value / design.lower_bound - 1, 0):.1e}", seconds(total),
            seconds(solver), f"{total / ours:,.0f}×", f"{solver / ours:,.0f}×",
        )  # fmt: skip


def _conic(build: Callable[..., Any], source: Array, target: Array) -> tuple[float, float, float]:
    """Value reached, total seconds, and those inside Clarabel, asked for the same relative gap."""
    import cvxpy  # noqa: PLC0415  seconds to load, and wanted by no other part

    first, second = np.triu_indices(len(target), 1)
    features = np.column_stack([np.ones(len(source)), source])
    contrasts = np.column_stack([np.zeros(len(first)), target[first] - target[second]])
    start = time.perf_counter()
    problem = build(cvxpy, features, contrasts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cvxpy frowns on many constraints
        problem.solve(solver="CLARABEL", tol_gap_rel=TOL, tol_gap_abs=1e-12, tol_feas=1e-6)
    total = time.perf_counter() - start
    (mass,) = (v for v in problem.variables() if v.name() == "q")
    weights = np.maximum(mass.value, 0.0)
    value = centered_diameter(source, weights / weights.sum(), target)
    return value, total, float(problem.solver_stats.solve_time)


def _cones(cp: Any, features: Array, contrasts: Array) -> Any:
    """Minimise Σq with y = Σ_i a_{y,i} φ_i and Σ_i a²_{y,i}/q_i ≤ 1."""
    arms, count = len(features), len(contrasts)
    q = cp.Variable(arms, name="q")
    a, u = cp.Variable((arms, count)), cp.Variable((arms, count))
    mass = cp.vec(q[:, None] @ np.ones((1, count)), order="F")
    bound = cp.vec(u, order="F")
    cones = cp.SOC(mass + bound, cp.vstack([2 * cp.vec(a, order="F"), mass - bound]), axis=0)
    constraints = [features.T @ a == contrasts.T, cp.sum(u, axis=0) <= 1, cones]
    return cp.Problem(cp.Minimize(cp.sum(q)), constraints)


def _matrix_frac(cp: Any, features: Array, contrasts: Array) -> Any:
    """Minimise Σq with yᵀM(q)⁻¹y ≤ 1: a semidefinite constraint for each contrast."""
    q = cp.Variable(len(features), name="q", nonneg=True)
    moment = features.T @ cp.diag(q) @ features
    bounds = [cp.matrix_frac(y, moment) <= 1 for y in contrasts]
    return cp.Problem(cp.Minimize(cp.sum(q)), bounds)


# --- sizes the conic solver cannot do ------------------------------------------------------------


def _large_table(sizes: tuple[tuple[int, int, int], ...]) -> None:
    header(
        "Larger sizes: beside a plain multiplicative loop given the same time",
        "K", "H", "d", "time", "gap", "peak memory", "under 2 GiB", "loop's steps", "loop's gap",
        "gap ratio",
    )  # fmt: skip
    for size in sizes:
        found = _in_subprocess("--size", size)
        gap, loop_gap = found["gap"], found["loop_gap"]
        row(
            *(f"{n:,}" for n in size), seconds(found["seconds"]), f"{gap:.1e}",
            f"{found['memory'] / 2**20:,.0f} MiB", "yes" if found["memory"] < 2**31 else "NO",
            f"{found['loop_steps']:,.0f}", f"{loop_gap:.1e}", f"{loop_gap / gap:,.0f}×",
        )  # fmt: skip


def _in_subprocess(option: str, size: tuple[int, int, int]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.designs", option, *map(str, size)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(output)
    return result


def _measure(arms: int, targets: int, dimension: int) -> dict[str, float]:
    """Time, gap and peak memory of one design, then the plain loop for the same time."""
    centered_xy(*points(10, 10, 3))  # what loads on the first call
    source, target = points(arms, targets, dimension)
    start = time.perf_counter()
    design = centered_xy(source, target, tol=TOL)
    seconds = time.perf_counter() - start
    memory = _peak_memory()
    steps, gap = 0, float("inf")
    deadline = time.perf_counter() + seconds
    for steps, gap in enumerate(_plain_gaps(source, target), start=1):  # noqa: B007
        if time.perf_counter() >= deadline:
            break
    return {
        "seconds": seconds, "gap": design.gap, "memory": memory, "loop_steps": steps,
        "loop_gap": gap,
    }  # fmt: skip


def _peak_memory() -> int:
    import resource  # noqa: PLC0415  not everywhere

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _plain_gaps(source: Array, target: Array) -> Iterator[float]:
    """p_i ← p_i √w_i, with exponential weights on contrasts; yields the certified gap so far.

    The loop is given a good start: only the 256 contrasts of largest weight are kept, joined in
    each step by the farthest pairs of up to 64 targets. With all pairs in every step it reaches the
    same gaps twenty times slower at H = 100, and does not fit in memory at H = 10 000. Rate and
    initial weights are the best of a dozen tried.
    """
    count, kept, added, rate = len(target), 256, 64, 3.0
    features = np.column_stack([np.ones(len(source)), source])
    points = np.column_stack([np.zeros(count), target])
    p = np.full(len(source), 1 / len(source))
    codes, share = np.empty(0, dtype=np.int64), np.empty(0)
    best_value, best_bound = np.inf, 0.0
    while True:
        root = np.linalg.cholesky(np.linalg.inv(features.T @ (p[:, None] * features)))
        other, distance = farthest(points @ root)
        best_value = min(best_value, float(distance.max()))
        first = np.argsort(-distance)[:added]
        second = other[first]
        worst = np.minimum(first, second) * count + np.maximum(first, second)
        new = np.setdiff1d(worst, codes)
        codes = np.concatenate([codes, new])
        share = np.concatenate([share, np.full(len(new), 1 / kept)])
        y = (points[codes // count] - points[codes % count]) @ root
        g = np.einsum("ij,ij->i", y, y)
        share = share * np.exp(rate * (g / g.max() - 1))
        share /= share.sum()
        w = np.square((features @ root) @ y.T) @ share
        best_bound = max(best_bound, float(share @ g) ** 2 / float(w.max()))
        yield best_value / best_bound - 1
        order = np.argsort(-share)[:kept]
        codes, share = codes[order], share[order]
        p = p * np.sqrt(w)
        p /= p.sum()


# --- growth --------------------------------------------------------------------------------------


def _growth_table(growth: dict[str, list[tuple[int, int, int]]]) -> None:
    header(
        "Growth: one size at a time, time ∝ size^slope (least squares on logarithms)",
        "growing", "sizes", "held", "times", "slope",
    )  # fmt: skip
    for name, sizes in growth.items():
        place = "KHd".index(name)
        times = [
            np.median([_best_of(2, _solve(size, seed)) for seed in range(3)]) for size in sizes
        ]
        held = ", ".join(f"{n} = {sizes[0][i]:,}" for i, n in enumerate("KHd") if i != place)
        slope = np.polyfit(np.log([size[place] for size in sizes]), np.log(times), 1)[0]
        row(
            name, ", ".join(f"{size[place]:,}" for size in sizes), held,
            ", ".join(seconds(float(t)) for t in times), f"{slope:.2f}",
        )  # fmt: skip


def _problem_table(sizes: tuple[int, ...]) -> None:
    """Checking a problem with a feature an arm, beside the same by singular values."""
    header("Problem(np.eye(K)): beside singular values", "K", "time", "singular values", "ratio")
    for size in sizes:
        features = np.eye(size)
        ours = _best_of(1, lambda: Problem(features))  # noqa: B023 - called at once
        with mock.patch.object(geometry, "_MANY", 10**9):
            theirs = _best_of(1, lambda: Problem(features))  # noqa: B023
        row(f"{size:,}", seconds(ours), seconds(theirs), f"{theirs / ours:.1f}×")


def _solve(size: tuple[int, int, int], seed: int) -> Callable[[], object]:
    source, target = points(*size, seed=seed)
    return lambda: centered_xy(source, target, tol=TOL)


if __name__ == "__main__":
    main()
