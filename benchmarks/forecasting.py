"""What forecasts save, and what they cost: variance left by the default forecaster, and its time.

    python -m benchmarks.forecasting

A ratio is the variance of r − x·θ − f over that of r − x·θ, within batches that grow by 2 %, as
those of `AnytimeBAI` do: the level of a whole batch is predicted without a forecaster. The number
of pulls that a policy needs is about proportional to it. Each ratio is the mean over runs ± 1.96
standard errors. Constants were chosen on the paths of the first table; the second was looked at
while the parts of the forecaster were chosen; the third was run when all was done.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy.signal import lfilter

from bestarm.forecasting import Regression
from bestarm.numerics.geometry import Array

__all__ = ["OTHERS", "TUNED", "UNSEEN", "forecast_late", "ratios", "time_per_draw"]

_ARMS = np.eye(5)
_EFFECTS = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
_RUNS, _DRAWS = 40, 20_000
_LATE_RUNS, _LATE = 8, 50
_SPANS = ((20, 500), (500, 2000), (2000, _DRAWS))

Path = Callable[[int, np.random.Generator], Array]


def _noise(draws: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal(draws)


def _clicks(rate: float) -> Path:
    return lambda draws, rng: (rng.random(draws) < rate).astype(float)


def _heavy(freedom: float) -> Path:
    return lambda draws, rng: rng.standard_t(freedom, draws)


def _sine(speed: float) -> Path:
    return lambda draws, rng: 1 + np.sin(speed * np.arange(draws)) + _noise(draws, rng)


def _walk(step: float, bound: float) -> Path:
    def path(draws: int, rng: np.random.Generator) -> Array:
        walk = np.cumsum(step * rng.standard_normal(draws))
        reflected = np.abs((walk + bound) % (4 * bound) - 2 * bound) - bound
        return np.asarray(reflected + _noise(draws, rng))

    return path


def _jumps(size: float, period: float) -> Path:
    def path(draws: int, rng: np.random.Generator) -> Array:
        side = np.cumsum(rng.random(draws) < 1 / period) % 2
        return np.asarray(size * (2 * side - 1) + _noise(draws, rng))

    return path


def _memory(carry: float) -> Path:
    def path(draws: int, rng: np.random.Generator) -> Array:
        level = lfilter([np.sqrt(1 - carry**2)], [1, -carry], _noise(draws, rng))
        return np.asarray(level + _noise(draws, rng))

    return path


def _trend(slope: float) -> Path:
    return lambda draws, rng: slope * np.arange(draws) + _noise(draws, rng)


TUNED: dict[str, Path] = {
    "noise alone": _noise,
    "clicks, 3 %": _clicks(0.03),
    "heavy tails, t(3)": _heavy(3),
    "sine, 1.3 per draw": _sine(1.3),
    "sine, period 700": _sine(2 * np.pi / 700),
    "walk, steps 0.03 within ±3": _walk(0.03, 3),
    "walk, steps 0.008": _walk(0.008, 1e9),
    "jumps between ±2, every 1,500": _jumps(2, 1500),
    "autoregression, 0.8": _memory(0.8),
    "trend, 0.0004": _trend(4e-4),
}
OTHERS: dict[str, Path] = {
    "noise alone, other seeds": _noise,
    "clicks, 10 %": _clicks(0.1),
    "heavy tails, t(4)": _heavy(4),
    "sine, 2 per draw": _sine(2.0),
    "sine, period 1,000": _sine(2 * np.pi / 1000),
    "walk, steps 0.05 within ±5": _walk(0.05, 5),
    "walk, steps 0.01 within ±1": _walk(0.01, 1),
    "jumps between ±5, every 2,500": _jumps(5, 2500),
    "jumps between ±1, every 1,000": _jumps(1, 1000),
    "autoregression, 0.9": _memory(0.9),
    "trend, 0.0003": _trend(3e-4),
}
UNSEEN: dict[str, Path] = {
    "clicks, 1 %": _clicks(0.01),
    "sine, 0.7 per draw": _sine(0.7),
    "sine, period 250": _sine(2 * np.pi / 250),
    "walk, steps 0.1 within ±2": _walk(0.1, 2),
    "jumps between ±3, every 4,000": _jumps(3, 4000),
    "autoregression, 0.95": _memory(0.95),
}


def forecast_late(features: Array, rewards: Array, late: int) -> Array:
    """The forecasts if each outcome comes `late` draws after its draw."""
    forecaster, forecasts = Regression(), np.empty(len(rewards))
    for number in range(len(rewards)):
        forecasts[number] = forecaster.forecast(number, None, None)
        if number >= late:
            told = number - late
            forecaster.learn(told, features[told], float(rewards[told]))
    return forecasts


def _within(values: Array, start: int, stop: int) -> float:
    """Σ(v − mean of its batch)² over batches from `start` to `stop`."""
    total = 0.0
    while start < stop:
        end = min(stop, start + max(int(0.02 * start), 20))
        total += (end - start) * float(np.var(values[start:end]))
        start = end
    return total


def ratios(path: Path, seeds: Sequence[int], *, late: int = 0) -> Array:
    """The ratios of a run for each seed, by span."""
    draws = _DRAWS // 2 if late else _DRAWS
    levels, features = np.empty((len(seeds), draws)), np.empty((len(seeds), draws, len(_ARMS)))
    for run, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        levels[run] = path(draws, rng)
        features[run] = _ARMS[rng.integers(len(_ARMS), size=draws)]
    rewards = levels + features @ _EFFECTS * levels.std(axis=1, keepdims=True)
    if late:
        several = [forecast_late(x, r, late) for x, r in zip(features, rewards, strict=True)]
        forecasts = np.stack(several)
    else:
        forecaster = Regression()
        forecaster.select(np.zeros(len(seeds), dtype=np.int64))
        flat = forecaster.follow_runs(
            np.full(len(seeds), draws), features.reshape(-1, len(_ARMS)), rewards.ravel()
        )
        forecasts = flat.reshape(levels.shape)
    spans = [(start + 2 * late, min(stop, draws)) for start, stop in _SPANS]
    pairs = list(zip(levels, levels - forecasts, strict=True))
    return np.array(
        [[_within(rest, *span) / _within(level, *span) for span in spans] for level, rest in pairs]
    )


def time_per_draw(covariates: int, *, live: bool) -> float:
    """Microseconds per draw at five features: one forecast and one outcome."""
    rng, draws, best = np.random.default_rng(0), 2000, np.inf
    known = rng.standard_normal((draws, covariates)) if covariates else None
    features, rewards = _ARMS[rng.integers(5, size=draws)], rng.standard_normal(draws)
    for _ in range(5):
        forecaster = Regression()
        start = time.process_time()
        if live:
            for i in range(draws):
                forecaster.forecast(i, None, None if known is None else known[i])
                forecaster.learn(i, features[i], float(rewards[i]))
        else:
            forecaster.follow(0, None, known, features, rewards)
        best = min(best, time.process_time() - start)
    return 1e6 * best / draws


def _table(title: str, paths: dict[str, Path], *, runs: int, first_seed: int, late: int) -> None:
    print(f"\n{title}: {runs} runs, seeds from {first_seed}")
    print("| path |" + "".join(f" draws {start:,}–{stop:,} |" for start, stop in _SPANS))
    print("|---|" + "---|" * len(_SPANS))
    for name, path in paths.items():
        each = ratios(path, range(first_seed, first_seed + runs), late=late)
        half = 1.96 * each.std(axis=0, ddof=1) / np.sqrt(runs)
        cells = zip(each.mean(axis=0), half, strict=True)
        print(f"| {name} |" + "".join(f" {mean:.3f} ± {width:.3f} |" for mean, width in cells))


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    _table("Paths that constants were chosen on", TUNED, runs=_RUNS, first_seed=0, late=0)
    _table("Other paths", OTHERS, runs=_RUNS, first_seed=1000, late=0)
    _table("Paths first run at the end", UNSEEN, runs=_RUNS, first_seed=3000, late=0)
    title = f"Other paths, outcomes {_LATE} draws late, {_DRAWS // 2:,} draws"
    _table(title, OTHERS, runs=_LATE_RUNS, first_seed=2000, late=_LATE)
    print("\n| covariates | µs per draw, simulated | live |\n|---|---|---|")
    for covariates in (0, 8, 64):
        simulated, live = (time_per_draw(covariates, live=live) for live in (False, True))
        print(f"| {covariates} | {simulated:.1f} | {live:.1f} |")


if __name__ == "__main__":
    main()
