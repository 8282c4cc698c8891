"""What a forecaster adds to an `ask` of one.

    python -m benchmarks.asking [--asks 3000]

The same experiment without a forecaster, with the default one, and with it and three covariates, in
memory and in a SQLite file. They take turns, ask by ask; each outcome is told before the next ask.
Medians, in milliseconds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bestarm import AnytimeBAI, Experiment, Problem

PROBLEM = Problem(["a", "b", "c"], delta=0.01)
KINDS = {"none": None, "default": "default", "and covariates": "default"}
WARM_UP = 100


def in_memory(forecaster: str | None) -> Experiment:
    """An experiment in memory."""
    policy = AnytimeBAI(PROBLEM, bounds=(0, 10), forecasts=forecaster is not None)
    return Experiment(policy, seed=0, forecaster=forecaster)


def measure(made: dict[str, Experiment], asks: int) -> dict[str, tuple[float, float]]:
    """The median of an ask and of a tell, in milliseconds."""
    rng = np.random.default_rng(0)
    asked: dict[str, list[float]] = {kind: [] for kind in made}
    told: dict[str, list[float]] = {kind: [] for kind in made}
    for _ in range(asks + WARM_UP):
        person: dict[str, Any] = {"age": rng.normal(), "visits": rng.normal(), "country": "CH"}
        outcome = float(np.clip(5 + person["age"] + rng.normal(), 0, 10))
        for kind, experiment in made.items():
            given: Any = person if kind == "and covariates" else None
            start = time.perf_counter()
            batch = experiment.ask(covariates=given)
            middle = time.perf_counter()
            experiment.tell(batch[0], outcome)
            asked[kind].append(middle - start)
            told[kind].append(time.perf_counter() - middle)
    return {
        kind: (
            1e3 * float(np.median(asked[kind][WARM_UP:])),
            1e3 * float(np.median(told[kind][WARM_UP:])),
        )
        for kind in made
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--asks", type=int, default=3000)
    asks = parser.parse_args(arguments).asks
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder)}/store.db"
        stored = {
            kind: Experiment.create(
                url,
                kind,
                PROBLEM,
                policy_options={"bounds": [0, 10]},
                seed=0,
                forecaster=forecaster,
            )
            for kind, forecaster in KINDS.items()
        }
        held = {kind: in_memory(forecaster) for kind, forecaster in KINDS.items()}
        for place, made in (("memory", held), ("file", stored)):
            for kind, (ask, tell) in measure(made, asks).items():
                print(f"{place:8}{kind:16}ask {ask:.3f} ms   tell {tell:.3f} ms")


if __name__ == "__main__":
    main()
