"""What to read before relying on a plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bestarm.planning.forecasts import AssumedWorld, PolicyForecast, unit_of
from bestarm.planning.request import PlanRequest
from bestarm.problem import Problem
from bestarm.simulation.results import wilson

_YEAR = 365  # days
_WORTH = 0.5  # of the lower bound: what assuming no baseline must leave to be worth a sentence


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
    yield from _about_scales(request.problem, scenarios)
    per_day = request.per_day or math.inf
    rounds = min((each.rounds for each in forecasts), key=lambda each: each.median, default=None)
    quickest = 0.0 if rounds is None else rounds.median / per_day
    if rounds is not None and quickest > _YEAR:
        least = "at least " if "median" in rounds.cut else ""
        yield (
            f"Even the quickest takes {least}{quickest / _YEAR:,.1f} years at {per_day:,.10g} "
            f"{unit_of(request.block)} per day. Twice the gap takes about a quarter of that."
        )


def _about_errors(delta: float, forecasts: Sequence[PolicyForecast]) -> Iterator[str]:
    for each in forecasts:
        if each.error_interval[0] > delta:
            yield (
                f"{each.name} named a wrong winner in {each.wrong} of {each.runs} experiments "
                f"under {each.scenario!r}, more often than δ = {delta:g} allows: its assumptions "
                "do not hold there."
            )
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


def _about_scales(problem: Problem, scenarios: Sequence[AssumedWorld]) -> Iterator[str]:
    for each in scenarios:
        for what, size, told in (
            ("the baseline reaches", abs(each.baseline) + each.size, problem.baseline),
            ("the noise is", each.noise, problem.noise),
            ("arm means differ from their middle by", each.spread / 2, problem.scale),
        ):
            if size > told * (1 + 1e-9):
                yield (
                    f"Under {each.scenario!r} {what} {size:.4g}, beyond the {told:g} that policies "
                    "are told: guarantees that rest on it do not hold."
                )
