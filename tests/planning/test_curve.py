"""A plan beside an ordinary test of fixed size, and over leads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bestarm.planning.curve import fixed_test, visitor_curve
from bestarm.planning.plan import plan_experiment
from bestarm.planning.request import read_request


def request(**given: object) -> dict[str, object]:
    settings = {"options": ["a", "b", "c"], "delta": 0.05, "runs": 4, "policies": ["anytime"]}
    return settings | {"gap": 0.1, "base": 0.3, "bounds": [0, 1], "drift": ["none"]} | given


def test_a_fixed_test_of_the_size_stated_is_as_sure_as_stated() -> None:
    """Of 4,000 simulated tests the share that shows every lead is 1 − δ, up to 4 standard errors
    (6e-5 by chance), where the variance is the one that the plan assumes."""
    plan = plan_experiment(read_request(request()))
    [world] = plan.scenarios
    size = fixed_test(plan, world)
    assert size is not None
    each, tests = math.ceil(size / 3), 4000
    rng = np.random.default_rng(2)
    means = 0.4 + rng.standard_normal((tests, 3)) * world.noise / math.sqrt(each)
    means[:, 1:] -= 0.1
    error = world.noise * math.sqrt(2 / each)
    limit = 2.2414  # the 1 − 0.05/4 quantile of the normal law: two comparisons, two sides
    shown = (means[:, :1] - means[:, 1:] > limit * error).all(axis=1).mean()
    # The comparisons share an option, so that all of them show the lead rather more often.
    assert 0.95 - 4 * math.sqrt(0.05 * 0.95 / tests) < shown < 0.98


def test_outcomes_fall_with_the_square_of_the_lead() -> None:
    plan = plan_experiment(read_request(request()))
    curve = visitor_curve(plan)
    assert curve is not None
    middle = len(curve.lead) // 2
    assert (curve.lead[0], curve.lead[middle], curve.lead[-1]) == pytest.approx((0.05, 0.1, 0.2))
    [forecast] = plan.forecasts
    assert curve.median[middle] == pytest.approx(forecast.pulls.median)
    assert curve.high[middle] == pytest.approx(forecast.pulls.high)
    assert curve.fixed[0] == pytest.approx(4 * curve.fixed[middle])


def test_blocks_have_no_fixed_test_beside_them() -> None:
    assert visitor_curve(plan_experiment(read_request(request(block=2)))) is None
