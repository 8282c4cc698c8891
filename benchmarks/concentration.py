"""How far errors stay below the paper's concentration bound: c₁ and c₂ over designs and baselines.

    python -m benchmarks.concentration [--runs N]

Equation (4) of the paper bounds |y·(θ̂ − θ)| after t pulls by

    c₁ √(L log(t/δ)/t) + c₂ M √L log(d/δ)/t

with constants "above 1". For every design and baseline this prints the 90 % quantile (δ = 0.1) of
the error as a share of the bound with both at 1, at several t, for the contrast at which it is
largest; c₁, what the first term alone would need at the longest t; and c₂, what the second would
need besides at any shorter t. |ν_t| ≤ 1 and unit noise, as in the paper's Assumption 1; the ridge
is log(t/δ). The adversary adds 1 where it pushes the leading contrast further from its truth.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from bestarm import design
from bestarm.environments import small_gap
from bestarm.numerics.geometry import Array, centered_norms
from bestarm.studies.statements import concentration_bound

DELTA = 0.1
LENGTHS = (30, 100, 300, 1000, 4000)
Level = Callable[[int, Array], Array]  # ν_t of every run, from t and the past sums of x̃ν

BASELINES: dict[str, Level] = {
    "none": lambda _, past: np.zeros(len(past)),
    "1 always": lambda _, past: np.ones(len(past)),
    "sine": lambda t, past: np.full(len(past), math.sin(2 * t)),
    "adversary": lambda _, past: np.where(past >= 0, 1.0, -1.0),
}


def designs(source: Array) -> dict[str, Array]:
    """The paper's mixture and what it is made of, the optima, and equal shares."""
    xor, deo = design.xor(source, source, anchor=0).weights, design.deo(source).weights
    return {
        "½ XOR + ½ DEO": (xor + deo) / 2,
        "DEO": deo,
        "centered XY": design.centered_xy(source, source).weights,
        "centered G": design.centered_g(source).weights,
        "equal": np.full(len(source), 1 / len(source)),
    }


def errors(
    source: Array, weights: Array, level: Level, lengths: tuple[int, ...], runs: int
) -> Array:
    """|y·(θ̂ − θ)| for every length, run and contrast with the first arm; θ = e₁."""
    rng = np.random.default_rng(0)
    d, theta = source.shape[1], np.eye(source.shape[1])[0]
    contrasts, centered = source[1:] - source[0], source - weights @ source
    arms = rng.choice(len(source), p=weights / weights.sum(), size=(max(lengths), runs))
    noise, watched = rng.normal(size=arms.shape), centered @ contrasts[-1]
    grams, moments = np.zeros((runs, d, d)), np.zeros((runs, d))
    past, found = np.zeros(runs), []
    for t in range(1, max(lengths) + 1):
        drawn = arms[t - 1]
        nu, x = level(t, past), centered[drawn]
        past += nu * watched[drawn]
        moments += x * (source[drawn] @ theta + nu + noise[t - 1])[:, None]
        grams += x[:, :, None] * x[:, None, :]
        if t in lengths:
            ridge = math.log(t / DELTA) * np.eye(d)
            fitted = np.linalg.solve(grams + ridge, moments[..., None])[..., 0]
            found.append(np.abs((fitted - theta) @ contrasts.T))
    return np.array(found)


def bound(
    value: float, pulls: int, stability: float, dimension: int, c1: float, c2: float
) -> float:
    """Equation (4) at δ = 0.1."""
    return concentration_bound(
        value, pulls=pulls, delta=DELTA, stability=stability, dimension=dimension, c1=c1, c2=c2
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    sphere = np.random.default_rng(1).normal(size=(20, 5))
    instances = {
        "small gap, d = 10": small_gap().problem(DELTA).source,
        "small gap, d = 3": small_gap(3).problem(DELTA).source,
        "sphere, K = 20, d = 5": sphere / np.linalg.norm(sphere, axis=1, keepdims=True),
    }
    print(
        "| instance | design | baseline |", " | ".join(f"t = {t}" for t in LENGTHS), "| c₁ | c₂ |"
    )
    print("|---|---|---|" + "--:|" * (len(LENGTHS) + 2))
    for name, source in instances.items():
        d = source.shape[1]
        for kind, weights in designs(source).items():
            values = centered_norms(source, weights, source[1:] - source[0])
            stability = float(centered_norms(source, weights, source - weights @ source).max())
            terms = np.array(
                [
                    [[bound(value, t, stability, d, a, b) for value in values] for t in LENGTHS]
                    for a, b in ((1.0, 0.0), (0.0, 1.0))
                ]
            )
            for label, level in BASELINES.items():
                quantile = np.quantile(
                    errors(source, weights, level, LENGTHS, runs), 1 - DELTA, axis=1
                )
                ratios = (quantile / terms.sum(axis=0)).max(axis=1)
                c1 = float((quantile / terms[0])[-1].max())
                c2 = max(float(((quantile - c1 * terms[0]) / terms[1]).max()), 0.0)
                shown = " | ".join(f"{ratio:.2f}" for ratio in ratios)
                print(f"| {name} | {kind} | {label} | {shown} | {c1:.2f} | {c2:.3f} |", flush=True)


if __name__ == "__main__":
    main()
