"""The figures of a plan with their intervals, as text and as JSON, and warnings about them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bestarm.planning.request import PlanRequest
from bestarm.problem import Problem
from bestarm.simulation.results import Results, wilson

_YEAR = 365  # days
_WORTH = 0.5  # of the lower bound: what assuming no baseline must leave to be worth a sentence


@dataclass(frozen=True)
class AssumedWorld:
    """The world of a scenario, in numbers.

    Attributes:
        scenario: its name.
        theta: the parameter.
        best: the label of the best target.
        gap: by how much it leads the next one.
        farthest: by how much it leads the last one.
        spread: how far apart the best and the worst source arm are.
        drift: the kind of drift.
        size: how far the baseline goes to either side of the level.
        period: over how many outcomes.
        level: the reward about which it moves.
        noise: the standard deviation of the noise. For bounded rewards it changes with the level;
            this one gives the same information per pull as the least noisy arm does over time.
        bounded: whether rewards are at one of two bounds, rather than Gaussian.
        complexity: τ*, certified from below.
        lower_bound: the mean number of pulls that every rule needs which is right with probability
            1 − δ for every θ and every baseline; or, where no baseline is declared, for every θ.
        other_bound: the same with the other of the two assumptions.
    """

    scenario: str
    theta: tuple[float, ...]
    best: str
    gap: float
    farthest: float
    spread: float
    drift: str
    size: float
    period: float
    level: float
    noise: float
    bounded: bool
    complexity: float
    lower_bound: float
    other_bound: float

    def __str__(self) -> str:
        lead = (
            f"{self.best!r} leads the next one by {self.gap:.4g}, the last by {self.farthest:.4g}"
        )
        if math.isclose(self.farthest, self.gap, rel_tol=1e-6):
            lead = f"{self.best!r} leads all others by {self.gap:.4g}"
        moves = {
            "none": f"the baseline stays at {self.level:.4g}",
            "sine": f"the baseline is a wave of ±{self.size:.4g} about {self.level:.4g} every "
            f"{self.period:,.0f} outcomes",
            "walk": f"the baseline walks within ±{self.size:.4g} of {self.level:.4g}, some "
            f"{self.size:.4g} in {self.period:,.0f} outcomes",
            "switches": f"the baseline jumps between {self.level - self.size:.4g} and "
            f"{self.level + self.size:.4g}, every {self.period:,.0f} outcomes or so",
        }[self.drift]
        law = "rewards are at a bound" if self.bounded else f"the noise is {self.noise:.4g}"
        return f"{lead}; {law}; {moves}"


@dataclass(frozen=True)
class PolicyForecast:
    """What one policy needs in one scenario, from simulated experiments.

    Attributes:
        scenario: the scenario's name.
        policy: the policy's name.
        runs: the number of simulated experiments.
        mean: the mean number of pulls.
        mean_interval: its 95 % interval; None for a single run.
        low: the 10 % quantile of the pulls.
        median: the median of the pulls.
        median_interval: its 95 % interval, from order statistics.
        high: the 90 % quantile of the pulls.
        capped: experiments cut at the cap, without a winner. They count with the pulls of the cap,
            so the mean is then too small, and so are quantiles among them.
        astray: capped experiments in which a target other than the best was ahead.
        most: the pulls of the longest experiment.
        wrong: experiments that named a wrong winner.
        error_rate: their share.
        error_interval: Wilson's 95 % interval for the probability of one.
        ratio: the mean divided by the lower bound; None if that is 0.
    """

    scenario: str
    policy: str
    runs: int
    mean: float
    mean_interval: tuple[float, float] | None
    low: float
    median: float
    median_interval: tuple[float, float]
    high: float
    capped: int
    astray: int
    most: int
    wrong: int
    error_rate: float
    error_interval: tuple[float, float]
    ratio: float | None


def forecast(results: Results, *, policy: str, assumed: AssumedWorld) -> PolicyForecast:
    """The figures of at least one simulated experiment."""
    low, median, high = results.quantiles((0.1, 0.5, 0.9)).values()
    wrong = int(np.count_nonzero(results.final & ~results.correct))
    half = 0.98 * math.sqrt(results.runs)  # of a 95 % interval for how many runs are below
    ends = (math.floor(results.runs / 2 - half), math.ceil(results.runs / 2 + half))
    ordered = np.sort(results.pulls)
    return PolicyForecast(
        scenario=assumed.scenario,
        policy=policy,
        runs=results.runs,
        mean=results.mean_pulls,
        mean_interval=results.pulls_interval() if results.runs > 1 else None,
        low=low,
        median=median,
        median_interval=(
            float(ordered[max(ends[0] - 1, 0)]),
            float(ordered[min(ends[1], results.runs - 1)]),
        ),
        high=high,
        capped=int(np.count_nonzero(~results.final)),
        astray=int(np.count_nonzero(~results.final & ~results.correct)),
        most=int(results.pulls.max()),
        wrong=wrong,
        error_rate=wrong / results.runs,
        error_interval=wilson(wrong, results.runs),
        ratio=results.mean_pulls / assumed.lower_bound if assumed.lower_bound > 0 else None,
    )


@dataclass(frozen=True)
class ExperimentPlan:
    """How many outcomes an experiment will take, per scenario and policy.

    Attributes:
        arms: the number of source arms.
        targets: the number of targets.
        delta: the error probability asked for.
        drifts: whether the problem allows for a baseline.
        bounds: the lowest and the highest reward, or None.
        per_day: outcomes per day, or None.
        runs: simulated experiments requested per policy and scenario.
        seed: the seed of the simulation.
        scenarios: the assumed worlds.
        forecasts: one per scenario and policy.
        interrupted: whether it was stopped early; forecasts are then missing or of fewer runs.
        warnings: sentences to read before relying on the plan.
    """

    arms: int
    targets: int
    delta: float
    drifts: bool
    bounds: tuple[float, float] | None
    per_day: float | None
    runs: int
    seed: int
    scenarios: tuple[AssumedWorld, ...]
    forecasts: tuple[PolicyForecast, ...]
    interrupted: bool
    warnings: tuple[str, ...]

    def days(self, pulls: float) -> float | None:
        """The days that these pulls take; None if outcomes per day are not known."""
        return None if self.per_day is None else pulls / self.per_day

    def of(self, scenario: str) -> tuple[PolicyForecast, ...]:
        """The forecasts of one scenario."""
        return tuple(each for each in self.forecasts if each.scenario == scenario)

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON, with days if outcomes per day are known."""
        document = asdict(self)
        for each in document["forecasts"]:
            days = {name: self.days(each[name]) for name in ("low", "median", "high", "mean")}
            each["days"] = days if self.per_day else None
        return document


