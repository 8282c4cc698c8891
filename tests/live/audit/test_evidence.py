"""The test of arms against their probabilities, beside urns filled ball by ball."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm.live.audit.evidence import RatioTest
from bestarm.numerics.geometry import Array

FIRMNESS = (10.0, 100.0, 1e3, 1e4, 1e5)  # draws for which an alternative is believed in


def urns(weights: Array, draws: list[int]) -> float:
    """The average over urns of how much likelier the draws are from them than from the weights.

    An urn begins with F balls in proportion to the weights and gains one of each colour drawn.
    """
    total = 0.0
    for firmness in FIRMNESS:
        balls, ratio = firmness * weights, 1.0
        for arm in draws:
            ratio *= balls[arm] / balls.sum() / weights[arm]
            balls = balls + np.eye(len(weights))[arm]
        total += ratio
    return total / len(FIRMNESS)


@pytest.mark.parametrize("draws", [[0] * 6, [0, 0, 1, 0, 2, 0, 0, 0], [2] * 5 + [0] * 9])
def test_the_chance_is_one_over_the_average_of_all_urns(draws: list[int]) -> None:
    """An average of likelihood ratios has mean 1: it reaches 1/c with probability at most c."""
    weights = np.array([0.1, 0.3, 0.6])
    test = RatioTest(3)
    test.add(weights, np.bincount(draws, minlength=3))
    assert test.p_value == pytest.approx(1 / max(urns(weights, draws), 1.0), rel=1e-9)
    assert urns(weights, draws) > 1


def test_no_draw_and_one_draw_are_no_evidence() -> None:
    test = RatioTest(2)
    assert test.p_value == 1
    test.add(np.array([0.5, 0.5]), np.array([1, 0]))
    assert test.p_value == pytest.approx(1)
