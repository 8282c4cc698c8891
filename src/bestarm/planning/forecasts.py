"""The figures of a plan with their intervals, and what to read before relying on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.planning.request import PlanRequest
from bestarm.planning.worlds import AssumedWorld
from bestarm.problem import Problem
from bestarm.simulation.results import Z95, Results, wilson

_LEVELS = {"low": 0.1, "median": 0.5, "high": 0.9}
_YEAR = 365  # days
_WORTH = 0.5  # of the lower bound: what assuming no baseline must leave to be worth a sentence
_LEAST_RUNS = 6  # the median lies outside the range of n runs with probability 2/2ⁿ


@dataclass(frozen=True)
class Spread:
    """How a number of pulls, or of rounds, varies over simulated experiments.

    Attributes:
        mean: the mean.
        mean_interval: its 95 % interval; None for a single run, or if experiments were cut.
        low: the 10 % quantile.
        median: the median.
        median_interval: its 95 % interval, from order statistics; None for fewer than 6 runs, which
            have none, or if it reaches into experiments that were cut.
        high: the 90 % quantile.
        most: the largest.
        cut: the names of figures that depend on how far experiments would have gone that were cut.
            These figures are too small.
    """

    mean: float
    mean_interval: tuple[float, float] | None
    low: float
    median: float
    median_interval: tuple[float, float] | None
    high: float
    most: int
    cut: tuple[str, ...] = ()

    @classmethod
    def of(cls, numbers: NDArray[np.int64], cut: NDArray[np.bool_]) -> Spread:
        """Of at least one experiment; `cut` says which of them were cut."""
        runs, ordered = len(numbers), np.sort(numbers)
        known = runs  # so many of the smallest are what they are, however far the others go
        if cut.any():
            known = int(np.count_nonzero(~cut & (numbers <= numbers[cut].min())))
        low, median, high = np.quantile(numbers, tuple(_LEVELS.values())).tolist()
        # The larger of the two neighbours that a quantile lies between.
        places = {name: math.ceil(round(level * (runs - 1), 9)) for name, level in _LEVELS.items()}
        unknown = {name for name, place in places.items() if place >= known}
        if known < runs:
            unknown |= {"mean", "most"}
        mean = float(numbers.mean())
        half = Z95 * float(numbers.std(ddof=1)) / math.sqrt(runs) if runs > 1 else 0.0
        below = 0.98 * math.sqrt(runs)  # half of a 95 % interval for how many runs are below
        first = max(math.floor(runs / 2 - below) - 1, 0)
        last = min(math.ceil(runs / 2 + below), runs - 1)
        precise = runs >= _LEAST_RUNS and last < known
        return cls(
            mean=mean,
            mean_interval=(mean - half, mean + half) if 1 < runs == known else None,
            low=low,
            median=median,
            median_interval=(float(ordered[first]), float(ordered[last])) if precise else None,
            high=high,
            most=int(ordered[-1]),
            cut=tuple(name for name in ("mean", *_LEVELS, "most") if name in unknown),
        )

    @property
    def precision(self) -> float | None:
        """How far the median may be off, as a share of it, with 95 %; None if that is unknown."""
        if self.median_interval is None:
            return None
        low, high = self.median_interval
        return max(high - self.median, self.median - low) / self.median


@dataclass(frozen=True)
class PolicyForecast:
    """What one policy needs under one drift, from simulated experiments.

    Attributes:
        scenario: the kind of drift.
        policy: the policy's name.
        block: the number of options that its rounds have, or fewer once fewer are left.
        runs: the number of simulated experiments.
        pulls: the pulls, which are the outcomes.
        rounds: the rounds, which are as many unless they have several options, or the policy waits
            for outcomes with a window. They take the time.
        capped: experiments cut at the cap, without a winner. They count with the pulls of the cap,
            so figures that depend on them, those in `cut`, are too small.
        astray: capped experiments in which a target other than the best was ahead.
        wrong: experiments that named a wrong winner.
        error_rate: their share.
        error_interval: Wilson's 95 % interval for the probability of one.
        ratio: the mean of the pulls divided by the lower bound; None if that is 0. Too small if
            experiments were cut.
    """

    scenario: str
    policy: str
    block: int
    runs: int
    pulls: Spread
    rounds: Spread
    capped: int
    astray: int
    wrong: int
    error_rate: float
    error_interval: tuple[float, float]
    ratio: float | None

    @property
    def name(self) -> str:
        """The policy's name, with its block."""
        return self.policy if self.block == 1 else f"{self.policy} ×{self.block}"

    @property
    def counted(self) -> Spread:
        """What the plan counts: rounds, where these have several options, else outcomes."""
        return self.rounds if self.block > 1 else self.pulls


