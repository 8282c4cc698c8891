"""How long an experiment will take, or what it can find: simulated under stated assumptions."""

from bestarm.planning.forecasts import ExperimentPlan, PolicyForecast, Spread
from bestarm.planning.lifts import (
    POWERS,
    DetectableLift,
    DetectableLifts,
    LiftCurve,
    LiftPoint,
    detectable_lifts,
)
from bestarm.planning.plan import plan_experiment
from bestarm.planning.request import Drift, PlanRequest
from bestarm.planning.worlds import AssumedWorld

__all__ = [
    "POWERS",
    "AssumedWorld",
    "DetectableLift",
    "DetectableLifts",
    "Drift",
    "ExperimentPlan",
    "LiftCurve",
    "LiftPoint",
    "PlanRequest",
    "PolicyForecast",
    "Spread",
    "detectable_lifts",
    "plan_experiment",
]
