"""Visitors over the lead that is to be found, beside an ordinary test of fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bestarm.planning.forecasts import ExperimentPlan
from bestarm.planning.worlds import AssumedWorld

_POINTS = 41
_RANGE = 2.0  # from half of the lead to twice the lead

_NORMAL = NormalDist()


@dataclass(frozen=True)
class VisitorCurve:
    """How many visitors a lead takes; `None` in a plan that no fixed test compares with.

    Attributes:
        lead: leads, in units of the outcome.
        median: outcomes of the first policy in half of all experiments, which grow with 1/lead²
            from the lead that was simulated.
        high: what 9 of 10 experiments need.
        fixed: outcomes of a test of fixed size.
    """

    lead: tuple[float, ...]
    median: tuple[float, ...]
    high: tuple[float, ...]
    fixed: tuple[float, ...]


def fixed_test(plan: ExperimentPlan, world: AssumedWorld) -> float | None:
    """Outcomes of all options together that an ordinary test of fixed size needs.

    It compares the best option with each other one, at level and power as a plan has them: with
    probability 1 − δ all comparisons show the lead, and with probability δ at most one of them
    shows one that is not there. Per option n = 2σ²(z_{1 − δ/2m} + z_{1 − δ/m})²/lead² with m
    comparisons. None in blocks and with features, where a fixed test is another one.
    """
    if plan.block > 1 or plan.arms != plan.targets:
        return None
    share = plan.delta / (plan.arms - 1)
    deviates = _NORMAL.inv_cdf(1 - share / 2) + _NORMAL.inv_cdf(1 - share)
    return plan.arms * 2 * (world.noise * deviates / world.gap) ** 2


def visitor_curve(plan: ExperimentPlan) -> VisitorCurve | None:
    """Visitors over the lead under the first drift, for the first policy that was simulated."""
    if not plan.forecasts:
        return None
    forecast = plan.forecasts[0]
    world = next(each for each in plan.scenarios if each.scenario == forecast.scenario)
    fixed = fixed_test(plan, world)
    if fixed is None or forecast.pulls.cut:
        return None
    ratio = np.geomspace(1 / _RANGE, _RANGE, _POINTS)
    at = {"median": forecast.pulls.median, "high": forecast.pulls.high, "fixed": fixed}
    return VisitorCurve(
        tuple((world.gap * ratio).tolist()),
        **{name: tuple((size / ratio**2).tolist()) for name, size in at.items()},
    )
