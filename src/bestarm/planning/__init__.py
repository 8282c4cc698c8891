"""How long a trial will take, before it begins: simulated under assumptions one states."""

from bestarm.planning.assumptions import Drift, Scenario
from bestarm.planning.effort import Effort, JobEffort
from bestarm.planning.forecasts import Assumed, Forecast, TrialPlan
from bestarm.planning.trial import DEFAULT_POLICIES, plan_trial

__all__ = [
    "DEFAULT_POLICIES",
    "Assumed",
    "Drift",
    "Effort",
    "Forecast",
    "JobEffort",
    "Scenario",
    "TrialPlan",
    "plan_trial",
]
