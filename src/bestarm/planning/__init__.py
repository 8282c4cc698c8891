"""How long an experiment will take: simulated before it begins, under stated assumptions."""

from bestarm.planning.assumptions import Drift, Scenario
from bestarm.planning.effort import Effort, JobEffort
from bestarm.planning.forecasts import AssumedWorld, ExperimentPlan, PolicyForecast
from bestarm.planning.plan import DEFAULT_POLICIES, plan_experiment

__all__ = [
    "DEFAULT_POLICIES",
    "AssumedWorld",
    "Drift",
    "Effort",
    "ExperimentPlan",
    "JobEffort",
    "PolicyForecast",
    "Scenario",
    "plan_experiment",
]
