"""Sentences to read before relying on a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bestarm.planning.forecasts import AssumedWorld, PolicyForecast
from bestarm.problem import Problem
from bestarm.simulation.results import wilson

__all__ = ["remarks"]

_YEAR = 365


def remarks(
    problem: Problem,
    scenarios: Sequence[AssumedWorld],
    forecasts: Sequence[PolicyForecast],
    *,
    bounds: tuple[float, float] | None,
    per_day: float | None,
    partial: bool,
) -> tuple[str, ...]:
    """All warnings, the most important first."""
    sentences = [
        *(["Interrupted: the figures are partial, of the experiments simulated so far."] * partial),
        *_about_errors(problem.delta, forecasts),
        *_about_caps(forecasts, scenarios),
        *(_about_scales(problem, scenarios) if bounds is None else ()),
        *_about_time(forecasts, per_day),
    ]
    return tuple(dict.fromkeys(sentences))


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


def _about_scales(problem: Problem, scenarios: Sequence[AssumedWorld]) -> Iterator[str]:
    for each in scenarios:
        if each.size + abs(each.level) > problem.baseline * (1 + 1e-9):
            yield (
                f"Under {each.scenario!r} the baseline reaches "
                f"{abs(each.level) + each.size:.4g}, beyond the ±{problem.baseline:g} that "
                "policies are told: their guarantees do not cover that."
            )
        if each.noise > problem.noise * (1 + 1e-9):
            yield (
                f"Under {each.scenario!r} the noise is {each.noise:.4g}, more than the "
                f"{problem.noise:g} that policies are told: their guarantees do not cover that."
            )
        if each.spread / 2 > problem.scale * (1 + 1e-9):
            yield (
                f"Under {each.scenario!r} arm means differ by {each.spread:.4g}, more than twice "
                f"the scale of {problem.scale:g} that policies are told."
            )


def _about_time(forecasts: Sequence[PolicyForecast], per_day: float | None) -> Iterator[str]:
    if per_day is None or not forecasts:
        return
    quickest = min(each.median for each in forecasts) / per_day
    if quickest > _YEAR:
        yield (
            f"Even the quickest takes {quickest / _YEAR:,.1f} years at {per_day:,.10g} outcomes "
            "per day. Twice the gap takes about a quarter of that."
        )
