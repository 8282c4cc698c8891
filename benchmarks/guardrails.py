"""Guardrails: how often a harmless option is found worse, and how soon one that does harm is.

    python -m benchmarks.guardrails --runs 10000 [--only margin] [--processes 2]

Options that are exactly at the margin are the hardest of the harmless ones. Plans react to rewards
that go with the guardrail: whoever is refunded pays nothing. Every run has a
seed of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime import bets
from bestarm.policies.anytime.certificates import Certificate
from bestarm.policies.anytime.guardrails import GuardrailEvidence
from bestarm.policies.guardrail import Guardrail
from bestarm.records import Counts, Plan

ALPHA, MARGIN = 0.05, 0.05
FIRST = 40  # pulls of the first batches


class Moment(NamedTuple):
    """What is known before a batch: the pulls so far, its size, and the rates of the one before."""

    rng: np.random.Generator
    pulls: int
    size: int
    past: Array


@dataclass(frozen=True)
class World:
    """What happens: the effects of options on the guardrail, its baseline, and the plans.

    Attributes:
        effects: how much worse each option is than the control, which is the first.
        baseline: the control's rate at each pull of a batch.
        pulls: at which a run ends.
        leader: the share of the option of the highest mean reward so far.
        untold: which values are never told, from arms and values.
        growth: of batches: where there are many runs they are few and large, as each takes time.
    """

    effects: tuple[float, ...]
    baseline: Callable[[Moment], Array]
    pulls: int = 2000
    leader: float = 0.6
    untold: Callable[[Counts, Array], NDArray[np.bool_]] | None = None
    growth: float = 0.5


def level(rate: float, now: Moment) -> Array:
    """A constant rate."""
    return np.full(now.size, rate)


def sine(now: Moment) -> Array:
    """A wave of which a batch sees a part, or many."""
    return np.asarray(0.3 + 0.25 * np.sin(np.arange(now.pulls, now.pulls + now.size) / 60))


def walk(now: Moment) -> Array:
    """A random walk, folded into its bounds."""
    start = now.past[-1] if len(now.past) else 0.3
    steps = np.cumsum(now.rng.normal(scale=0.02, size=now.size)) + start
    return np.asarray(0.02 + np.abs((steps - 0.02 + 0.86) % 1.72 - 0.86))


def adversary(now: Moment) -> Array:
    """High in every second batch, which is when options other than the control are drawn most."""
    return np.full(now.size, 0.6 if len(now.past) and now.past[0] < 0.3 else 0.1)


def harmless(options: int) -> tuple[float, ...]:
    """Options that are exactly at the margin."""
    return (0.0, *(MARGIN for _ in range(options - 1)))


def hidden_zeros(arms: Counts, values: Array) -> NDArray[np.bool_]:
    """Of options without a refund, half are never told: what is told looks worse than it is."""
    return np.asarray((arms > 0) & (values == 0) & (np.arange(len(arms)) % 2 == 0))


WORLDS = {
    "level": World(harmless(4), partial(level, 0.1)),
    "rare": World(harmless(4), partial(level, 0.01)),
    "two options": World(harmless(2), partial(level, 0.1)),
    "twenty options": World(harmless(20), partial(level, 0.1)),
    "sine": World(harmless(4), sine),
    "random walk": World(harmless(4), walk),
    "adversary": World(harmless(4), adversary),
    "half of the zeros untold": World(harmless(4), partial(level, 0.1), untold=hidden_zeros),
}


class ArmMeans(GuardrailEvidence):
    """A twin without centering: it compares means, as if all options were drawn alike."""

    def open(self, plan: Plan) -> None:
        equal = np.full(plan.arms, 1 / plan.arms)
        super().open(Plan.randomised(equal, plan.pulls, phase=plan.phase, open=True))


class Undivided(GuardrailEvidence):
    """A twin that gives every option all of α."""

    @property
    def levels(self) -> Array:
        return np.full(self._options, -np.log(self.guardrail.alpha))


class Told(GuardrailEvidence):
    """A twin that leaves values out that were never told."""

    counted: Counts

    def close(self, drawn: Counts) -> None:  # noqa: ARG002
        super().close(self.counted)


TWINS = {"bestarm": GuardrailEvidence, "arm means": ArmMeans, "undivided": Undivided, "told": Told}
SHORT = bets.StakeGrid(np.array([0.06, 0.12]), np.log([0.5, 0.5]) - 1e-13)


def play(world: World, kind: type[GuardrailEvidence], short: bool, seed: int) -> int:
    """The pulls after which an option is found worse, or 0."""
    rng = np.random.default_rng([20261118, seed])
    guardrail = Guardrail("refund", (0.0, 1.0), MARGIN, ALPHA)
    size = len(world.effects)
    evidence = kind(guardrail, options=size, control=0, changes=False)
    if short:
        evidence._grid = SHORT
        evidence._worse, evidence._fine = (
            Certificate(size, threshold=evidence.levels, margin=margin, grid=SHORT)
            for margin in (-MARGIN, MARGIN)
        )
    effects, pulls, phase, past = np.array(world.effects), 0, 0, np.empty(0)
    counts, sums = np.zeros((2, size))
    while pulls < world.pulls:
        count, phase = max(FIRST, int(world.growth * pulls)), phase + 1
        rates = world.baseline(Moment(rng, pulls, count, past))
        weights = _weights(world, rates, counts, sums)
        arms = rng.choice(size, size=count, p=weights)
        values = (rng.random(count) < rates + effects[arms]).astype(float)
        rewards = (1 - values) * (rng.random(count) < 0.7)
        counts += np.bincount(arms, minlength=size)
        sums += np.bincount(arms, rewards, minlength=size)
        told = np.ones(count, dtype=bool)
        if world.untold is not None:
            told = ~world.untold(arms, values)
        evidence.open(Plan.randomised(weights, count, phase=phase, open=True))
        if isinstance(evidence, Told):
            evidence.counted = np.bincount(arms[told], minlength=size)
        evidence.close(np.bincount(arms, minlength=size))
        evidence.amend(phase, arms[told], values[told])
        pulls, past = pulls + count, rates
        if (evidence.log_evidence() >= evidence.levels).any():
            return pulls
    return 0


def _weights(world: World, rates: Array, counts: Array, sums: Array) -> Array:
    size = len(counts)
    if world.baseline is adversary:
        control = 0.15 if rates[0] > 0.3 else 0.7
        return np.array([control, *np.full(size - 1, (1 - control) / (size - 1))])
    if not counts.all():
        return np.full(size, 1 / size)
    weights = np.full(size, (1 - world.leader) / (size - 1))
    weights[np.argmax(sums / counts)] = world.leader
    return np.asarray(weights / weights.sum())


def measure(
    world: World, kind: str, runs: int, processes: int, *, short: bool = False
) -> list[int]:
    """The results of all runs."""
    job = partial(play, world, TWINS[kind], short)
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(job, range(runs), chunksize=50))


def share(found: int, runs: int) -> str:
    """A share with its 99 % interval (Clopper and Pearson)."""
    low = beta.ppf(0.005, found, runs - found + 1) if found else 0.0
    high = beta.ppf(0.995, found + 1, runs - found) if found < runs else 1.0
    return f"{found} of {runs} ({100 * low:.2f} to {100 * high:.2f} %)"


def show_margin(runs: int, processes: int) -> None:
    """Harmless options, exactly at the margin: at most α = 5 % of runs may find any of them."""
    for name, world in WORLDS.items():
        for short in (False, True) if name in {"level", "adversary"} else (True,):
            results = measure(world, "bestarm", runs, processes, short=short)
            what = f"{name}{', stakes for short runs' if short else ''}"
            print(f"{what}: {share(sum(map(bool, results)), runs)}", flush=True)


def show_twins(runs: int, processes: int) -> None:
    """Rules that are wrong, seen to exceed α."""
    for name, kind in (
        ("adversary", "arm means"),
        ("sine", "arm means"),
        ("twenty options", "undivided"),
        ("half of the zeros untold", "told"),
    ):
        results = measure(WORLDS[name], kind, runs, processes, short=kind == "undivided")
        print(f"{kind}, {name}: {share(sum(map(bool, results)), runs)}", flush=True)


def show_power(runs: int, processes: int) -> None:
    """One option of several that is worse by more than the margin: pulls until it is found."""
    for rate in (0.05, 0.1, 0.3):
        for times in (2, 3, 5):
            for options in (2, 4):
                effects = (*(0.0 for _ in range(options - 1)), times * MARGIN)
                world = World(
                    effects, partial(level, rate), 60_000, leader=1 / options, growth=0.05
                )
                results = np.array(measure(world, "bestarm", runs, processes))
                found = results[results > 0]
                quarters = np.percentile(found, [25, 50, 75]).astype(int).tolist()
                print(
                    f"rate {rate:g}, {times} margins, {options} options: median {quarters[1]} "
                    f"(quartiles {quarters[0]} to {quarters[2]}), {len(found)} of {runs}",
                    flush=True,
                )


WHOLE = 600  # pulls of a whole run
DELTA = 0.1


def play_whole(seed: int) -> tuple[int, bool]:
    """How many options the guardrail retired, and whether a wrong one of the others was named.

    Whoever gives rewards also gives refunds, so the guardrail retires an option when its rewards
    look best: the second option does harm, the others tie within a thousandth, and are at the
    margin or below it.
    """
    rng = np.random.default_rng([20261119, seed])
    problem = Problem(["old", "bold", "new", "newer"], delta=DELTA)
    policy = AnytimeBAI(problem, bounds=(0, 1), control="old", changes=True, max_pulls=WHOLE)
    guardrail = Guardrail("refund", (0.0, 1.0), MARGIN, ALPHA)
    evidence = GuardrailEvidence(guardrail, options=4, control=0, changes=True)
    refunds = 0.2 + np.array([0.0, 0.5, MARGIN, MARGIN])
    means, gone = np.array([0.5, 0.56, 0.5, 0.501]), set[int]()
    while (plan := policy.plan()) is not None:
        assert plan.weights is not None
        arms = rng.choice(4, size=plan.pulls, p=plan.weights)
        shared = rng.random(plan.pulls)  # refunds and rewards go together
        rewards, values = shared < means[arms], (shared < refunds[arms]).astype(float)
        evidence.open(plan)
        evidence.close(np.bincount(arms, minlength=4))
        evidence.amend(plan.phase, arms, values)
        summary = Summary.from_pulls(arms, rewards.astype(float), size=4, center=plan.center)
        policy.update(summary)
        for target in np.flatnonzero(evidence.log_evidence() >= evidence.levels).tolist():
            if target not in gone:
                gone.add(target)
                policy.retire(target)
    named, left = policy.recommend(), [each for each in range(4) if each not in gone]
    return len(gone), named.final and means[named.target] < means[left].max()


def show_whole(runs: int, processes: int) -> None:
    """The main decision, δ = 0.1, where guardrails retire options that look best."""
    with ProcessPoolExecutor(processes) as pool:
        results = list(pool.map(play_whole, range(runs), chunksize=20))
    print(f"wrong: {share(sum(wrong for _, wrong in results), runs)}")
    print(f"with an option retired: {share(sum(gone > 0 for gone, _ in results), runs)}")


PARTS = {"margin": show_margin, "twins": show_twins, "power": show_power, "whole": show_whole}


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    for name, part in PARTS.items():
        if given.only in (None, name):
            print(f"{name}: {part.__doc__}", flush=True)
            part(given.runs, given.processes)


if __name__ == "__main__":
    main()
