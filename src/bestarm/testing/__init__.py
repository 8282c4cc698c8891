"""Contract tests for your own policies, forecasters and stores."""

from bestarm.testing.forecaster_contract import check_forecaster
from bestarm.testing.policy_contract import LinearRewards, check_policy
from bestarm.testing.store_contract import check_store

__all__ = ["LinearRewards", "check_forecaster", "check_policy", "check_store"]
