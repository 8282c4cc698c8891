"""Do the statistics survive operations? Outcomes that come late, out of order, or never.

    python -m benchmarks.operations [--runs 1000] [--seed 0] [--sqlite 50] [--only NAME ...]

Three options, rewards between 0 and 1, δ = 0.1. "steady" is best and always pays about the same;
"gamble" pays much or little; the baseline drifts. Bad outcomes (below 0.3) are the gamble's alone,
so what becomes of them decides. Every tick some assignments are asked for, and what has arrived is
told. "Near tie" leaves 0.02 between the best two, and experiments end undecided after 2000 pulls or
so.

"first n answers" is the rule that ours is not: a phase closes with whatever answers came first and
forgets the rest. It is here only to show that the delays are of the kind that matters.
"""

from __future__ import annotations

import argparse
import heapq
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from bestarm import SPBAI, AnytimeBAI, Problem
from bestarm.live import Experiment
from bestarm.numerics.geometry import Array
from bestarm.policies import Policy
from bestarm.records import Summary

DELTA = 0.1
BEST = 0
PACE = 25  # assignments a tick
LABELS = ["steady", "gamble", "poor"]

Delays = Callable[[Array, np.random.Generator], Array]


# --- the world ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """Three options; the best leads the gamble, whose mean is 0.5, by `lead`."""

    lead: float

    def rewards(self, arms: NDArray[np.int64], first: int, rng: np.random.Generator) -> Array:
        """The outcomes of assignments, the first of which has this number."""
        numbers = np.arange(first, first + len(arms))
        drift = 0.05 * np.sin(numbers / 150)
        around = rng.uniform(-0.05, 0.05, len(arms))
        gambled = np.where(rng.random(len(arms)) < 0.5, 0.9, 0.1)
        level = np.choose(arms, [0.5 + self.lead + around, gambled, 0.4 + around])
        return np.asarray(level + drift)


WIDE, NEAR = World(lead=0.2), World(lead=0.02)


def at_once(rewards: Array, rng: np.random.Generator) -> Array:
    """Nothing is late."""
    rng.random(len(rewards))
    return np.zeros(len(rewards))


def out_of_order(rewards: Array, rng: np.random.Generator) -> Array:
    """Some late, some early, whatever they say."""
    return rng.exponential(5.0, len(rewards))


def bad_news_late(rewards: Array, rng: np.random.Generator) -> Array:
    """Bad outcomes take ten times as long, on whatever option."""
    return np.where(rewards < 0.3, 10.0, 1.0) * rng.exponential(1.0, len(rewards))


def heavy_tailed(rewards: Array, rng: np.random.Generator) -> Array:
    """Of a thousand, the slowest takes three hundred times as long as the quickest."""
    return rng.pareto(1.2, len(rewards))


def lost_at_random(rewards: Array, rng: np.random.Generator) -> Array:
    """One in ten never comes, whatever it would have been."""
    delays = out_of_order(rewards, rng)
    return np.where(rng.random(len(rewards)) < 0.1, math.inf, np.minimum(delays, LEASE - 1))


def bad_news_lost(share: float) -> Delays:
    """Bad outcomes are lost more often than others."""

    def delays(rewards: Array, rng: np.random.Generator) -> Array:
        chance = np.where(rewards < 0.3, share, 0.02)
        arrived = np.minimum(out_of_order(rewards, rng), LEASE - 1)
        return np.where(rng.random(len(rewards)) < chance, math.inf, arrived)

    return delays


LEASE = 30.0  # ticks


# --- an experiment ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """What happens to an experiment.

    Attributes:
        world: what the outcomes are.
        delays: when they arrive.
        lease: ticks until an assignment is lost.
        missing: what that means to the anytime policy.
        policy: which one.
        most: pulls after which it is left undecided.
        first_answers: whether phases close with the first answers instead of with their members.
        sound: whether its error must be below δ, or above to show what was avoided.
    """

    world: World
    delays: Delays
    lease: float | None = None
    missing: str = "ignorable"
    policy: str = "anytime"
    most: int = 2000
    first_answers: bool = False
    sound: bool = True


@dataclass(frozen=True)
class Ended:
    """How an experiment ended: the final target, pulls given out, pulls the answer rests on."""

    named: int | None
    pulls: int
    used: int
    waited: int
    history: tuple[object, ...] = field(default=(), repr=False)

    @property
    def wrong(self) -> bool:
        return self.named is not None and self.named != BEST


class Clock:
    """Time, in ticks of a second from some day on: what is stored takes real times alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return 1_800_000_000.0 + self.now


