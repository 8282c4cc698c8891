"""What the paper compares, experiments and the anytime rule run without Numba."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys
from functools import partial

import bestarm
from bestarm import environments
from bestarm.environments import baselines
from bestarm.simulation import Oracle

sys.modules["numba"] = None  # as if it were not installed
methods = [
    partial(bestarm.SPBAI, max_phase_pulls=500),
    partial(bestarm.SBE, max_phase_pulls=500),
    Oracle(bestarm.GOpt, gap="gap"),
    bestarm.RAGE,
    partial(bestarm.DEO, budget=50),
    partial(bestarm.Uniform, budget=50),
    partial(bestarm.LUCB, max_pulls=500),
    partial(bestarm.ActionElimination, max_pulls=500),
    partial(bestarm.BernsteinElimination, bounds=(-9, 9), max_pulls=500),
    partial(bestarm.SequentialHalving, budget=500),
    partial(bestarm.AnytimeBAI, max_pulls=500),
]
moving = [
    baselines.none(),
    baselines.sinusoid(),
    baselines.random_walk(),
    baselines.switches(),
    baselines.adversary(),
]
for baseline in moving:
    world = environments.soare(2, 1.0, baseline=baseline, declared_baseline=2.0)
    for method in methods:
        bestarm.simulate(method, world, runs=2, delta=0.1)

rule = bestarm.AnytimeBAI(bestarm.Problem(["a", "b"]), bounds=(0, 1))
experiment = bestarm.Experiment(rule, seed=1)
while not experiment.finished:
    for assignment in experiment.ask(50):
        experiment.tell(assignment.id, 1 - assignment.arm)
print(experiment.recommendation().label)
"""


def test_the_core_does_not_need_numba() -> None:
    command = [sys.executable, "-c", _SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "a", done.stderr
