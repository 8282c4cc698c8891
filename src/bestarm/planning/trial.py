"""Simulates a trial before it is run, under assumptions one states."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm import bounds as theory
from bestarm.checks import interval, positive, whole
from bestarm.environments import Environment, Semiparametric
from bestarm.errors import InvalidInputError
from bestarm.geometry import Array
from bestarm.planning.assumptions import Drift, Scenario, as_drift
from bestarm.planning.effort import Effort, Job, estimate_effort
from bestarm.planning.forecasts import Assumed, Forecast, TrialPlan, forecast
from bestarm.planning.truths import closest, typical
from bestarm.planning.warnings import remarks
from bestarm.policies import Method
from bestarm.policies.registry import policies as registered
from bestarm.problem import Problem, as_problem
from bestarm.simulation import Outcome, simulate
from bestarm.simulation.progress import Progress, reporting

if TYPE_CHECKING:
    from bestarm.environments.paths import Constant, Moving

__all__ = ["DEFAULT_POLICIES", "plan_trial"]

DEFAULT_POLICIES = ("anytime", "sp-bai-sharp", "sp-bai")
_PERIOD = 1000.0  # outcomes, where nothing is said of a day
_CAP = 100  # times the lower bound
_LEAST_CAP = 1_000_000
_MOST = 10**11  # pulls of all simulated trials together: about an hour on a core


def plan_trial(
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
) -> TrialPlan:
    """How many outcomes a trial will take, by simulating it many times.

    Args:
        problem: the trial's problem, with the scales that policies are told.
        gap: the smallest lead worth finding, in units of the reward: simulates the hardest case,
            in which all others trail the best target by as little as the features allow.
        scenarios: assumptions in detail, instead of `gap`, `drift` and `level`.
        drift: how the baseline moves, or several ways: `"none"`, `"sine"`, `"walk"`, `"switches"`.
        bounds: the lowest and the highest reward, where there are such: rewards are then one or the
            other, as yes and no are, and policies that use bounds are told them.
        level: the reward about which the baseline moves: 0, or the middle of the bounds. A rate of
            5 % is `bounds=(0, 1), level=0.05`.
        policies: names, or a table of names and methods of one's own.
        per_day: outcomes a day: says how long it takes, and is the drift's period.
        runs: simulated trials of each policy in each scenario.
        seed: results depend on it and on the rest, on nothing else.
        max_pulls: where a simulated trial is cut; 100 times the lower bound by default, and a
            million at least. Without it, a plan whose lower bounds add up to more than 10¹¹ pulls
            is refused.
        executor: any `concurrent.futures` executor; without one the runs are made here, in order.
        progress: True shows a bar; a function is called with (runs done, runs in all), for the
            first time before any run. If it raises KeyboardInterrupt later, or Ctrl-C is pressed,
            what has been finished is returned.
        on_estimate: called once, before anything is simulated, with what it will cost: a second or
            two are spent to find out. What it raises ends the plan.

    Raises:
        InvalidInputError: an argument is not what it must be, means would leave the bounds, or
            there would be too many pulls to simulate.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.planning import plan_trial
        >>> plan = plan_trial(Problem(np.eye(3)), gap=0.5, policies=["sp-bai-sharp"], runs=20)
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
    worlds = [_world(problem, each, bounds=limits, per_day=daily) for each in wanted]
    _check_effort([world.assumed for world in worlds], runs, len(methods), cap)
    jobs = [
        _job(name, _bound(method, limits, cap or world.cap), world, cap or world.cap)
        for world in worlds
        for name, method in methods.items()
    ]
    for job in jobs:  # whoever cannot be made is refused before anything is simulated
        job.method(problem, seed=0)
    found: list[Forecast] = []
    interrupted = False
    total = runs * len(jobs)
    with reporting(progress, total) as report:
        report(0, 0)  # at once: the first run may take long
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
    return TrialPlan(
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


@dataclass(frozen=True)
class _World:
    """An environment, and what there is to say of it."""

    environment: Environment
    assumed: Assumed

    @property
    def cap(self) -> int:
        return max(_LEAST_CAP, math.ceil(_CAP * self.assumed.lower_bound))


def _job(policy: str, method: Method, world: _World, cap: int) -> Job:
    return Job(
        policy=policy,
        scenario=world.assumed.scenario,
        method=method,
        environment=world.environment,
        gap=world.assumed.gap,
        lower_bound=world.assumed.lower_bound,
        cap=cap,
    )


def _check_effort(worlds: Sequence[Assumed], runs: int, policies: int, cap: int | None) -> None:
    """Refuse what would not end: no rule takes fewer pulls than the lower bound."""
    most = math.inf if cap is None else cap
    least = runs * policies * sum(min(each.lower_bound, most) for each in worlds)
    if least <= _MOST:
        return
    assumed = max(worlds, key=lambda each: each.lower_bound)
    raise InvalidInputError(
        f"A lead of {assumed.gap:.3g} takes {assumed.lower_bound:.2g} outcomes or more, by any "
        f"rule (scenario {assumed.scenario!r}). Simulating {runs:,} trials of each policy would "
        f"take {least:.2g} pulls at least, and more than {_MOST:.0g} are too many.",
        field="gap",
        value=assumed.gap,
        remedy="Plan for a larger gap, tighter bounds or fewer runs, or cut the trials with "
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
                    f"There is no policy {name!r} to plan with; there are {', '.join(known)}.",
                    field="policies",
                    value=name,
                    remedy="Give your own as a mapping from names to methods.",
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
            "A plan needs a gap or scenarios, and not both.",
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
            "There must be scenarios, each with a name of its own.", field="scenarios", value=names
        )
    return wanted


def _bound(method: Method, bounds: tuple[float, float] | None, cap: int) -> Method:
    """The method with what it can be told: bounds, and where to stop."""
    taken = inspect.signature(method).parameters
    told: dict[str, Any] = {"max_pulls": cap} | ({} if bounds is None else {"bounds": bounds})
    fixed = method.keywords if isinstance(method, partial) else {}
    options = {key: value for key, value in told.items() if key in taken and key not in fixed}
    return partial(method, **options)


def _world(
    problem: Problem,
    scenario: Scenario,
    *,
    bounds: tuple[float, float] | None,
    per_day: float | None,
) -> _World:
    if bounds is not None and scenario.noise is not None:
        raise InvalidInputError(
            "Between bounds the noise follows from the level.",
            field="noise",
            value=scenario.noise,
            remedy="Leave it out of the scenario.",
        )
    theta = _theta(problem, scenario, bounds)
    tau = theory.complexity(problem, theta).lower_bound
    means = problem.source @ theta
    middle = float(means.max() + means.min()) / 2
    spread = float(np.ptp(means))
    level, size, period = _movement(problem, scenario, spread, bounds=bounds, per_day=per_day)
    # What the arms have in common is the baseline's: theirs are differences, about the level.
    baseline = scenario.drift.path(level=level - middle, size=size, period=period)
    noise = _noise(problem, scenario, level + scenario.drift.places(size), spread, bounds)
    environment = _environment(problem, scenario, theta, baseline, bounds, noise)
    values = (problem.target - problem.target[0]) @ theta
    best, ranked = int(values.argmax()), np.sort(values)
    return _World(
        environment,
        Assumed(
            scenario=scenario.name,
            theta=tuple(theta.tolist()),
            best=problem.target_labels[best],
            gap=float(ranked[-1] - ranked[-2]),
            farthest=float(ranked[-1] - ranked[0]),
            spread=spread,
            drift="none" if size == 0 else scenario.drift.kind,
            size=size,
            period=period,
            level=level,
            noise=noise,
            bounded=bounds is not None,
            complexity=tau,
            lower_bound=2 * noise**2 * tau * _doubt(problem.delta),
        ),
    )


def _doubt(delta: float) -> float:
    """kl(δ, 1 − δ): what must be learnt to be right with probability 1 − δ. Near log 1/δ."""
    return max((1 - 2 * delta) * math.log((1 - delta) / delta), 0.0)


def _theta(problem: Problem, scenario: Scenario, bounds: tuple[float, float] | None) -> Array:
    if not isinstance(scenario.theta, str):
        return np.array(scenario.theta)
    assert scenario.gap is not None
    if scenario.theta == "close":
        return closest(problem, scenario.gap)
    widest = 2 * problem.scale if bounds is None else _room(scenario, bounds)
    return typical(problem, scenario.gap, widest=widest)


def _room(scenario: Scenario, bounds: tuple[float, float]) -> float:
    """How far apart arm means may lie about the level."""
    low, high = bounds
    level = (low + high) / 2 if scenario.level is None else scenario.level
    return 2 * min(level - low, high - level)


def _movement(
    problem: Problem,
    scenario: Scenario,
    spread: float,
    *,
    bounds: tuple[float, float] | None,
    per_day: float | None,
) -> tuple[float, float, float]:
    """The level, how far the baseline moves from it, and over how many outcomes."""
    drift = scenario.drift
    if bounds is None:
        level = scenario.level or 0.0
        usual = max(problem.baseline - abs(level), 0.0)
    else:
        level = sum(bounds) / 2 if scenario.level is None else scenario.level
        left = (_room(scenario, bounds) - spread) / 2
        if left < 0 or (drift.size is not None and drift.kind != "none" and drift.size > left):
            raise InvalidInputError(
                f"In scenario {scenario.name!r} means would leave the bounds {bounds[0]:g} to "
                f"{bounds[1]:g}: arms lie {spread:.3g} apart about {level:g}"
                + (f", which leaves ±{left:.3g} for the drift." if left >= 0 else "."),
                field="size" if left >= 0 else "gap",
                value=drift.size if left >= 0 else scenario.gap,
                remedy="Assume a smaller drift, a smaller gap, or another level.",
            )
        usual = left / 2
    size = 0.0 if drift.kind == "none" else usual if drift.size is None else drift.size
    period = drift.period or max(per_day or _PERIOD, 2.0)
    return level, size, period


def _noise(
    problem: Problem,
    scenario: Scenario,
    levels: Array,
    spread: float,
    bounds: tuple[float, float] | None,
) -> float:
    """The standard deviation of the noise.

    Between bounds it changes with the level. What is learnt from a pull goes with 1/variance, so
    it is the one whose 1/variance is that of the least noisy arm on average over time.
    """
    if bounds is None:
        return problem.noise if scenario.noise is None else scenario.noise
    low, high = bounds
    least = np.minimum(
        *((mean - low) * (high - mean) for mean in (levels - spread / 2, levels + spread / 2))
    )
    return math.sqrt(1 / float(np.mean(1 / least))) if least.min() > 0 else 0.0


def _environment(
    problem: Problem,
    scenario: Scenario,
    theta: Array,
    baseline: Constant | Moving,
    bounds: tuple[float, float] | None,
    noise: float,
) -> Environment:
    # Also where bounds are given: it refuses a parameter that does not fit, or has no best target.
    world = Semiparametric(
        problem.source,
        theta,
        target=problem.target,
        baseline=baseline,
        noise=noise,
        declared_noise=problem.noise,
        declared_baseline=problem.baseline,
        source_labels=problem.source_labels,
        target_labels=problem.target_labels,
        name=scenario.name,
    )
    if bounds is None:
        return world
    from bestarm.planning.two_point import TwoPoint  # noqa: PLC0415 - compiles kernels

    return TwoPoint(problem, theta, baseline=baseline, bounds=bounds, name=scenario.name)
