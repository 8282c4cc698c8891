"""Errors of the anytime rule where somebody who looks at the data adds and retires options.

python -m benchmarks.changes [--runs 10000] [--seed 5] [--workers 2]
    [--only best runner-up added mixed]
python -m benchmarks.changes --cost --runs 200

Every adversary also meets the naive rule: a retired option's part in the wealth is kept, or there
is no reserve for options that are added. Options that matter are nearly tied, so that a right
answer is as rare as a wrong one; delta = 0.1. Runs are cut after a number of batches.

With --cost nobody is adverse: how many outcomes a product test takes where an option that is not
the best is added or retired, delta = 0.05.
"""

from __future__ import annotations

import argparse
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from statistics import NormalDist

import numpy as np

from bestarm import AnytimeBAI, Problem
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.evidence import BestTargetEvidence
from bestarm.records import Plan, Summary
from bestarm.simulation.results import wilson

DELTA = 0.1
TIE = 0.0005  # by which the best option is better
PULLS = 150  # per batch
NEAR = 1.0  # nats from a decision: the moment to change something
STAGES = 8  # options that are added


class World:
    """Conversions under a baseline that moves from batch to batch, and a rule that is told them.

    Attributes:
        rule: the rule.
        means: of the options, the baseline apart.
    """

    def __init__(self, means: list[float], seed: int) -> None:
        self._rng = np.random.default_rng([seed, 41])
        self.means = means
        names = [f"option {i}" for i in range(len(means))]
        problem = Problem(names, delta=DELTA)
        self.rule = AnytimeBAI(problem, bounds=(0, 1), changes=True)

    def advance(self, focus: list[int] | None = None) -> bool:
        """Carry out a batch, mostly of the options in focus; False once the rule has stopped."""
        rule = self.rule
        if rule.has_stopped():
            return False
        # The same probability for all options that are left: no design has to be solved.
        weights = np.zeros(len(self.means))
        weights[rule._targets.present] = 1
        if focus is not None:
            weights *= 0.1 / weights.sum()
            weights[focus] += 0.45
        weights /= weights.sum()
        phase, center = rule._plans + 1, rule._scale.center
        rule.adopt(
            Plan.randomised(weights, PULLS, phase=phase, open=True, provisional=True, center=center)
        )
        arms = self._rng.choice(len(weights), size=PULLS, p=weights)
        rewards = self._rng.random(PULLS) < np.array(self.means)[arms] + 0.2 * np.sin(phase)
        summary = Summary.from_pulls(arms, rewards.astype(float), size=len(weights), center=center)
        self.rule.update(summary)
        return True

    @property
    def lacking(self) -> Array:
        """The evidence that each option lacks to be dropped, in nats."""
        return np.asarray(self.rule._threshold - self.rule._evidence.log_evidence())

    def retire(self, option: int, *, naive: bool) -> None:
        """Retire an option; the naive rule goes on with the wealth that there is."""
        before = self.rule._evidence
        self.rule.retire(option)
        if naive and isinstance(before, BestTargetEvidence):
            before._counted.clear()
            before._capital[:] = 0.0
            before._update()
            self.rule._decide()

    def add(self, mean: float, *, naive: bool) -> None:
        """Add an option; with the naive rule it starts with the wealth of all others at first."""
        self.means = [*self.means, mean]
        names = [f"option {i}" for i in range(len(self.means))]
        self.rule.add(Problem(names, delta=DELTA))
        if naive and isinstance(self.rule._evidence, BestTargetEvidence):
            self.rule._evidence._capital[-1] = self.rule._evidence._values[0, -1] = 0.0

    @property
    def wrong(self) -> bool:
        """Whether it has dropped the best of those that are left, or named another."""
        rule, left = self.rule, self.rule._targets.present
        best = left[np.argmax(np.array(self.means)[left])]
        return best not in rule.recommend().active


def best(seed: int, *, naive: bool) -> bool:
    """The truly best is retired while it is far ahead, when the next best is nearly dropped."""
    world = World([0.5, 0.5 + TIE, 0.65], seed)
    for _ in range(24):
        if not world.advance():
            break
        lacking = world.lacking
        if not world.rule._targets.retired and lacking[1] < NEAR < lacking[0]:
            world.retire(2, naive=naive)
    return world.wrong


def runner_up(seed: int, *, naive: bool) -> bool:
    """A runner-up is retired when the best of the rest is nearly dropped because of it."""
    world = World([0.5, 0.5 + TIE, 0.5, 0.5, 0.5], seed)
    for _ in range(24):
        if not world.advance():
            break
        left, leader = world.rule._targets.present, world.rule.recommend().target
        others = left[(left != 1) & (left != leader)]
        near = np.flatnonzero(world.lacking < 2 * NEAR)
        if leader != 1 and len(left) > 2 and 1 in near and len(others):
            world.retire(int(others[0]), naive=naive)
    return world.wrong


