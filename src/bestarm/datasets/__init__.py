"""Public data as environments, read from local files; nothing is downloaded."""

from bestarm.datasets.jester import RatingsData, jester

__all__ = ["RatingsData", "jester"]
