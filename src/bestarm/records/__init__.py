"""What policies are told and say to pull: plans, and what came of them."""

from bestarm.records.blocks import BlockPlan, Blocks, Rounds
from bestarm.records.single import Counts, Plan, Summary, round_robin

__all__ = ["BlockPlan", "Blocks", "Counts", "Plan", "Rounds", "Summary", "round_robin"]
