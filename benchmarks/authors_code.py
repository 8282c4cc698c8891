"""Run the authors' code for the paper's synthetic tables, from a checkout of their repository.

    git clone https://github.com/seokjinkim0428/SP-BAI sp-bai             # commit e6fc8b1
    python -m venv pinned
    pinned/bin/pip install numpy==1.26.4 scipy==1.13.0 pandas==2.2.2 numba==0.60.0
    pinned/bin/python benchmarks/authors_code.py sp-bai small-gap uniform --out runs.csv
    pinned/bin/python benchmarks/authors_code.py sp-bai uniform --corrected --out runs.csv

The repository has no licence, so nothing of it is here: this file imports it, and replaces parts of
it while it runs. What is replaced is only made faster:

* loops over single pulls are compiled, and draw from the same generators in the same order;
* a design that was computed for the same arms before is not computed again;
* leverages are computed without a K × K matrix of zeros, to the same bits.

`--corrected` takes `"nd,dd,nd->n"`, which reads the diagonal of the inverse matrix, for the
quadratic form `"nd,de,ne->n"`, wherever their code calls `einsum` with such a repeated index.

Runs are appended to the file one instance at a time; those in it are not repeated. Without tables,
a summary of the file is printed. It does not import bestarm, which needs newer versions than those
that the authors pinned. On one idle core an instance takes 1.5 seconds (small gap) or 13 (uniform).
"""

from __future__ import annotations

import argparse
import csv
import importlib
import re
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit

HEADER = ("table", "variant", "run", "method", "pulls", "error", "converged", "heaviest")
SIGMAS = (1.0, 2.0, 3.0, 4.0)
GROUPS = {
    "all": ("SP-BAI", "G-Opt", "SBE", "RAGE"),
    "semiparametric": ("SP-BAI", "G-Opt", "SBE"),
    "rage": ("RAGE",),
}


# --- loops over pulls, compiled ----------------------------------------------------------------


@njit
def drawn_totals(
    rng: Any, cumulative: Any, arms: Any, means: Any, sigma: float, first: int, rounds: int
) -> Any:
    """Counts and reward sums per arm of drawn pulls: one uniform and one normal number each."""
    counts, sums = np.zeros(len(means)), np.zeros(len(means))
    for i in range(rounds):
        arm = arms[np.searchsorted(cumulative, rng.random(), side="right")]
        level = 1.0 + np.sin(2.0 * (first + i))
        counts[arm] += 1
        sums[arm] += means[arm] + level + rng.normal(0.0, sigma)
    return counts, sums


@njit
def scheduled_totals(rng: Any, counts: Any, means: Any, sigma: float, first: int) -> Any:
    """Reward sums per arm of pulls in turn, each arm until it has its count."""
    left, sums, t = counts.copy(), np.zeros(len(means)), first
    while left.max() > 0:
        for arm in range(len(left)):
            if left[arm] > 0:
                left[arm] -= 1
                sums[arm] += means[arm] + (1.0 + np.sin(2.0 * t)) + rng.normal(0.0, sigma)
                t += 1
    return sums


