"""What policies are told and say to pull: plans, and what came of them."""

from bestarm.records.blocks import BlockPlan, Blocks, Rounds, as_blocks
from bestarm.records.order import round_robin
from bestarm.records.single import Counts, Plan, Summary

__all__ = [
    "BlockPlan",
    "Blocks",
    "Counts",
    "Plan",
    "Rounds",
    "Summary",
    "as_blocks",
    "round_robin",
]