def problem() -> Problem:
    return Problem(np.eye(3), source_labels=LABELS, delta=DELTA, noise=0.5, baseline=0.5)


def options(scenario: Scenario) -> dict[str, object]:
    if scenario.policy != "anytime":
        return {"anchor": 2}  # the same whatever the seed
    return {"bounds": [0.0, 1.0], "missing": scenario.missing, "max_pulls": scenario.most}


def policy(scenario: Scenario) -> Policy:
    if scenario.policy != "anytime":
        return SPBAI(problem(), anchor=2)
    worst = scenario.missing == "worst-case"
    return AnytimeBAI(
        problem(),
        bounds=(0, 1),
        missing="worst-case" if worst else "ignorable",
        max_pulls=scenario.most,
        changes=True,  # as `create` makes it
    )


def in_memory(scenario: Scenario, seed: int, clock: Clock) -> Experiment:
    return Experiment(policy(scenario), seed=seed, lease=scenario.lease, clock=clock)


def in_file(folder: Path) -> Callable[[Scenario, int, Clock], Experiment]:
    """Experiments in one SQLite file of a folder."""

    def make(scenario: Scenario, seed: int, clock: Clock) -> Experiment:
        return Experiment.create(
            f"sqlite:///{folder / 'experiments.db'}",
            f"experiment {time.time_ns()}",
            problem(),
            policy=scenario.policy,
            policy_options=options(scenario),
            seed=seed,
            lease=scenario.lease,
            clock=clock,
        )

    return make


def run(
    scenario: Scenario,
    seed: int,
    make: Callable[[Scenario, int, Clock], Experiment] = in_memory,
    *,
    keep: bool = False,
) -> Ended:
    """An experiment from beginning to end.

    Args:
        scenario: what happens to it.
        seed: of the draws; what the outcomes are, and when they come, is seeded by it too.
        make: begins the experiment.
        keep: whether to keep its history.
    """
    if scenario.first_answers:
        return _first_answers(scenario, seed)
    clock = Clock()
    rng = np.random.default_rng([seed, 1])
    arriving: list[tuple[float, int, float]] = []
    waited = 0
    with make(scenario, seed, clock) as experiment:
        while not experiment.finished:
            clock.now += 1.0
            batch = experiment.ask(PACE)
            waited += not batch.finished and len(batch) < PACE
            if batch and batch.experiment:
                rewards = scenario.world.rewards(batch.arms, batch.ids[0], rng)
                delays = scenario.delays(rewards, rng)
                for number, reward, delay in zip(batch.ids, rewards, delays, strict=True):
                    if delay < math.inf:
                        heapq.heappush(arriving, (clock.now + delay, number, float(reward)))
            told = []
            while arriving and arriving[0][0] <= clock.now:
                told.append(heapq.heappop(arriving)[1:])
            experiment.tell_many(told)
        recommendation = experiment.recommendation()
        pulls = experiment.status().pulls
        history = tuple(_history(experiment)) if keep else ()
    return Ended(
        recommendation.target if recommendation.final else None,
        pulls,
        recommendation.pulls,
        waited,
        history,
    )


def _history(experiment: Experiment) -> Iterator[object]:
    """All that was decided, and on what grounds."""
    with experiment.read() as snapshot:
        for piece in snapshot.rows(0, snapshot.head.assigned):
            yield from map(str, piece.tolist())
        for opened in snapshot.plans():
            yield opened.plan.phase, opened.plan.pulls, opened.first
        for entry in snapshot.summaries():
            yield entry.digest, entry.summary.sums.tobytes(), entry.summary.missing.tobytes()
        for event in snapshot.events(1):
            yield event.number, event.at, event.kind, str(sorted(event.data.items()))


