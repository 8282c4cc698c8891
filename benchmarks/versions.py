"""Two versions of the anytime rule on the same instances and seeds, and what forecasts add.

    python -m benchmarks.versions --runs 200 --save new.npz [--forecaster default]
    PYTHONPATH=other/src python -m benchmarks.versions --runs 200 --save old.npz
    python -m benchmarks.versions --compare old.npz new.npz

The first two lines measure, each with the package that it imports; the third prints ratios of mean
pulls with 95 % bootstrap intervals. No constant of the rule was chosen on these instances.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bestarm import AnytimeBAI, simulate
from bestarm.environments import Environment, Ratings, Semiparametric, baselines
from bestarm.numerics.geometry import Array

DELTA = 0.1
Instance = tuple[Environment, dict[str, object]]


def _clicks() -> Instance:
    """Four links that two to three of a hundred people follow."""
    rng = np.random.default_rng(0)
    columns = [rng.permutation(np.arange(4000) < round(4000 * rate)) for rate in RATES]
    return Ratings(np.array(columns, dtype=float).T, name="clicks"), {"bounds": (0, 1)}


RATES = (0.03, 0.02, 0.021, 0.024)


def _transductive() -> Instance:
    """Pull twelve axes, choose among fifteen directions."""
    rng = np.random.default_rng(1)
    target = rng.normal(size=(15, 6))
    target /= np.linalg.norm(target, axis=1)[:, None]
    source = np.vstack([np.eye(6), -np.eye(6)])
    theta = 0.25 * (target[0] + 0.3 * target[1])
    world = Semiparametric(source, theta, target=target, baseline=0.5, declared_baseline=1.0)
    return world, {"mean_bound": 1.0}


def _thirty() -> Instance:
    """Sixty arms in thirty dimensions."""
    rng = np.random.default_rng(2)
    source = rng.normal(size=(60, 30))
    source /= np.linalg.norm(source, axis=1)[:, None]
    world = Semiparametric(source, source[0] + 0.1 * source[1], baseline=baselines.sinusoid())
    return world, {"mean_bound": 1.5}


def _levels(baseline: object, declared: float) -> Instance:
    world = Semiparametric(
        np.eye(4), [0.2, 0.1, 0.05, 0.0], baseline=baseline, declared_baseline=declared
    )
    return world, {"mean_bound": 0.5}


def _day(t: Array) -> Array:
    """A slow day: one wave in ten thousand pulls."""
    return np.asarray(2.0 * np.sin(2 * np.pi * t / 10_000))


INSTANCES: dict[str, Callable[[], Instance]] = {
    "clicks at 2 to 3 %": _clicks,
    "transductive": _transductive,
    "60 arms, d = 30": _thirty,
    "walk of 0.05 within ±5": partial(_levels, baselines.random_walk(0.05, bound=5.0), 5.0),
    "jumps of ±5 every 2 500": partial(_levels, baselines.switches((-5.0, 5.0), period=2500), 5.0),
    "slow day": partial(_levels, baselines.custom(_day, bound=2.0), 2.0),
    "nothing moves": partial(_levels, 0.0, 1.0),
    "adversary": partial(_levels, baselines.adversary(1.0), 1.0),
}


def measure(runs: int, seed: int, forecaster: str | None) -> dict[str, Any]:
    """The pulls of every run, and seconds per run, by instance."""
    found: dict[str, Any] = {}
    options = {} if forecaster is None else {"forecaster": forecaster}
    for name, make in INSTANCES.items():
        world, settings = make()
        rule = partial(AnytimeBAI, **settings)  # type: ignore[arg-type]
        simulate(rule, world, runs=1, delta=DELTA, **options)  # type: ignore[arg-type]
        start = time.process_time()
        results = simulate(rule, world, runs=runs, seed=seed, delta=DELTA, **options)  # type: ignore[arg-type]
        seconds = (time.process_time() - start) / runs
        found[name] = results.pulls
        wrong = int((results.final & ~results.correct).sum())
        error = results.pulls.std() / np.sqrt(runs)
        print(
            f"{name:28s}{results.mean_pulls:10,.0f} ± {error:6,.0f}   wrong {wrong}/{runs}   "
            f"{seconds:.3f} s a run, {results.plans.mean():.0f} batches",
            flush=True,
        )
    return found


def compare(before: Path, after: Path) -> None:
    """Ratios of mean pulls, after over before."""
    rng = np.random.default_rng(0)
    old, new = np.load(before), np.load(after)
    ratios = []
    for name in old.files:
        a, b = old[name].astype(float), new[name].astype(float)
        means = [
            part[rng.integers(len(part), size=(4000, len(part)))].mean(axis=1) for part in (a, b)
        ]
        low, high = np.quantile(means[1] / means[0], (0.025, 0.975))
        ratios.append(b.mean() / a.mean())
        print(f"{name:28s}{ratios[-1]:8.3f}   ({low:.3f} to {high:.3f})")
    print(f"{'on average':28s}{np.mean(ratios):8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forecaster")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2)
    chosen = parser.parse_args()
    if chosen.compare:
        compare(*chosen.compare)
        return
    found = measure(chosen.runs, chosen.seed, chosen.forecaster)
    if chosen.save is not None:
        np.savez(chosen.save, **found)


if __name__ == "__main__":
    main()
