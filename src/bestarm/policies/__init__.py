"""Methods: each one file, all under one protocol."""

from bestarm.policies.policy import Method, Policy
from bestarm.policies.rage import RAGE
from bestarm.policies.spbai import SPBAI

__all__ = ["POLICIES", "RAGE", "SPBAI", "Method", "Policy"]

POLICIES: dict[str, Method] = {"sp-bai": SPBAI, "rage": RAGE}
