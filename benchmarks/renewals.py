"""A design after one target is dropped: from the start that all designs have, and from the last.

    python -m benchmarks.renewals

The library starts cold: what it returns must not depend on what was solved before. This is what
that costs. Times are of the processor, on one thread.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.designs import TOL, header, points, row, seconds
from bestarm.design.solver import PairwiseContrasts, minimise
from bestarm.numerics.geometry import Array, farthest, lift

SIZES = ((30, 30, 5), (100, 100, 10), (1000, 1000, 20))


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    header(
        "Renewing a design after the target that matters most is dropped (processor time)",
        "K", "H", "d", "first", "cold", "steps", "warm", "steps", "cold ÷ warm",
    )  # fmt: skip
    for size in SIZES:
        source, target = points(*size)
        features = lift(source)
        cold = Renewal(features, target)
        dropped = np.delete(target, cold.worst(), axis=0)
        renewed = Renewal(features, dropped)
        warm = Renewal(features, dropped, weights=cold.weights)
        row(
            *(f"{n:,}" for n in size), seconds(cold.seconds), seconds(renewed.seconds),
            renewed.steps, seconds(warm.seconds), warm.steps,
            f"{renewed.seconds / warm.seconds:.1f}×",
        )  # fmt: skip


class Renewal:
    """One design, its steps and seconds; `weights` are masses to begin with."""

    def __init__(self, features: Array, target: Array, weights: Array | None = None) -> None:
        self._points = lift(target - target[0], 0.0)
        contrasts = PairwiseContrasts(self._points)
        minimise(features, contrasts, TOL)  # what loads on the first call
        begun = time.process_time()
        found = minimise(features, contrasts, TOL, weights)
        self.seconds = time.process_time() - begun
        self.weights, self.steps = found.weights, found.iterations
        moment = features.T @ (self.weights[:, None] * features)
        self._root = np.linalg.cholesky(np.linalg.inv(moment))

    def worst(self) -> int:
        """The target with the farthest other one."""
        return int(np.argmax(farthest(self._points @ self._root)[1]))


if __name__ == "__main__":
    main()