def _first_answers(scenario: Scenario, seed: int) -> Ended:
    """The wrong rule: a phase's summary is made of the first answers that come, n of them."""
    made, rng = policy(scenario), np.random.default_rng([seed, 2])
    pulls = used = 0
    while (plan := made.plan()) is not None:
        now = 0.0
        answers: list[tuple[float, int, float]] = []
        weights = plan.weights
        assert weights is not None
        while len(arrived := [each for each in answers if each[0] <= now]) < plan.pulls:
            now += 1.0
            arms = rng.choice(len(weights), size=PACE, p=weights)
            rewards = scenario.world.rewards(arms, pulls, rng)
            when = now + scenario.delays(rewards, rng)
            answers += zip(when.tolist(), arms.tolist(), rewards.tolist(), strict=True)
            pulls += PACE
        first = sorted(arrived)[: plan.pulls]
        arms_told = [arm for _, arm, _ in first]
        made.update(Summary.from_pulls(arms_told, [reward for *_, reward in first], size=3))
        used += plan.pulls
    recommendation = made.recommend()
    return Ended(recommendation.target if recommendation.final else None, pulls, used, 0)


# --- what was found -----------------------------------------------------------------------------

SCENARIOS: dict[str, Scenario] = {
    "at once": Scenario(WIDE, at_once),
    "at once, near tie": Scenario(NEAR, at_once),
    "out of order": Scenario(WIDE, out_of_order),
    "out of order, near tie": Scenario(NEAR, out_of_order),
    "bad news late": Scenario(WIDE, bad_news_late),
    "bad news late, near tie": Scenario(NEAR, bad_news_late),
    "bad news late, sp-bai": Scenario(WIDE, bad_news_late, policy="sp-bai"),
    "heavy tails": Scenario(WIDE, heavy_tailed, most=200_000),
    "heavy tails and a lease": Scenario(WIDE, heavy_tailed, lease=LEASE),
    "lost at random": Scenario(WIDE, lost_at_random, lease=LEASE),
    "lost at random, near tie": Scenario(NEAR, lost_at_random, lease=LEASE),
    "lost at random, sp-bai": Scenario(WIDE, lost_at_random, lease=LEASE, policy="sp-bai"),
    "bad news lost": Scenario(WIDE, bad_news_lost(0.2), lease=LEASE, missing="worst-case"),
    "bad news lost, near tie": Scenario(NEAR, bad_news_lost(0.6), LEASE, "worst-case"),
    "bad news lost, taken as ignorable": Scenario(
        NEAR, bad_news_lost(0.6), lease=LEASE, sound=False
    ),
    "first n answers": Scenario(NEAR, bad_news_late, first_answers=True, sound=False),
}


def upper(wrong: int, runs: int, confidence: float = 0.99) -> float:
    """The largest error rate under which so few errors are not yet rarer than 1 − confidence."""
    return 1.0 if wrong == runs else float(beta.ppf(confidence, wrong + 1, runs - wrong))


def lower(wrong: int, runs: int, confidence: float = 0.99) -> float:
    """The least error rate under which so many errors are not yet rarer than 1 − confidence."""
    return 0.0 if wrong == 0 else float(beta.ppf(1 - confidence, wrong, runs - wrong + 1))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--sqlite", type=int, default=50, help="how many of them in a SQLite file too"
    )
    parser.add_argument("--only", nargs="*", choices=list(SCENARIOS), metavar="NAME")
    given = parser.parse_args(arguments)
    print(f"δ = {DELTA}, seeds {given.seed} to {given.seed + given.runs - 1}")
    print(f"{'':34}{'errors':>8}{'99 % of it':>12}{'decided':>9}{'pulls':>8}{'used':>8}  in file")
    for name in given.only or SCENARIOS:
        _report(name, given.runs, given.seed, given.sqlite)


def _report(name: str, runs: int, seed: int, stored: int) -> None:
    scenario, start = SCENARIOS[name], time.perf_counter()
    ended = [run(scenario, seed + number) for number in range(runs)]
    wrong = sum(each.wrong for each in ended)
    same = ""
    if stored and not scenario.first_answers:
        with tempfile.TemporaryDirectory() as folder:
            make = in_file(Path(folder))
            again = [run(scenario, seed + number, make) for number in range(min(stored, runs))]
        same = f"{sum(a == b for a, b in zip(again, ended, strict=False))} of {len(again)} the same"
    limit = f"≤ {upper(wrong, runs):.3f}" if scenario.sound else f"≥ {lower(wrong, runs):.3f}"
    decided = np.mean([each.named is not None for each in ended])
    pulls = np.mean([each.pulls for each in ended])
    used = np.mean([each.used for each in ended])
    print(
        f"{name:34}{wrong:8}{limit:>12}{decided:9.1%}{pulls:8.0f}{used:8.0f}  {same}"
        f"  ({time.perf_counter() - start:.0f} s)",
        flush=True,
    )


if __name__ == "__main__":
    main()
