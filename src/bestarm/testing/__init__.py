"""Contract tests, shipped: run them on your own policy, or on your own place to keep books."""

from bestarm.testing.policy_contract import LinearRewards, check_policy
from bestarm.testing.store_contract import check_store

__all__ = ["LinearRewards", "check_policy", "check_store"]
