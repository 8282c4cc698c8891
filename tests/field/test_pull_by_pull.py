"""Rules that choose every pull do the same many pulls at once and plan by plan."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from bestarm import Problem
from bestarm.field import KLLUCB, P1, BayesGap, LinGapE, XYStatic
from bestarm.presampled import AdversaryPast, PresampledRewards
from bestarm.records import Summary

PULLS = 400
RULES = {
    "lingape": partial(LinGapE, sigma=0.3),
    "xy-static": partial(XYStatic, sigma=0.1),
    "kl-lucb": partial(KLLUCB, sigma=0.3),
    "bayes-gap": partial(BayesGap, budget=PULLS),
    "p1": partial(P1, budget=PULLS),
}


def rewards(adversary: AdversaryPast | None) -> PresampledRewards:
    """Three arms, three rows in turn, and noise."""
    rng = np.random.default_rng(2)
    table = np.array([0.5, 0.4, 0.1]) + 0.1 * rng.normal(size=(3, 3))
    return PresampledRewards(table, np.arange(PULLS) % 3, 0.3 * rng.normal(size=PULLS), adversary)


@pytest.mark.parametrize("bound", [None, 0.2])
@pytest.mark.parametrize("name", RULES)
def test_a_run_is_the_same_many_pulls_at_once(name: str, bound: float | None) -> None:
    """Also against an adversary, which reacts to every pull."""
    rule: Any = RULES[name]
    quick, slow = (rule(Problem(np.eye(3), delta=0.1)) for _ in range(2))
    one, other = (None if bound is None else AdversaryPast(bound, 3) for _ in range(2))
    quick.run_presampled(rewards(one))
    known = rewards(None)
    for row, noise in zip(known.rows, known.common, strict=True):
        if (plan := slow.plan()) is None:
            break
        arm = int(np.argmax(plan.counts))
        paid = np.array([known.table[row, arm] + noise])
        if other is not None:
            paid = other.respond(np.array([arm]), paid)
        slow.update(Summary.from_pulls([arm], paid, size=3))
    assert quick._counts.tolist() == slow._counts.tolist()
    assert quick._sums.tolist() == pytest.approx(slow._sums.tolist())
    found, expected = quick.recommend(), slow.recommend()
    assert (found.target, found.reason, found.pulls) == (
        expected.target,
        expected.reason,
        expected.pulls,
    )
    assert found.pulls > 3
