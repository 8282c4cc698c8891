"""Simulate an experiment before it is run, under stated assumptions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any

from bestarm.checks import interval, positive, whole
from bestarm.errors import InvalidInputError
from bestarm.planning.assumptions import Drift, Scenario, as_drift
from bestarm.planning.effort import Effort, Job, estimate_effort
from bestarm.planning.forecasts import AssumedWorld, ExperimentPlan, PolicyForecast, forecast
from bestarm.planning.warnings import remarks
from bestarm.planning.worlds import World, make_world
from bestarm.policies import Method
from bestarm.policies.registry import policies as registered
from bestarm.problem import Problem, as_problem
from bestarm.simulation import Outcome, simulate
from bestarm.simulation.progress import Progress, reporting

if TYPE_CHECKING:
    pass

__all__ = ["DEFAULT_POLICIES", "plan_experiment"]

DEFAULT_POLICIES = ("anytime", "sp-bai-sharp", "sp-bai")
_MOST = 10**11  # pulls of all simulated experiments together: about an hour of one core


def plan_experiment(
    problem: Problem,
    *,
    gap: float | None = None,
    scenarios: Sequence[Scenario] = (),
    drift: str | Drift | Sequence[str | Drift] = "sine",
    bounds: tuple[float, float] | None = None,
    level: float | None = None,
    policies: Sequence[str] | Mapping[str, Method] = DEFAULT_POLICIES,
    per_day: float | None = None,
    runs: int = 200,
    seed: int = 0,
    max_pulls: int | None = None,
    executor: Executor | None = None,
    progress: Progress = False,
    on_estimate: Callable[[Effort], object] | None = None,
) -> ExperimentPlan:
    """Estimate how many outcomes an experiment will take, by simulating it many times.

    Args:
        problem: the experiment's problem, with the scales that policies are told.
        gap: the smallest lead worth finding, in units of the reward. The hardest case is simulated:
            all others trail the best target by as little as the features allow.
        scenarios: assumptions in detail, instead of `gap`, `drift` and `level`.
        drift: how the baseline moves, or several ways: `"none"`, `"sine"`, `"walk"`, `"switches"`.
        bounds: the lowest and the highest reward, for bounded rewards. Simulated rewards are then
            one or the other, like yes and no, and policies that use bounds are told them.
        level: the reward about which the baseline moves: 0, or the middle of the bounds. A rate of
            5 % is `bounds=(0, 1), level=0.05`.
        policies: names, or a table from names to methods.
        per_day: outcomes per day; converts outcomes to days, and is the period of the drift.
        runs: simulated experiments of each policy in each scenario.
        seed: the results depend only on it and on the other arguments.
        max_pulls: the cap at which a simulated experiment is cut; by default 100 times the lower
            bound, and at least a million. Without it, a plan whose lower bounds add up to more than
            10¹¹ pulls is refused.
        executor: any `concurrent.futures` executor; without one the runs are made in this process.
        progress: True shows a bar; a function is called with (runs done, runs in total), the first
            time before any run. If it raises KeyboardInterrupt later, or Ctrl-C is pressed, the
            finished runs are returned.
        on_estimate: called once, before anything is simulated, with the estimated cost. The
            estimate takes a second or two. An exception it raises ends the plan.

    Raises:
        InvalidInputError: an argument is invalid, means would leave the bounds, or there would be
            too many pulls to simulate.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.planning import plan_experiment
        >>> plan = plan_experiment(Problem(np.eye(3)), gap=0.5, policies=["sp-bai-sharp"], runs=20)
        >>> plan.forecasts[0].wrong
        0
    """
    as_problem(problem)
    limits = None if bounds is None else interval(bounds, "bounds")
    daily = None if per_day is None else positive(per_day, "per_day")
    runs, seed = whole(runs, "runs", least=1), whole(seed, "seed", least=0)
    cap = None if max_pulls is None else whole(max_pulls, "max_pulls", least=1)
    methods = _methods(policies)
    wanted = _scenarios(gap, scenarios, drift, level)
    worlds = [make_world(problem, each, bounds=limits, per_day=daily) for each in wanted]
    _check_effort([world.assumed for world in worlds], runs, len(methods), cap)
    jobs = [
        _job(name, _bound(method, limits, cap or world.cap), world, cap or world.cap)
        for world in worlds
        for name, method in methods.items()
    ]
    for job in jobs:  # refuse a policy that cannot be made before anything is simulated
        job.method(problem, seed=0)
    found: list[PolicyForecast] = []
    interrupted = False
    total = runs * len(jobs)
    with reporting(progress, total) as report:
        report(0, 0)  # before the first run, which may take long
        if on_estimate is not None:
            on_estimate(estimate_effort(jobs, runs=runs, seed=seed, delta=problem.delta))
        state = _Progress(report)
        try:
            for job in jobs:
                results = simulate(
                    job.method,
                    job.environment,
                    runs=runs,
                    seed=seed,
                    delta=problem.delta,
                    executor=executor,
                    progress=state.runs,
                    record=state.pulls,
                )
                if results.runs:
                    bound = job.lower_bound
                    found.append(forecast(results, policy=job.policy, lower_bound=bound))
                if results.interrupted:
                    interrupted = True
                    break
                state.before += runs
        except KeyboardInterrupt:  # between two policies
            interrupted = True
    assumed = tuple(world.assumed for world in worlds)
    return ExperimentPlan(
        arms=problem.arms,
        targets=problem.targets,
        delta=problem.delta,
        bounds=limits,
        per_day=daily,
        runs=runs,
        seed=seed,
        scenarios=assumed,
        forecasts=tuple(found),
        interrupted=interrupted,
        warnings=remarks(
            problem, assumed, found, bounds=limits, per_day=daily, partial=interrupted
        ),
    )


class _Progress:
    """Runs and pulls over all of a plan's simulations."""

    def __init__(self, report: Callable[[int, int], object]) -> None:
        self._report = report
        self._pulls = 0
        self.before = 0

    def runs(self, done: int, _total: int) -> None:
        self._report(self.before + done, self._pulls)

    def pulls(self, outcomes: Sequence[Outcome]) -> None:
        self._pulls += sum(outcome.pulls for outcome in outcomes)


