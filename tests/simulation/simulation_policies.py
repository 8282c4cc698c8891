"""Tiny policies for testing the engine; importable, so that worker processes can have them."""

from __future__ import annotations

import os
import signal

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.policies import Policy
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.records import Counts, Plan, Summary


class ArmMeans(Policy):
    """Plans of uniform random draws, their lengths drawn from the seed; then the best mean."""

    def __init__(self, problem: Problem, *, seed: int, plans: int = 2, pulls: int = 300) -> None:
        self.problem = problem
        self.seed = seed
        rng = np.random.default_rng(seed)
        self._lengths = [int(n) for n in rng.integers(pulls // 2, pulls + 1, size=plans)]
        self._done: list[Summary] = []

    def plan(self) -> Plan | None:
        phase = len(self._done)
        if phase == len(self._lengths):
            return None
        arms = self.problem.arms
        return Plan.randomised(np.full(arms, 1 / arms), self._lengths[phase], phase=phase + 1)

    def adopt(self, plan: Plan) -> None:
        raise NotImplementedError

    def update(self, summary: Summary) -> None:
        self._done.append(summary)

    def recommend(self) -> Recommendation:
        counts: Counts = np.sum([s.counts for s in self._done], axis=0)
        sums = np.sum([s.sums for s in self._done], axis=0)
        target = int(np.argmax(sums / np.maximum(counts, 1)))
        label = self.problem.target_labels[target]
        final = target % 2 == 0
        active = tuple(range(self.problem.targets))
        return Recommendation(target, label, final, "identified", counts.sum(), None, active)


class Failing(ArmMeans):
    """Refuses to update in about one run of three, in the given way."""

    def __init__(self, problem: Problem, *, seed: int, ours: bool = False) -> None:
        super().__init__(problem, seed=seed)
        self._ours = ours

    def update(self, summary: Summary) -> None:
        super().update(summary)
        if self.seed % 3 == 0:
            if self._ours:
                raise InvalidInputError("No.", field="seed", value=self.seed, remedy="Never.")
            raise ZeroDivisionError("as asked")


class Interrupting(ArmMeans):
    """Sends its own process a Ctrl-C in about one run of nine."""

    def update(self, summary: Summary) -> None:
        super().update(summary)
        if self.seed % 9 == 0:
            os.kill(os.getpid(), signal.SIGINT)


class Tallied(ArmMeans):
    """Adds a byte to a file when it starts, whichever process it is in."""

    def __init__(self, problem: Problem, *, seed: int, tally: str) -> None:
        super().__init__(problem, seed=seed)
        with open(tally, "ab", buffering=0) as file:
            file.write(b".")
