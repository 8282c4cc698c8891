"""Methods: each one file, all under one protocol."""

from bestarm.policies.deo import DEO
from bestarm.policies.gopt import GOpt
from bestarm.policies.policy import Method, Policy
from bestarm.policies.rage import RAGE
from bestarm.policies.sbe import SBE
from bestarm.policies.spbai import SPBAI
from bestarm.policies.uniform import Uniform

__all__ = ["DEO", "POLICIES", "RAGE", "SBE", "SPBAI", "GOpt", "Method", "Policy", "Uniform"]

# Those that need more than a problem (a budget, an oracle's gap) are bound with functools.partial.
POLICIES: dict[str, Method] = {"sp-bai": SPBAI, "rage": RAGE, "sbe": SBE}
