"""Methods on arm means, of testing platforms and semiparametric bandits beside published figures.

    python -m benchmarks.field_means [--runs 1000] [--workers 2] [--only track-and-stop]
    python -m benchmarks.field_means --drift
    python -m benchmarks.field_means --speed

Prints Markdown. Intervals are at 95 %: Wilson's for errors, normal ones for means. The best arm is
never the first, so that ties between equal means help nobody.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm import AnytimeBAI, simulate
from bestarm.environments import Environment, Semiparametric, soare
from bestarm.environments.two_point import TwoPoint
from bestarm.field.bayes_gap import BayesGap
from bestarm.field.centered import BOSE, ActionCentered, KimPaik
from bestarm.field.eb_tci import EBTCI
from bestarm.field.industry import EpochStratified, PeriodThompson
from bestarm.field.kl_lucb import KLLUCB
from bestarm.field.lil_ucb import LilUCB
from bestarm.field.p1 import P1
from bestarm.field.track_and_stop import TrackAndStop
from bestarm.numerics.geometry import Array
from bestarm.policies import Policy
from bestarm.simulation import Results

DELTA = 0.1
TABLE_1 = "Garivier and Kaufmann (2016), Table 1"


def bernoulli(*means: float) -> Environment:
    """Arms that pay 1 with these probabilities, and else 0."""
    return TwoPoint(np.eye(len(means)), means, bounds=(0, 1), noise=0.5, name=_name(means))


def gaussian(*means: float, noise: float = 1.0) -> Environment:
    """Arms with these means and Gaussian noise."""
    return Semiparametric(np.eye(len(means)), means, noise=noise, name=_name(means))


def sparse(arms: int) -> Environment:
    """One arm with mean 1/2, the others 0, variance 1/4: H = 4K pulls (Jamieson et al. 2014)."""
    means = 0.5 * np.eye(arms)[-1]
    return Semiparametric(np.eye(arms), means, noise=0.5, name=f"1-sparse, K = {arms}")


def _name(means: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{mean:g}" for mean in reversed(means)) + ")"


FIRST, SECOND = bernoulli(0.4, 0.43, 0.45, 0.5), bernoulli(0.18, 0.19, 0.2, 0.21, 0.3)
MENARD, CLOSE = gaussian(0.7, 0.8, 0.85, 1.0), gaussian(0.0, 0.02)
ZERO_ONE: dict[str, Any] = {"bounds": (0, 1)}


Pairs = tuple[tuple[str, Callable[..., Policy], tuple[int, int]], ...]


class Row(NamedTuple):
    """A method on an instance, with the published mean number of pulls, as far as it is known."""

    name: str
    method: Any
    world: Environment
    published: int | None = None
    source: str = ""


def _rows() -> list[Row]:
    tuned: dict[str, Any] = {"threshold": "experiments"}
    pairs: Pairs = (
        ("track-and-stop", TrackAndStop, (4052, 1406)),
        ("kl-lucb", KLLUCB, (8437, 2716)),
    )
    rows = [
        Row(f"{name}, experiments", partial(method, **tuned, **ZERO_ONE), world, pulls, TABLE_1)
        for name, method, published in pairs
        for world, pulls in zip((FIRST, SECOND), published, strict=True)
    ]
    rows += [Row(name, partial(method, **ZERO_ONE), SECOND) for name, method, _ in pairs]
    rows += [
        Row("kl-lucb, small", partial(KLLUCB, threshold="small", **ZERO_ONE), SECOND),
        Row("track-and-stop, experiments", partial(TrackAndStop, **tuned), MENARD),
        Row("track-and-stop, certified", partial(TrackAndStop, threshold="certified"), MENARD),
        Row("eb-tci, experiments", partial(EBTCI, **tuned), MENARD),
        Row("eb-tci", EBTCI, MENARD),
        Row("kl-lucb", KLLUCB, MENARD),
    ]
    for arms in (11, 100):
        rows += [
            Row("lil-ucb", partial(LilUCB, sigma=0.5), sparse(arms)),
            Row("lil-ucb, experiments", partial(LilUCB, sigma=0.5, **tuned), sparse(arms)),
        ]
    platforms: tuple[tuple[str, Callable[..., Policy]], ...] = (
        ("epoch-stratified", EpochStratified),
        ("period-thompson", PeriodThompson),
    )
    return rows + [Row(*each, world) for world in (MENARD, CLOSE) for each in platforms]


def _print_rows(rows: list[Row], runs: int, executor: Executor | None) -> None:
    print("| method | instance | errors | pulls | published | source |")
    print("|---|---|---:|---:|---:|---|")
    for row in rows:
        results = simulate(row.method, row.world, runs=runs, delta=DELTA, executor=executor)
        published = "–" if row.published is None else f"{row.published:,}"
        print(
            f"| {row.name} | {row.world.name} | {_errors(results)} | {_pulls(results.pulls)} "
            f"| {published} | {row.source or '–'} |",
            flush=True,
        )


def _errors(results: Results) -> str:
    n, wrong = len(results.correct), int((~results.correct).sum())
    p, z = wrong / n, 1.96
    center, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = (100 * (center + sign * half) / (1 + z * z / n) for sign in (-1, 1))
    return f"{100 * p:.1f} % ({max(low, 0):.1f}–{high:.1f})"


def _pulls(pulls: NDArray[Any]) -> str:
    return f"{pulls.mean():,.0f} ± {1.96 * pulls.std(ddof=1) / np.sqrt(len(pulls)):,.0f}"


def _wave(rounds: Array) -> Array:
    return np.asarray(2 * np.sin(rounds / 300))


def _slope(rounds: Array) -> Array:
    return np.asarray(rounds / 1000)


def _print_drift(only: str, runs: int, executor: Executor | None) -> None:
    """The same arms under levels that move; means that ignore it fail, and regret is shown."""
    methods: dict[str, Callable[..., Policy]] = {
        "epoch-stratified": EpochStratified,
        "period-thompson": PeriodThompson,
        "eb-tci": partial(EBTCI, max_pulls=10**6),
        "kl-lucb": partial(KLLUCB, max_pulls=10**6),
        "anytime": partial(AnytimeBAI, max_pulls=200_000),
    }
    print("| method | baseline | errors | pulls | regret of 20 runs |")
    print("|---|---|---:|---:|---:|")
    for kind, baseline in (("none", 0.0), ("wave", _wave), ("slope", _slope)):
        if only not in kind:
            continue
        world = Semiparametric(np.eye(4), [0.7, 0.8, 0.85, 1.0], baseline=baseline, name=kind)
        for name, method in methods.items():
            results = simulate(method, world, runs=runs, delta=DELTA, executor=executor)
            print(f"| {name} | {kind} | {_errors(results)} | {_pulls(results.pulls)} | – |")
        bandits: dict[str, Callable[..., Policy]] = {
            "action-centered": ActionCentered,
            "bose": BOSE,
            "bose, width 2": partial(BOSE, width=2.0),
            "kim-paik": KimPaik,
        }
        for name, bandit in bandits.items():
            method = partial(bandit, budget=5000)
            results = simulate(method, world, runs=runs, delta=DELTA, executor=executor)
            cost = np.array([_regret(method, world, run) for run in range(20)])
            print(f"| {name} | {kind} | {_errors(results)} | 5,000 | {_pulls(cost)} |", flush=True)


def _regret(method: Callable[..., Policy], world: Semiparametric, run: int) -> float:
    """Σ (best mean − mean of the arm pulled) of a run."""
    problem, counts = world.problem(DELTA), np.zeros(4)
    policy, stream = method(problem, seed=run), world.begin(np.random.default_rng(run))
    while (plan := policy.plan()) is not None:
        policy.update(summary := stream.pull(plan))
        counts += summary.counts
    means = problem.source @ world.theta
    return float(counts @ (means.max() - means))


def _print_speed() -> None:
    """Pulls per second of processor time with ten arms.

    Once for the rule alone, on rewards that are known, and once for whole runs, in which rewards
    are drawn as well.
    """
    world = gaussian(*np.zeros(9), 0.01)
    yes = TwoPoint(np.eye(10), np.r_[np.full(9, 0.5), 0.505], bounds=(0, 1), noise=0.5)
    methods: dict[str, tuple[Callable[..., Policy], Environment]] = {
        "lil-ucb": (LilUCB, world),
        "kl-lucb": (KLLUCB, world),
        "kl-lucb, Bernoulli": (partial(KLLUCB, **ZERO_ONE), yes),
        "eb-tci": (EBTCI, world),
        "track-and-stop": (TrackAndStop, world),
        "track-and-stop, Bernoulli": (partial(TrackAndStop, **ZERO_ONE), yes),
        "p1": (P1, world),
        "bayes-gap": (BayesGap, world),
        "bayes-gap, Soare": (BayesGap, soare(9, 0.3)),
        "epoch-stratified": (EpochStratified, world),
        "period-thompson": (PeriodThompson, world),
    }
    print("| method | rule alone | whole runs |\n|---|---:|---:|")
    for name, (method, place) in methods.items():
        simulate(_capped(method, 2000), place, runs=1)  # compiles
        alone, whole = _alone(method, place), _simulated(method, place)
        print(f"| {name} | {alone:,.0f} | {whole:,.0f} |", flush=True)


def _length(method: Any) -> int:
    """The pulls of a run: fewer where they are not compiled."""
    return {P1: 200_000, BayesGap: 20_000}.get(method, 2_000_000)


def _capped(method: Any, pulls: int) -> Any:
    """The method with at most so many pulls."""
    return partial(method, **{"budget" if method in {P1, BayesGap} else "max_pulls": pulls})


def _simulated(method: Any, world: Environment) -> float:
    begin = time.process_time()
    pulls = simulate(_capped(method, _length(method)), world, runs=2, seed=1).pulls.sum()
    return float(pulls / (time.process_time() - begin))


def _alone(method: Any, world: Environment) -> float:
    """0 for a policy that does not follow."""
    place = world.instance(np.random.default_rng(0))
    stream: Any = place.begin(np.random.default_rng(1))
    policy = _capped(method, _length(method))(place.problem(DELTA), seed=0)
    if not policy.traits.runs_presampled:
        return 0.0
    policy.update(stream.pull(policy.plan()))
    presampled = stream.presample(_length(method))
    begin = time.process_time()
    pulls = policy.run_presampled(presampled)[0]
    return float(pulls / (time.process_time() - begin))


def main() -> None:
    """Read the options and print what they ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="methods, or with --drift baselines, whose name contains this"
    )
    parser.add_argument("--drift", action="store_true")
    parser.add_argument("--speed", action="store_true")
    chosen = parser.parse_args()
    if chosen.speed:
        _print_speed()
        return
    executor = ProcessPoolExecutor(chosen.workers) if chosen.workers > 1 else None
    if chosen.drift:
        _print_drift(chosen.only, chosen.runs, executor)
    else:
        _print_rows([row for row in _rows() if chosen.only in row.name], chosen.runs, executor)


if __name__ == "__main__":
    main()
