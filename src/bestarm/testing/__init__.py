"""Contract tests for your own policies and your own stores."""

from bestarm.testing.policy_contract import check_policy
from bestarm.testing.policy_samples import LinearRewards
from bestarm.testing.store_contract import check_store

__all__ = ["LinearRewards", "check_policy", "check_store"]
