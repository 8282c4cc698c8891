"""Methods: each one file, all under one protocol. They load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bestarm.policies.policy import Method, Policy, check_adoptable

if TYPE_CHECKING:
    from bestarm.policies.anytime.rule import AnytimeBAI
    from bestarm.policies.index.action_elimination import ActionElimination
    from bestarm.policies.index.bernstein import BernsteinElimination
    from bestarm.policies.index.lucb import LUCB
    from bestarm.policies.oneshot.deo import DEO
    from bestarm.policies.oneshot.gopt import GOpt
    from bestarm.policies.oneshot.uniform import Uniform
    from bestarm.policies.phased.halving import SequentialHalving
    from bestarm.policies.phased.rage import RAGE
    from bestarm.policies.phased.sbe import SBE
    from bestarm.policies.phased.spbai import SPBAI

    POLICIES: dict[str, Method]

__all__ = [
    "DEO",
    "LUCB",
    "POLICIES",
    "RAGE",
    "SBE",
    "SPBAI",
    "ActionElimination",
    "AnytimeBAI",
    "BernsteinElimination",
    "GOpt",
    "Method",
    "Policy",
    "SequentialHalving",
    "Uniform",
    "check_adoptable",
]

_HOMES = {
    "ActionElimination": "index.action_elimination",
    "AnytimeBAI": "anytime.rule",
    "BernsteinElimination": "index.bernstein",
    "DEO": "oneshot.deo",
    "GOpt": "oneshot.gopt",
    "LUCB": "index.lucb",
    "RAGE": "phased.rage",
    "SBE": "phased.sbe",
    "SPBAI": "phased.spbai",
    "SequentialHalving": "phased.halving",
    "Uniform": "oneshot.uniform",
}
# Those that need more than a problem (a budget, an oracle's gap) are bound with functools.partial.
_NAMES = {
    "anytime": "AnytimeBAI",
    "sp-bai": "SPBAI",
    "sbe": "SBE",
    "rage": "RAGE",
    "lucb": "LUCB",
    "ae": "ActionElimination",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found: object = getattr(import_module(f"bestarm.policies.{_HOMES[name]}"), name)
    elif name == "POLICIES":
        found = {key: __getattr__(home) for key, home in _NAMES.items()}
    else:
        raise AttributeError(f"module 'bestarm.policies' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
