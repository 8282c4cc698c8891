"""Conversions told at once and zeros when the window is over: such tests end, and name the best.

Simulated with `benchmarks.late`. The former rule, which learned from whatever was there, was
undecided after 4,000 visits in each of these runs with conversions at once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import late
from bestarm.live import Experiment

RATES = (0.1, 0.1, 0.3)
WINDOW = 400.0
RUNS = 3


def visits(told: str) -> int:
    """How many visits some tests take together; all name the best."""
    pages = late.Pages(RATES, WINDOW, late.TOLD[told], most=4000)
    ended = [late.run(pages, seed) for seed in range(RUNS)]
    assert [each.named for each in ended] == [2] * RUNS
    return sum(each.visits for each in ended)


@pytest.mark.parametrize("told", ["conversions at once", "zeros at once", "some forgotten"])
def test_what_is_told_early_does_not_mislead(told: str) -> None:
    assert visits(told) <= 1.3 * visits("at the end") + RUNS * WINDOW


def test_the_lead_shown_is_that_of_phases_that_are_nearly_complete() -> None:
    """After two windows; of the young visits, nothing is known but conversions."""
    pages = late.Pages(RATES, WINDOW, late.conversions_at_once, most=int(2 * WINDOW))
    policy = pages.policy()
    late.run(pages, 0, lambda _, seed, clock: Experiment(policy, seed=seed, clock=clock))
    recommendation = policy.recommend()
    assert recommendation.leads
    assert not recommendation.final
    assert 0.1 < policy.intervals().estimate.max() < 0.3
