"""How long opening a long experiment takes: adopting recorded plans, against computing them again.

    python -m benchmarks.opening

An experiment of the anytime rule on 8 × 8 × 8 factorial features whose baseline moves, so that its
phases are many and short. Opening it adopts every plan on record; `replay` also computes every plan
afresh, as opening did before. Both in the same run, so the ratio does not hang on the machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.kernels import factorial
from bestarm import Experiment, Problem
from bestarm.policies.anytime import sampler


def _begin(url: str, phases: int) -> int:
    source = factorial(8, 8, 8)
    means = 0.4 + 0.1 * source[:, 0] - 0.05 * source[:, -1]
    problem = Problem(source, delta=0.05)
    with Experiment.create(
        url, "long", problem, policy_options={"bounds": [0, 1]}, seed=1
    ) as experiment:
        rng = np.random.default_rng(2)
        while experiment.phase < phases and not experiment.finished:
            batch = experiment.ask(experiment.status().remaining or 1)
            level = 0.35 * np.sin(np.array(batch.ids) / 300)
            rewards = rng.random(len(batch)) < means[np.array(batch.arms)] + level
            experiment.tell_many(zip(batch.ids, rewards.astype(float).tolist(), strict=True))
        return experiment.status().pulls


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--phases", type=int, default=300)
    phases = parser.parse_args().phases
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'long.db'}"
        pulls = _begin(url, phases)
        seconds: dict[str, float] = {}
        for name in ("adopted", "computed again"):
            sampler.g_design.cache_clear()  # nothing is remembered from before
            # One thread: on a busy machine several would mostly wait for each other.
            with threadpool_limits(1, "blas"), Experiment.open(url, "long") as experiment:
                began = time.process_time()
                if name == "adopted":
                    experiment.recommendation()
                else:
                    remarks = experiment.replay().remarks
                seconds[name] = time.process_time() - began
    print(f"{phases} phases, {pulls:,} outcomes, processor time:")
    for name, taken in seconds.items():
        print(f"  plans {name:<15} {taken:7.2f} s")
    print(f"  ratio {seconds['computed again'] / seconds['adopted']:.1f}; {len(remarks)} remarks")


if __name__ == "__main__":
    main()
