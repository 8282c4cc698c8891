"""How long an experiment will take: simulated before it begins, under stated assumptions."""

from bestarm.planning.forecasts import AssumedWorld, ExperimentPlan, PolicyForecast, Saving, Spread
from bestarm.planning.plan import Effort, JobEffort, plan_experiment
from bestarm.planning.request import DEFAULT_POLICIES, Drift, PlanRequest, Scenario

__all__ = [
    "DEFAULT_POLICIES",
    "AssumedWorld",
    "Drift",
    "Effort",
    "ExperimentPlan",
    "JobEffort",
    "PlanRequest",
    "PolicyForecast",
    "Saving",
    "Scenario",
    "Spread",
    "plan_experiment",
]
