"""Methods: each one file, all under one protocol."""

from bestarm.policies.action_elimination import ActionElimination
from bestarm.policies.anytime import AnytimeBAI
from bestarm.policies.bernstein import BernsteinElimination
from bestarm.policies.deo import DEO
from bestarm.policies.gopt import GOpt
from bestarm.policies.halving import SequentialHalving
from bestarm.policies.lucb import LUCB
from bestarm.policies.policy import Method, Policy
from bestarm.policies.rage import RAGE
from bestarm.policies.sbe import SBE
from bestarm.policies.spbai import SPBAI
from bestarm.policies.uniform import Uniform

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
]

# Those that need more than a problem (a budget, an oracle's gap) are bound with functools.partial.
POLICIES: dict[str, Method] = {
    "anytime": AnytimeBAI,
    "sp-bai": SPBAI,
    "sbe": SBE,
    "rage": RAGE,
    "lucb": LUCB,
    "ae": ActionElimination,
}