def unit_of(block: int) -> str:
    """What a plan is counted in: rounds, where these differ from outcomes."""
    return "outcomes" if block == 1 else "rounds"


def in_a_day(rounds: float, block: int) -> str:
    """A number of rounds per day, in what a plan is counted in.

    >>> in_a_day(1, 1), in_a_day(2000, 3)
    ('1 outcome per day', '2,000 rounds per day')
    """
    unit = unit_of(block)
    return f"{rounds:,.10g} {unit.removesuffix('s') if rounds == 1 else unit} per day"


def forecast(results: Results, *, policy: str, block: int, assumed: AssumedWorld) -> PolicyForecast:
    """The figures of at least one simulated experiment."""
    wrong = int(np.count_nonzero(results.final & ~results.correct))
    cut = ~results.final
    return PolicyForecast(
        scenario=assumed.scenario,
        policy=policy,
        block=block,
        runs=results.runs,
        pulls=Spread.of(results.pulls, cut),
        rounds=Spread.of(results.rounds, cut),
        capped=int(np.count_nonzero(cut)),
        astray=int(np.count_nonzero(cut & ~results.correct)),
        wrong=wrong,
        error_rate=wrong / results.runs,
        error_interval=wilson(wrong, results.runs),
        ratio=results.mean_pulls / assumed.lower_bound if assumed.lower_bound > 0 else None,
    )


