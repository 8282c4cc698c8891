"""Policies: one file each, all under one protocol. They are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bestarm.policies.catalog import BUILT_IN, PolicyInfo
from bestarm.policies.policy import Look, Method, Policy, Traits, check_adoptable

if TYPE_CHECKING:
    from bestarm.policies.anytime.rule import AnytimeBAI
    from bestarm.policies.budget.deo import DEO
    from bestarm.policies.budget.gopt import GOpt
    from bestarm.policies.budget.uniform import Uniform
    from bestarm.policies.means.action_elimination import ActionElimination
    from bestarm.policies.means.bernstein import BernsteinElimination
    from bestarm.policies.means.lucb import LUCB
    from bestarm.policies.means.paired import PairedTests
    from bestarm.policies.phased.halving import SequentialHalving
    from bestarm.policies.phased.rage import RAGE
    from bestarm.policies.phased.sbe import SBE
    from bestarm.policies.phased.spbai import SPBAI

__all__ = [
    "DEO",
    "LUCB",
    "RAGE",
    "SBE",
    "SPBAI",
    "ActionElimination",
    "AnytimeBAI",
    "BernsteinElimination",
    "GOpt",
    "Look",
    "Method",
    "PairedTests",
    "Policy",
    "PolicyInfo",
    "SequentialHalving",
    "Traits",
    "Uniform",
    "check_adoptable",
]

_MODULES: dict[str, str] = {}  # by class
for _each in BUILT_IN:
    _module, _, _class = _each.import_path.partition(":")
    _MODULES[_class] = _module


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'bestarm.policies' has no attribute {name!r}")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
