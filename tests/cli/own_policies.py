"""Modules that a user might write, as text, and the commands run on them."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import commands

run = partial(commands.run, "compare")
refused = partial(commands.refused, "compare")


_numbers = itertools.count()

POLICY = '''
import os
import numpy as np
from bestarm import Plan, Recommendation, estimation
from bestarm.errors import ProtocolError
from bestarm.policies import Policy, check_adoptable


class Once(Policy):
    """One batch of uniform draws."""

    def __init__(self, problem, *, seed=0, pulls=5000):
        self.problem, self.seed, self.pulls = problem, seed, pulls
        self.theta = self.open = None

    def plan(self):
        if self.theta is not None:
            return None
        if self.open is None:
            arms = self.problem.arms
            self.open = Plan.randomised(np.full(arms, 1 / arms), self.pulls, phase=1)
        return self.open

    def adopt(self, plan):
        phase = 1 if self.theta is None else None
        self.open = check_adoptable(plan, self.problem, phase=phase, kind="randomised")
        self.pulls = plan.pulls

    def update(self, summary):
        plan = self.plan()
        if plan is None:
            raise ProtocolError("The policy has stopped.", field="summary")
        plan.check(summary)
        self.theta = estimation.orthogonalized(self.problem, summary, plan.weights)
        self.open = None

    def recommend(self):
        done = self.theta is not None
        target = int(np.argmax(self.problem.target @ self.theta)) if done else 0
        return Recommendation(
            target=target,
            label=self.problem.target_labels[target],
            final=False,
            reason="budget" if done else "running",
            pulls=self.pulls if done else 0,
            error_bound=None,
            active=tuple(range(self.problem.targets)),
        )
'''


def write_module(text: str, *, folder: Path | None = None) -> str:
    """Write a module that nobody has imported yet, and return its name."""
    name = f"own_{next(_numbers)}"
    ((folder or Path.cwd()) / f"{name}.py").write_text(text, encoding="utf-8")
    return name