def added(seed: int, *, naive: bool) -> bool:
    """A better one is added once it is nearly decided, or open for long, and not wrong yet."""
    world, age = World([0.5, 0.5 + TIE], seed), 0
    for _ in range(8 * (STAGES + 1)):
        newest = len(world.means) - 1
        if not world.advance([newest - 1, newest]) or world.wrong:
            break
        age += 1
        decided = (np.delete(world.lacking, newest) < NEAR).all()
        if newest <= STAGES and (decided or age >= 8):
            world.add(max(world.means) + TIE, naive=naive)
            age = 0
    return world.wrong


def mixed(seed: int, *, naive: bool) -> bool:
    """The best is retired, a better one than the rest is added, the leader is retired again."""
    world = World([0.5, 0.5 + TIE, 0.6], seed)
    for batch in range(36):
        if not world.advance() or world.wrong:
            break
        left, lacking = world.rule._targets.present, world.lacking
        if 2 in left and lacking[1] < NEAR < lacking[0]:
            world.retire(2, naive=naive)
        elif len(world.means) < 5 and batch % 8 == 7:
            world.add(max(np.array(world.means)[left]) + TIE, naive=naive)
    return world.wrong


ADVERSARIES = {"best": best, "runner-up": runner_up, "added": added, "mixed": mixed}


RATES = [0.2, 0.3, 0.2]  # of the options of the start, at the middle of the wave
LOSER = 0.2  # the rate of an option that is added
EARLY = 500  # outcomes before a change
LEAST_RUNS = 6  # fewer show no interval of 95 % for a median
CAP = 50_000  # outcomes: who has dropped the best has no winner to find
COSTS: dict[str, dict[str, bool]] = {
    "three options, changes=False": {"changes": False},
    "three options": {},
    "one of three retired": {"retires": True},
    "four options": {"four": True},
    "three options, a fourth added": {"adds": True},
    "a fourth added, one retired": {"adds": True, "retires": True},
}


def outcomes_until_decided(
    seed: int,
    *,
    changes: bool = True,
    four: bool = False,
    adds: bool = False,
    retires: bool = False,
) -> tuple[int, bool]:
    """Outcomes of a product test until it is decided, and whether it has dropped the best."""
    rng = np.random.default_rng([seed, 43])
    rates = [*RATES, LOSER] if four else RATES
    rule = AnytimeBAI(Problem(_names(rates), delta=0.05), bounds=(0, 1), changes=changes)
    outcomes = 0
    while not rule.has_stopped() and outcomes < CAP:
        plan = rule.plan()
        assert plan is not None
        assert plan.weights is not None
        times = outcomes + np.arange(plan.pulls)
        arms = rng.choice(len(rates), size=plan.pulls, p=plan.weights)
        wave = 0.1 * np.sin(2 * np.pi * times / 1000)
        rewards = rng.random(plan.pulls) < np.array(rates)[arms] + wave
        rule.update(Summary.from_pulls(arms, rewards, size=len(rates), center=plan.center))
        outcomes += plan.pulls
        if outcomes >= EARLY > outcomes - plan.pulls and not rule.has_stopped():
            if adds:
                rates = [*rates, LOSER]
                rule.add(Problem(_names(rates), delta=0.05))
            if retires:
                rule.retire(0)
    return outcomes, 1 not in rule.recommend().active


def _names(rates: list[float]) -> list[str]:
    return [f"option {i}" for i in range(len(rates))]


def print_costs(runs: int, pool: Executor) -> None:
    """The median of outcomes until decided, with and without changes; from 6 runs on, its 95 %."""
    for name, settings in COSTS.items():
        play = partial(outcomes_until_decided, **settings)
        found = list(pool.map(play, range(runs), chunksize=10))
        taken = np.array([outcomes for outcomes, _ in found])
        told = f"{np.median(taken):6,.0f}"
        if runs >= LEAST_RUNS:
            half = 0.98 / np.sqrt(runs)  # of the interval of 95 %, as a probability
            low, high = np.quantile(taken, [0.5 - half, 0.5 + half])
            told += f" ({low:,.0f} to {high:,.0f})"
        wrong = sum(dropped for _, dropped in found)
        print(f"{name:32s}{told}, dropped the best: {wrong} of {runs}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(ADVERSARIES))
    parser.add_argument("--cost", action="store_true")
    chosen = parser.parse_args()
    if chosen.cost:
        with ProcessPoolExecutor(chosen.workers) as pool:
            print_costs(chosen.runs, pool)
        return
    print(f"Runs in which the best option left is dropped, delta = {DELTA:g}; interval of 99 %")
    with ProcessPoolExecutor(chosen.workers) as pool:
        for name in chosen.only:
            for naive in (False, True):
                runs, rule = (chosen.runs // 10, "naive") if naive else (chosen.runs, "the rule")
                seeds = range(chosen.seed * 1_000_000, chosen.seed * 1_000_000 + runs)
                play = partial(ADVERSARIES[name], naive=naive)
                wrong = sum(pool.map(play, seeds, chunksize=50))
                low, high = wilson(wrong, runs, NormalDist().inv_cdf(0.995))
                told = f"{wrong:6d} of {runs:6d}   {low:.4f} to {high:.4f}"
                print(f"{name:12s}{rule:10s}{told}", flush=True)


if __name__ == "__main__":
    main()