class MendedNumPy:
    """NumPy, whose `einsum` takes "nd,dd,nd->n" for the quadratic form it was meant to be."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def einsum(formula: str, *operands: Any) -> Any:
        """`numpy.einsum`, with a repeated index mended."""
        mended = re.sub(r"^(\w)(\w),\2\2,\1\2->\1$", r"\1\2,\2z,\1z->\1", formula)
        return np.einsum(mended, *operands, optimize=mended != formula)


class Patched:
    """The authors' modules with faster parts, and with one index mended if `corrected`."""

    def __init__(self, checkout: Path, *, corrected: bool) -> None:
        sys.path.insert(0, str(checkout))
        self.designs = importlib.import_module("sp_bai.core.designs")
        self.metrics = importlib.import_module("sp_bai.core.metrics")
        self.utils = importlib.import_module("sp_bai.core.utils")
        self.synthetic = importlib.import_module("sp_bai.experiments.synthetic_linear")
        self.tables = {
            "small-gap": importlib.import_module("sp_bai.experiments.small_gap"),
            "uniform": importlib.import_module("sp_bai.experiments.uniform"),
        }
        self.corrected = corrected
        self.solved: dict[tuple[bytes, ...], Any] = {}
        self.first_design: tuple[bool, float] | None = None  # SLSQP converged; the largest weight
        if corrected:
            self.designs.np = MendedNumPy()  # type: ignore[attr-defined]
        self._speed_up_leverages()
        self._memoise()
        self._compile()

    def _speed_up_leverages(self) -> None:
        kept: dict[str, Any] = {}

        def leverages(x: Any, p: Any, reg: float = 1e-6) -> Any:
            if kept.get("x") is not x:
                kept.update(x=x, rows=np.ascontiguousarray(x.T), ridge=reg * np.eye(x.shape[1]))
            inverse = self.utils.stable_inv((kept["rows"] * p) @ x + kept["ridge"], ridge=reg)
            if self.corrected:
                return ((x @ inverse) * x).sum(axis=1)
            return np.einsum("ij,j,ij->i", x, np.diagonal(inverse), x)

        self.designs.leverage_scores_core = leverages  # type: ignore[attr-defined]

    def _memoise(self) -> None:
        """Solve no design twice, and note whether SLSQP converged."""
        designs, converged = self.designs, [False]
        solve, slsqp = designs.g_optimal_design_with_lowrank, designs.g_optimal_design_slsqp_lowrank
        xy = designs.xy_design_optimal_lowrank

        def noted(*arguments: Any, **options: Any) -> Any:
            converged[0] = False
            design = slsqp(*arguments, **options)
            converged[0] = True
            return design

        def solve_once(x: Any, **options: Any) -> Any:
            key = (b"g", x.tobytes())
            if key not in self.solved:
                weights = solve(x, **options)
                self.solved[key] = weights, converged[0]
            weights, good = self.solved[key]
            if self.first_design is None:  # the first design of an instance is that over all arms
                self.first_design = good, float(weights.max())
            return weights.copy()

        def xy_once(x: Any, active: Any, **options: Any) -> Any:
            key = (b"xy", x.tobytes(), bytes(sorted(active)))
            if key not in self.solved:
                self.solved[key] = xy(x, active, **options)
            weights, value = self.solved[key]
            return dict(weights), value

        designs.g_optimal_design_slsqp_lowrank = noted  # type: ignore[attr-defined]
        designs.g_optimal_design_with_lowrank = solve_once  # type: ignore[attr-defined]
        self.synthetic.pkg_xy_design_optimal_lowrank = xy_once  # type: ignore[attr-defined]

    def _compile(self) -> None:
        synthetic: Any = self.synthetic
        metrics, utils = self.metrics, self.utils

        def reward(theta: Any, nuisance_fn: Any = None, noise_sigma: float = 1.0) -> Any:
            assert nuisance_fn is synthetic.default_nu_t
            return SimpleNamespace(theta=theta, sigma=float(noise_sigma))

        def drawn(
            x: Any, delta: float, p: Any, rounds: int, rng: Any, reward_fn: Any, t0: int = 1
        ) -> Any:
            keys = np.array(list(p), dtype=np.int64)
            chances = np.array([p[key] for key in keys.tolist()], dtype=float)
            cumulative = (chances / chances.sum()).cumsum()
            cumulative /= cumulative[-1]
            means, sigma = x @ reward_fn.theta, reward_fn.sigma
            counts, sums = drawn_totals(rng, cumulative, keys, means, sigma, t0, rounds)
            shares = metrics.policy_to_array(p, list(range(len(x))), len(x))
            centered = x - metrics.covariance_of_policy(x, shares)[1]
            ridge = utils.log_ridge(max(rounds, 2), delta)
            gram = (centered.T * counts) @ centered + ridge * np.eye(x.shape[1])
            return utils.stable_inv(gram) @ (centered.T @ sums), rounds

        def scheduled(x: Any, counts: Any, rng: Any, reward_fn: Any, t0: int = 1) -> Any:
            each = np.array([counts[arm] for arm in range(len(x))], dtype=np.int64)
            sums = scheduled_totals(rng, each, x @ reward_fn.theta, reward_fn.sigma, t0)
            return utils.stable_inv((x.T * each) @ x) @ (x.T @ sums), int(each.sum())

        rage = synthetic.pkg_run_rage
        synthetic.pkg_run_rage = lambda *arguments, **options: rage(
            *arguments, schedule_fn=lambda counts: counts, **options
        )
        synthetic.make_synthetic_reward = reward
        synthetic.pkg_ortho_phase_linear = drawn
        synthetic.pkg_ols_phase_deterministic_linear = scheduled


