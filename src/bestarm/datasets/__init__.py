"""Public data as environments, read from local files; nothing is downloaded."""

from bestarm.datasets.alpaca_eval import JudgementsData, alpaca_eval
from bestarm.datasets.jester import RatingsData, jester

__all__ = ["JudgementsData", "RatingsData", "alpaca_eval", "jester"]