@dataclass(frozen=True)
class ExperimentPlan:
    """How many outcomes and rounds an experiment will take, per drift and policy.

    Attributes:
        arms: the number of source arms.
        targets: the number of targets.
        delta: the error probability asked for.
        drifts: whether the problem allows for a baseline.
        bounds: the lowest and the highest reward, or None.
        block: options per round.
        per_day: rounds per day, or None.
        window: the seconds after which an outcome counts, or None.
        delay: the rounds after which it counts: so many outcomes are under way; 0 without a window.
        runs: simulated experiments requested per policy and drift.
        seed: the seed of the simulation.
        scenarios: the assumed worlds, one per drift.
        forecasts: one per drift and policy; if it is partial, they have fewer runs, or are missing.
        interrupted: whether it was stopped early, as with Ctrl-C.
        timed_out: whether its time limit stopped it.
        warnings: sentences to read before relying on the plan.
    """

    arms: int
    targets: int
    delta: float
    drifts: bool
    bounds: tuple[float, float] | None
    block: int
    per_day: float | None
    window: float | None
    delay: int
    runs: int
    seed: int
    scenarios: tuple[AssumedWorld, ...]
    forecasts: tuple[PolicyForecast, ...]
    interrupted: bool
    timed_out: bool
    warnings: tuple[str, ...]

    def days(self, rounds: float) -> float | None:
        """The days that these rounds take; None if rounds per day are not known."""
        return None if self.per_day is None else rounds / self.per_day

    def waiting(self, forecast: PolicyForecast) -> float | None:
        """The days, on average, in which nothing is assigned because outcomes are awaited.

        None without a window.
        """
        if self.window is None:
            return None
        return self.days(forecast.rounds.mean - forecast.pulls.mean)

    def of(self, scenario: str) -> tuple[PolicyForecast, ...]:
        """The forecasts under one drift."""
        return tuple(each for each in self.forecasts if each.scenario == scenario)

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON, with days if rounds per day are known."""
        document = asdict(self)
        for forecast, each in zip(self.forecasts, document["forecasts"], strict=True):
            rounds = each["rounds"]
            days = {name: self.days(rounds[name]) for name in ("low", "median", "high", "mean")}
            cut = [name for name in rounds["cut"] if name in days]
            days |= {"waiting": self.waiting(forecast)}
            each["days"] = days | {"cut": cut} if self.per_day else None
        return document


def plan_warnings(
    request: PlanRequest,
    scenarios: Sequence[AssumedWorld],
    forecasts: Sequence[PolicyForecast],
) -> Iterator[str]:
    """What to read before relying on a plan, the most important first."""
    yield from _about_errors(request.problem.delta, forecasts)
    yield from _about_caps(forecasts, scenarios)
    yield from _about_baseline(request.problem, scenarios)
    yield from about_scales(request.problem, scenarios)
    per_day = request.per_day or math.inf
    rounds = min((each.rounds for each in forecasts), key=lambda each: each.median, default=None)
    quickest = 0.0 if rounds is None else rounds.median / per_day
    if rounds is not None and quickest > _YEAR:
        least = "at least " if "median" in rounds.cut else ""
        yield (
            f"Even the quickest takes {least}{quickest / _YEAR:,.1f} years at "
            f"{in_a_day(per_day, request.block)}. Twice the gap takes about a quarter of that."
        )


def about_wrong_winners(
    policy: str, scenario: str, wrong: int, runs: int, delta: float
) -> Iterator[str]:
    """That a policy errs more often than it may, where its runs show that."""
    if wilson(wrong, runs)[0] > delta:
        yield (
            f"{policy} named a wrong winner in {wrong} of {runs} experiments under {scenario!r}, "
            f"more often than δ = {delta:g} allows: its assumptions do not hold there."
        )


def _about_errors(delta: float, forecasts: Sequence[PolicyForecast]) -> Iterator[str]:
    for each in forecasts:
        yield from about_wrong_winners(each.name, each.scenario, each.wrong, each.runs, delta)
    least = min((each.runs for each in forecasts), default=0)
    if least and wilson(0, least)[1] > delta:
        few = "1 simulated experiment is" if least == 1 else f"{least} simulated experiments are"
        yield (f"{few} too few to show an error rate below δ = {delta:g}; simulate more to see it.")


def _about_caps(
    forecasts: Sequence[PolicyForecast], scenarios: Sequence[AssumedWorld]
) -> Iterator[str]:
    tied = {each.scenario for each in scenarios if each.farthest <= each.gap * (1 + 1e-6)}
    for each in forecasts:
        if each.capped:
            astray = (
                f" In {each.astray} of them the best was not ahead. All others are tied here, so "
                "an experiment that has dropped the best (with probability at most δ) does not end."
                if each.astray and each.scenario in tied
                else ""
            )
            yield (
                f"{each.name} had no winner in {each.capped} of {each.runs} experiments under "
                f"{each.scenario!r} when they were cut at {each.pulls.most:,.0f} outcomes; they "
                f"count with that many, so its mean is too small.{astray}"
            )


def _about_baseline(problem: Problem, scenarios: Sequence[AssumedWorld]) -> Iterator[str]:
    """What assuming no baseline buys and risks, if it is assumed, or buys much."""
    hardest = max(scenarios, key=lambda each: each.lower_bound)
    here, other = f"{hardest.lower_bound:,.0f}", f"{hardest.other_bound:,.0f}"
    risk = "if the level moves nevertheless, a wrong winner may be named with any probability"
    if not problem.drifts:
        saved = hardest.lower_bound < 0.99 * hardest.other_bound
        buys = (
            f"lowers the bound from {other} outcomes to {here}" if saved else "saves nothing here"
        )
        yield f"No baseline is assumed, which {buys}; {risk}."
    elif hardest.other_bound < _WORTH * hardest.lower_bound:
        yield (
            f"Where surely nothing drifts, baseline=0 lowers the bound from {here} outcomes to "
            f"{other}; {risk}."
        )


def about_scales(problem: Problem, scenarios: Sequence[AssumedWorld]) -> Iterator[str]:
    """Where a world goes beyond what policies are told."""
    for each in scenarios:
        for what, size, declared in (
            ("the baseline reaches", abs(each.baseline) + each.size, problem.baseline),
            ("the noise is", each.noise, problem.noise),
            ("arm means differ from their middle by", each.spread / 2, problem.scale),
        ):
            if size > declared * (1 + 1e-9):
                yield (
                    f"Under {each.scenario!r} {what} {size:.4g}, beyond the {declared:g} that "
                    "policies are told: guarantees that rest on it do not hold."
                )
