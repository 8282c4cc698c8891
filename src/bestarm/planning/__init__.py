"""How long an experiment will take, or what it can find: simulated under stated assumptions."""

from bestarm.planning.forecasts import AssumedWorld, ExperimentPlan, PolicyForecast, Saving, Spread
from bestarm.planning.lifts import (
    POWERS,
    DetectableLift,
    DetectableLifts,
    LiftCurve,
    LiftPoint,
    detectable_lifts,
)
from bestarm.planning.plan import Effort, JobEffort, plan_experiment
from bestarm.planning.request import DEFAULT_POLICIES, Drift, PlanRequest, Scenario

__all__ = [
    "DEFAULT_POLICIES",
    "POWERS",
    "AssumedWorld",
    "DetectableLift",
    "DetectableLifts",
    "Drift",
    "Effort",
    "ExperimentPlan",
    "JobEffort",
    "LiftCurve",
    "LiftPoint",
    "PlanRequest",
    "PolicyForecast",
    "Saving",
    "Scenario",
    "Spread",
    "detectable_lifts",
    "plan_experiment",
]