def remarks(
    request: PlanRequest,
    scenarios: Sequence[AssumedWorld],
    forecasts: Sequence[PolicyForecast],
    *,
    partial: bool,
) -> Iterator[str]:
    """All warnings, the most important first."""
    if partial:
        yield "Interrupted: the figures are partial, of the experiments simulated so far."
    yield from _about_errors(request.problem.delta, forecasts)
    yield from _about_caps(forecasts, scenarios)
    yield from _about_baseline(request.problem, scenarios)
    if request.bounds is None:
        yield from _about_scales(request.problem, scenarios)
    per_day = request.per_day or math.inf
    quickest = min((each.median for each in forecasts), default=0.0) / per_day
    if quickest > _YEAR:
        yield (
            f"Even the quickest takes {quickest / _YEAR:,.1f} years at {per_day:,.10g} outcomes "
            "per day. Twice the gap takes about a quarter of that."
        )


def _about_errors(delta: float, forecasts: Sequence[PolicyForecast]) -> Iterator[str]:
    for each in forecasts:
        if each.error_interval[0] > delta:
            yield (
                f"{each.policy} named a wrong winner in {each.wrong} of {each.runs} experiments "
                f"under {each.scenario!r}, more often than δ = {delta:g} allows: its assumptions "
                "do not hold there."
            )
    least = min((each.runs for each in forecasts), default=0)
    if least and wilson(0, least)[1] > delta:
        yield (
            f"{least} simulated experiments are too few to show an error rate below δ = {delta:g}; "
            "simulate more to see it."
        )


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
                f"{each.policy} had no winner in {each.capped} of {each.runs} experiments under "
                f"{each.scenario!r} when they were cut at {each.most:,.0f} outcomes; they count "
                f"with that many, so its mean is too small.{astray}"
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


def _about_scales(problem: Problem, scenarios: Sequence[AssumedWorld]) -> Iterator[str]:
    for each in scenarios:
        for what, size, told in (
            ("the baseline reaches", abs(each.level) + each.size, problem.baseline),
            ("the noise is", each.noise, problem.noise),
            ("arm means differ from their middle by", each.spread / 2, problem.scale),
        ):
            if size > told * (1 + 1e-9):
                yield (
                    f"Under {each.scenario!r} {what} {size:.4g}, beyond the {told:g} that policies "
                    "are told: guarantees that rest on it do not hold."
                )
