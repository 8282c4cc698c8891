"""Find the best of several options with a stated error probability, even while the baseline drifts.

Public names load on first use, so that `import bestarm` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bestarm import bounds, datasets, design, environments, estimation
    from bestarm.evaluation import evaluate
    from bestarm.live import Experiment
    from bestarm.policies import (
        DEO,
        LUCB,
        RAGE,
        SBE,
        SPBAI,
        ActionElimination,
        AnytimeBAI,
        BernsteinElimination,
        GOpt,
        PairedTests,
        SequentialHalving,
        Uniform,
    )
    from bestarm.problem import Problem
    from bestarm.recommendation import Recommendation
    from bestarm.records import Plan, Summary
    from bestarm.simulation import simulate

__all__ = [
    "DEO",
    "LUCB",
    "RAGE",
    "SBE",
    "SPBAI",
    "ActionElimination",
    "AnytimeBAI",
    "BernsteinElimination",
    "Experiment",
    "GOpt",
    "PairedTests",
    "Plan",
    "Problem",
    "Recommendation",
    "SequentialHalving",
    "Summary",
    "Uniform",
    "bounds",
    "datasets",
    "design",
    "environments",
    "estimation",
    "evaluate",
    "simulate",
]

_HOMES = {
    "Experiment": "live",
    "Plan": "records",
    "Problem": "problem",
    "Recommendation": "recommendation",
    "Summary": "records",
    "evaluate": "evaluation",
    "simulate": "simulation",
}  # policies are not listed: all other names with a capital are theirs


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'bestarm' has no attribute {name!r}")
    if name.islower() and name not in _HOMES:
        return import_module(f"bestarm.{name}")
    return getattr(import_module(f"bestarm.{_HOMES.get(name, 'policies')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
