"""Methods: each one file, all under one protocol. They load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bestarm.policies.policy import Method, Policy, check_adoptable

if TYPE_CHECKING:
    from bestarm.policies.action_elimination import ActionElimination
    from bestarm.policies.anytime import AnytimeBAI
    from bestarm.policies.bernstein import BernsteinElimination
    from bestarm.policies.deo import DEO
    from bestarm.policies.gopt import GOpt
    from bestarm.policies.halving import SequentialHalving
    from bestarm.policies.lucb import LUCB
    from bestarm.policies.rage import RAGE
    from bestarm.policies.sbe import SBE
    from bestarm.policies.spbai import SPBAI
    from bestarm.policies.uniform import Uniform

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
    "ActionElimination": "action_elimination",
    "AnytimeBAI": "anytime",
    "BernsteinElimination": "bernstein",
    "DEO": "deo",
    "GOpt": "gopt",
    "LUCB": "lucb",
    "RAGE": "rage",
    "SBE": "sbe",
    "SPBAI": "spbai",
    "SequentialHalving": "halving",
    "Uniform": "uniform",
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
