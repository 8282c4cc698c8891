"""Summaries have the least and the largest reward of each arm where a plan asks for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bestarm import Summary
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.environments.baselines import Baseline
from bestarm.errors import InvalidInputError
from bestarm.records import Plan


def test_amended_extremes_are_those_of_all_outcomes() -> None:
    first = replace(
        Summary.from_pulls([0, 0, 1], [0.2, 0.9, 0.5], size=4), pending=np.array([1, 0, 2, 0])
    )
    later = Summary.from_pulls([0, 2, 2], [0.1, -0.3, 0.7], size=4)
    whole = first.amended(later)
    assert whole.least is not None
    assert whole.largest is not None
    assert whole.least.tolist() == [0.1, 0.5, -0.3, 0.0]
    assert whole.largest.tolist() == [0.9, 0.5, 0.7, 0.0]
    assert first.amended(replace(later, least=None, largest=None, cubes=None)).least is None


def test_extremes_must_have_an_order() -> None:
    one = np.ones(1)
    with pytest.raises(InvalidInputError, match="least"):
        Summary(np.array([2]), one, one, least=one, largest=0 * one, cubes=one)


MOVING: dict[str, Baseline | float] = {
    "constant": 1.0,
    "sinusoid": baselines.sinusoid(),
    "switches": baselines.switches((-2.0, 2.0), period=50),
    "adversary": baselines.adversary(2.0),
}


@pytest.mark.parametrize("name", [*MOVING, "ratings", "each user once"])
def test_streams_tell_extremes_where_a_plan_asks_for_them(name: str) -> None:
    rng = np.random.default_rng(3)
    if name in MOVING:
        world: Semiparametric | Ratings = Semiparametric(
            np.eye(3), [0.5, 0.2, 0.0], baseline=MOVING[name], noise=0.5
        )
    else:
        table = rng.integers(-3, 4, (500, 3)) + np.array([0.5, 0.2, 0.0])
        world = Ratings(table, replacement=name == "ratings")
    stream = world.begin(rng)
    for phase in range(1, 4):
        plan = Plan.randomised([0.5, 0.3, 0.2], 60, phase=phase, center=0.25, extremes=True)
        summary = stream.pull(plan)
        assert summary.least is not None
        assert summary.largest is not None
        means = summary.sums / summary.counts
        assert (summary.least < means).all()
        assert (means < summary.largest).all()
        # Σ(x − least)(largest − x) ≥ 0, and equality would need rewards at the two ends alone.
        ends = summary.least + summary.largest
        inside = ends * summary.sums - summary.counts * summary.least * summary.largest
        assert (inside > summary.squares - 1e-9).all()
