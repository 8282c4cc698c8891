"""Contract tests for your own policies and forecasters."""

from bestarm.testing.forecaster_contract import check_forecaster
from bestarm.testing.policy_contract import LinearRewards, check_policy

__all__ = ["LinearRewards", "check_forecaster", "check_policy"]