# --- running -----------------------------------------------------------------------------------


def leave_out(code: Patched, group: str) -> None:
    """Make the authors' loop pass over the methods that were not asked for."""
    synthetic: Any = code.synthetic
    if group == "semiparametric":
        synthetic._run_rage = lambda *_, **__: (0, 0)
    if group == "rage":
        synthetic._run_sp_bai = synthetic._run_g_opt = synthetic._run_sbe = lambda *_, **__: (0, 0)
        for module in (synthetic, *code.tables.values()):
            module.pkg_deo_policy_global = lambda *_, **__: {0: 1.0}


def run_table(code: Patched, table: str, runs: int, out: Path, group: str) -> None:
    """Run a table by the authors' own loop over instances, with the settings of their notebooks."""
    module: Any = code.tables[table]
    variant = "corrected" if code.corrected else "as run"
    leave_out(code, group)
    done = {
        (line["table"], line["variant"], int(line["run"]))
        for line in read(out)
        if line["method"].startswith(GROUPS[group])
    }
    evaluate, places = code.synthetic.evaluate_suite, iter(range(runs))

    def once(x: Any, theta: Any, config: Any, **options: Any) -> Any:
        run = next(places)
        if (table, variant, run) in done:
            return {name: {"T": 0, "err": 0, "time": 0.0} for name in config.algo_order()}
        if table == "uniform":  # new arms in every run
            code.solved.clear()
        code.first_design = None
        options["nuisance_fn"] = code.synthetic.default_nu_t
        found = evaluate(x, theta, config, **options)
        converged, heaviest = code.first_design or (True, 0.0)
        lines = [
            (table, variant, run, name, part["T"], part["err"], int(converged), f"{heaviest:.3f}")
            for name, part in found.items()
            if name.startswith(GROUPS[group])
        ]
        new = not out.exists()
        with out.open("a", newline="") as file:
            csv.writer(file).writerows([*([HEADER] if new else []), *lines])
        print(table, variant, run, flush=True)
        return found

    module.evaluate_suite = once
    module.print_dimension_table = module.print_total_timing = lambda *_: None
    shared = {"delta": 0.1, "n_simul": runs, "rage_noise_sigmas": SIGMAS, "show_progress": False}
    if table == "small-gap":  # as in the notebook, whose d = 20 is not in the paper
        caps = {"sbe_sample_cap": 5_000_000, "general_sample_cap": None}
        config = module.SmallGapExperimentConfig(dims=(10,), seed=100, **caps, **shared)
        module.run_small_gap_experiment(config)
    else:
        module.run_uniform_experiment(module.UniformExperimentConfig(**shared))


def read(path: Path) -> list[dict[str, str]]:
    """The lines of a file of runs, or none."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def print_summary(path: Path) -> None:
    """Print runs, mean pulls, their standard deviation, and the error of every row."""
    rows = defaultdict(list)
    for line in read(path):
        rows[line["table"], line["variant"], line["method"]].append(line)
    for key, lines in rows.items():
        pulls = np.array([float(line["pulls"]) for line in lines])
        wrong = np.array([int(line["error"]) for line in lines])
        good = np.array([line["converged"] == "1" for line in lines])
        spread = pulls.std(ddof=1) if len(pulls) > 1 else 0.0
        print(f"{' '.join(f'{part:<15}' for part in key)} {len(lines)} runs", end=" ")
        print(f"{pulls.mean():,.2f} ± {spread:,.2f}, error {wrong.mean():.2f}", end="")
        if 0 < good.sum() < len(good):
            parts = f"{wrong[good].mean():.2f} there and {wrong[~good].mean():.2f} elsewhere"
            print(f"; SLSQP converged in {good.mean():.2f}, error {parts}", end="")
        print()


def main() -> None:
    """Run tables, and print what the file has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("tables", nargs="*", help="small-gap, uniform, or both")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--methods", choices=list(GROUPS), default="all")
    parser.add_argument("--corrected", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("authors.csv"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    if options.tables:
        code = Patched(options.checkout, corrected=options.corrected)
        for table in options.tables:
            run_table(code, table, options.runs, options.out, options.methods)
    print_summary(options.out)


if __name__ == "__main__":
    main()
