"""Contract tests, shipped: run them on your own policy."""

from bestarm.testing.policy_contract import LinearRewards, check_policy

__all__ = ["LinearRewards", "check_policy"]
