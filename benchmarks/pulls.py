"""Pulls and errors of SP-BAI's readings over several instances, with paired seeds.

    python -m benchmarks.pulls [--runs 500] [--workers 2]

Run i of every row of an instance sees the same instance and starts from the same seed. The ratio is
of mean pulls (of medians where the tail is heavy) to the paper's reading, with a bootstrap interval
over paired runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial

import numpy as np

from bestarm import SPBAI, environments, simulate
from bestarm.environments import Environment
from bestarm.numerics.geometry import Array
from bestarm.policies import Method
from bestarm.simulation import Results

CAP = 5_000_000

READINGS: dict[str, Method] = {
    "xor, paper (the paper's)": SPBAI,
    "xor, actual": partial(SPBAI, stability="actual"),
    "centered, paper": partial(SPBAI, design="centered"),
    "**centered, actual (sharp)**": partial(SPBAI, design="centered", stability="actual"),
}


def _transductive() -> Environment:
    """Forty testable mixtures of eight factors; the twenty to choose among cannot be tested."""
    rng = np.random.default_rng(7)
    source = rng.dirichlet(np.ones(8), size=40)
    target = rng.dirichlet(np.full(8, 3.0), size=20)
    return environments.Semiparametric(
        source,
        3.0 * np.arange(8) / 7,
        target=target,
        baseline=environments.baselines.sinusoid(),
        declared_baseline=1.0,
        name="transductive, K = 40, H = 20, d = 8",
    )


def _one_hot() -> Environment:
    """Eight unrelated arms, seven of them tied for second: nothing to learn from features."""
    return environments.Semiparametric(
        np.eye(8),
        [0.3, 0, 0, 0, 0, 0, 0, 0],
        baseline=environments.baselines.switches((-1.0, 1.0), period=5000),
        name="one-hot, K = 8, seven tied",
    )


INSTANCES: dict[str, tuple[Callable[[], Environment], bool]] = {
    "small-gap, d = 10": (partial(environments.small_gap, declared_baseline=1.0), False),
    "small-gap, d = 30": (partial(environments.small_gap, 30, declared_baseline=1.0), False),
    "transductive, K = 40, H = 20, d = 8": (_transductive, False),
    "one-hot, K = 8, seven tied": (_one_hot, False),
    "uniform sphere, K = 50, d = 6 (fresh; medians)": (
        partial(environments.uniform_sphere, 50, 6, declared_baseline=1.0),
        True,
    ),
}


def _ratio(ours: Array, papers: Array, *, medians: bool) -> tuple[float, float, float]:
    center = np.median if medians else np.mean
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(ours), size=(2000, len(ours)))
    boots = center(ours[rows], axis=1) / center(papers[rows], axis=1)
    low, high = np.quantile(boots, [0.025, 0.975])
    return float(center(ours) / center(papers)), float(low), float(high)


def _row(reading: str, results: Results, papers: Results, *, medians: bool) -> str:
    ours = results.pulls.astype(float)
    pulls = np.median(ours) if medians else ours.mean()
    ratio, low, high = _ratio(ours, papers.pulls.astype(float), medians=medians)
    wrong = int((~results.correct).sum())
    least, most = results.error_interval(0.95)
    capped = int((~results.final).sum())
    note = f", {capped} capped" if capped else ""
    return (
        f"| {reading} | {pulls:,.0f} | {np.quantile(ours, 0.9):,.0f} | {ratio:.3f} "
        f"({low:.3f}–{high:.3f}) | {wrong} of {results.runs}{note} ({least:.1%}–{most:.1%}) |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    executor: Executor
    with ProcessPoolExecutor(options.workers) as executor:
        for name, (make, medians) in INSTANCES.items():
            center = "median" if medians else "mean"
            print(f"\n**{name}**\n\n| reading | {center} pulls | 90 % quantile | ratio | errors |")
            print("|---|---:|---:|---:|---:|")
            papers: Results | None = None
            for reading, method in READINGS.items():
                capped = partial(method, max_pulls=CAP) if medians else method  # type: ignore[call-arg]
                results = simulate(
                    capped,
                    make(),
                    runs=options.runs,
                    seed=options.seed,
                    delta=0.1,
                    executor=executor,
                )
                papers = papers or results
                print(_row(reading, results, papers, medians=medians), flush=True)


if __name__ == "__main__":
    main()
