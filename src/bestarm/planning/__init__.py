"""How long an experiment will take: simulated before it begins, under stated assumptions."""

from bestarm.planning.assumptions import Drift, Scenario
from bestarm.planning.effort import Effort, JobEffort
from bestarm.planning.forecasts import AssumedWorld, ExperimentPlan, PolicyForecast
from bestarm.planning.plan import plan_experiment
from bestarm.planning.request import DEFAULT_POLICIES, PlanRequest

__all__ = [
    "DEFAULT_POLICIES",
    "AssumedWorld",
    "Drift",
    "Effort",
    "ExperimentPlan",
    "JobEffort",
    "PlanRequest",
    "PolicyForecast",
    "Scenario",
    "plan_experiment",
]
