"""Find the best of several options with a stated error probability, even while the baseline drifts.

Public names load on first use, so that `import bestarm` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bestarm import bounds, datasets, design, environments, estimation
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
        SequentialHalving,
        Uniform,
    )
    from bestarm.problem import Problem
    from bestarm.records import Plan, Recommendation, Summary
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
    "simulate",
]

_HOMES = {
    "ActionElimination": "bestarm.policies",
    "BernsteinElimination": "bestarm.policies",
    "AnytimeBAI": "bestarm.policies",
    "DEO": "bestarm.policies",
    "Experiment": "bestarm.live",
    "GOpt": "bestarm.policies",
    "LUCB": "bestarm.policies",
    "Plan": "bestarm.records",
    "Problem": "bestarm.problem",
    "RAGE": "bestarm.policies",
    "Recommendation": "bestarm.records",
    "SBE": "bestarm.policies",
    "SPBAI": "bestarm.policies",
    "SequentialHalving": "bestarm.policies",
    "Summary": "bestarm.records",
    "Uniform": "bestarm.policies",
    "simulate": "bestarm.simulation",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"bestarm.{name}")
    raise AttributeError(f"module 'bestarm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