def _job(policy: str, method: Method, world: World, cap: int) -> Job:
    return Job(
        policy=policy,
        scenario=world.assumed.scenario,
        method=method,
        environment=world.environment,
        gap=world.assumed.gap,
        lower_bound=world.assumed.lower_bound,
        cap=cap,
    )


def _check_effort(
    worlds: Sequence[AssumedWorld], runs: int, policies: int, cap: int | None
) -> None:
    """Refuse a plan that would not end: no rule takes fewer pulls than the lower bound."""
    most = math.inf if cap is None else cap
    least = runs * policies * sum(min(each.lower_bound, most) for each in worlds)
    if least <= _MOST:
        return
    assumed = max(worlds, key=lambda each: each.lower_bound)
    raise InvalidInputError(
        f"Finding a lead of {assumed.gap:.3g} takes at least {assumed.lower_bound:.2g} outcomes by "
        f"any rule (scenario {assumed.scenario!r}). Simulating {runs:,} experiments per policy "
        f"would take at least {least:.2g} pulls; the limit is {_MOST:.0g}.",
        field="gap",
        value=assumed.gap,
        remedy="Plan for a larger gap, tighter bounds or fewer runs, or cut the experiments with "
        "`max_pulls`.",
    )


def _methods(policies: Sequence[str] | Mapping[str, Method]) -> Mapping[str, Method]:
    if isinstance(policies, Mapping):
        chosen = dict(policies)
    else:
        names = [policies] if isinstance(policies, str) else list(policies)
        known = {name: each for name, each in registered().items() if each.plannable}
        for name in names:
            if name not in known:
                raise InvalidInputError(
                    f"Unknown policy {name!r}; known are {', '.join(known)}.",
                    field="policies",
                    value=name,
                    remedy="Pass other methods as a table from names to methods.",
                )
        chosen = {name: known[name].method for name in names}
    if not chosen:
        raise InvalidInputError("There must be at least one policy.", field="policies", value=())
    return chosen


def _scenarios(
    gap: float | None,
    scenarios: Sequence[Scenario],
    drift: str | Drift | Sequence[str | Drift],
    level: float | None,
) -> list[Scenario]:
    if (gap is None) == (not scenarios):
        raise InvalidInputError(
            "A plan needs either a gap or scenarios.",
            field="gap",
            value=gap,
            remedy="The gap is the smallest lead worth finding, in units of the reward.",
        )
    if gap is not None:
        several = [drift] if isinstance(drift, (str, Drift)) else list(drift)
        kinds = [as_drift(each) for each in several]
        wanted = [Scenario(each.kind, gap=gap, drift=each, level=level) for each in kinds]
    else:
        wanted = list(scenarios)
    names = [each.name for each in wanted]
    if not names or len(set(names)) < len(names):
        raise InvalidInputError(
            "Every scenario needs a different name.", field="scenarios", value=names
        )
    return wanted


def _bound(method: Method, bounds: tuple[float, float] | None, cap: int) -> Method:
    """The method with the options it accepts: bounds, and where to stop."""
    taken = inspect.signature(method).parameters
    told: dict[str, Any] = {"max_pulls": cap} | ({} if bounds is None else {"bounds": bounds})
    fixed = method.keywords if isinstance(method, partial) else {}
    options = {key: value for key, value in told.items() if key in taken and key not in fixed}
    return partial(method, **options)
