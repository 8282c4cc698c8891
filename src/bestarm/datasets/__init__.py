"""Public data as environments, read from files one has; nothing is ever downloaded."""

from bestarm.datasets.jester import RatingsData, jester

__all__ = ["RatingsData", "jester"]
