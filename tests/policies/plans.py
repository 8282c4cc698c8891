"""The next plan of a policy that has not stopped, and outcomes of plans by hand."""

from __future__ import annotations

import numpy as np

from bestarm import Plan, Summary
from bestarm.numerics.geometry import Array
from bestarm.policies import Policy
from bestarm.records import Counts

__all__ = ["equal_rewards", "next_counts", "next_plan", "next_weights"]


def next_plan(policy: Policy) -> Plan:
    plan = policy.plan()
    assert plan is not None
    return plan


def next_counts(policy: Policy) -> Counts:
    counts = next_plan(policy).counts
    assert counts is not None
    return counts


def next_weights(policy: Policy) -> Array:
    weights = next_plan(policy).weights
    assert weights is not None
    return weights


def equal_rewards(counts: object, sums: object) -> Summary:
    """Totals of equal rewards within each arm."""
    numbers, totals = np.asarray(counts, dtype=np.int64), np.asarray(sums, dtype=float)
    return Summary(numbers, totals, totals**2 / np.maximum(numbers, 1))
