"""A plan in words: sentences and tables, the same in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bestarm.planning.amounts import describe_lift, in_percent
from bestarm.planning.curve import fixed_test
from bestarm.planning.forecasts import (
    ExperimentPlan,
    PolicyForecast,
    Spread,
    in_a_day,
    unit_of,
)
from bestarm.planning.lifts import DetectableLifts, LiftCurve, detectable_lifts
from bestarm.planning.plan import plan_experiment
from bestarm.planning.request import PlanRequest
from bestarm.problem import Problem
from bestarm.tables import TextTable, percent_range

Words = Iterator[str | TextTable]


def plan_in_words(
    request: PlanRequest, *, visitors: int | None, **options: Any
) -> tuple[ExperimentPlan | DetectableLifts, Words]:
    """Plan an experiment; or, with visitors, find the lifts. The options are those of both."""
    if visitors is None:
        plan = plan_experiment(request, **options)
        return plan, plan_words(plan, request.problem)
    found = detectable_lifts(request, visitors=visitors, **options)
    return found, lift_words(found)


def plan_words(plan: ExperimentPlan, problem: Problem) -> Words:
    """How long an experiment with this problem will take, without the warnings."""
    unit = unit_of(plan.block)
    among = "" if problem.source is problem.target else f", {plan.targets} targets"
    yield (
        f"{plan.arms} options{among}, δ = {plan.delta:g}, noise {problem.noise:g} and baseline "
        f"±{problem.baseline:g} declared; {_experiments(plan.runs)} of each policy, seed "
        f"{plan.seed}. Counted in {unit}:"
    )
    if plan.block > 1:
        yield (
            f"A round is one person, prompt or plate; with ×{plan.block} it tries {plan.block} "
            "options. Count rounds where people are what it costs, and outcomes where every "
            "judgement is paid for. Ranges and days are of rounds."
        )
    if plan.window is not None and plan.per_day is not None:
        yield (
            f"A window of {describe_time(plan.window)} at {in_a_day(plan.per_day, plan.block)}: "
            f"{plan.delay:,} are always under way. Days include that."
        )
    whatever = "whatever the baseline does" if problem.drifts else "where there is no baseline"
    for assumed in plan.scenarios:
        yield ""
        yield f"{assumed.scenario}: {assumed.describe(unit, rates=plan.bounds == (0, 1))}."
        forecasts = plan.of(assumed.scenario)
        if not forecasts:
            continue
        yield ""
        yield _forecast_table(plan, forecasts)
        for forecast in forecasts:
            if waiting := plan.waiting(forecast):
                least = "at least " if "mean" in forecast.rounds.cut else ""
                yield (
                    f"{forecast.name} assigns nothing on {least}{_day(waiting)} of its days, on "
                    "average: it waits for the last outcomes of each phase."
                )
        yield (
            f"No rule that is right with probability {1 - plan.delta:g}, {whatever}, takes fewer "
            f"than {'about ' if assumed.bounded else ''}{assumed.lower_bound:,.0f} outcomes on "
            "average."
        )
        if (fixed := fixed_test(plan, assumed)) is not None:
            yield (
                "An ordinary test of fixed size, as sure and with the same power, takes "
                f"{fixed:,.0f} outcomes, and may be looked at once."
            )
    yield ""
    if precision := _precision(plan):
        yield precision
    yield f"A forecast holds if its assumptions do. {unit.title()} grow with 1/gap²."


def lift_words(found: DetectableLifts) -> Words:
    """Which lifts can be found, without the warnings."""
    many = f"{found.visitors:,} {'visitor' if found.block == 1 else 'round'}"
    many += "s" * (found.visitors != 1)
    days = "" if found.days is None else f" ({_day(found.days)} days)"
    yield (
        f"{found.arms} options, δ = {found.delta:g}; {many}{days}. {_experiments(found.runs)} per "
        f"lift, seed {found.seed}."
    )
    for curve in found.curves:
        unit = "visitors" if found.block == 1 else "rounds"
        yield ""
        drift = curve.world.describe_drift(unit, rates=found.rates)
        yield f"{curve.policy}, {curve.scenario}: {drift}."
        for table in _lift_tables(found, curve, many):
            yield ""
            yield table
    yield ""
    if found.base is not None:
        base = in_percent(found.base) if found.rates else f"{found.base:.4g}"
        yield f"A lift in percent is of the base rate, {base}: that of the next best option."
    yield (
        f"Found: named as the winner within {many}, with error probability {found.delta:g}. It "
        "holds if the assumptions do. Four times as many visitors find half of the lift, about."
    )


def _lift_tables(found: DetectableLifts, curve: LiftCurve, many: str) -> Iterator[TextTable]:
    """The smallest lift per probability, and the probabilities of lifts."""
    noun = "lead" if found.base is None else "lift"

    def full(lift: float) -> str:
        return describe_lift(lift, found.base, rates=found.rates)

    def short(lift: float | None) -> str:
        share = found.relative(lift)
        if lift is None:
            return "…"
        return f"{lift:.3g}" if share is None else f"+{in_percent(share)}"

    usual = curve.at(0.8).lift
    which = f"a {noun} of {full(usual)}" if usual is not None else ""
    smallest = []
    for each in curve.lifts:
        low, high = map(short, each.interval)
        lift = "none" if each.lift is None else full(each.lift)
        smallest.append((in_percent(each.power), lift, f"{low} to {high}"))
    yield TextTable.of(
        ("probability", f"smallest {noun}", "95 %"),
        smallest,
        title=f"With {many} {which or f'no {noun} up to {full(curve.points[-1].lift)}'} is found "
        "with probability 80 %.",
    )
    yield TextTable.of(
        (noun, "found (95 %)"),
        [
            (short(each.lift), percent_range(each.probability, each.interval))
            for each in curve.points
        ],
    )


def _experiments(runs: int) -> str:
    return f"{runs:,} simulated experiment{'s' * (runs != 1)}"


def _precision(plan: ExperimentPlan) -> str:
    """How precisely medians are known, if any are."""
    known = {
        each: precision
        for each in plan.forecasts
        if (precision := each.counted.precision) is not None
    }
    if not known:
        return ""
    runs = {each.runs for each in known}
    made = _experiments(min(runs)) + (" or more" if len(runs) > 1 else "")
    which = "a median here is"
    if len(known) < len(plan.forecasts):
        which = f"{len(known)} of {len(plan.forecasts)} medians here are"
    return (
        f"From {made} each, {which} known to {max(known.values()):.0%} or better (95 %); four "
        "times as many halve that."
    )


def _forecast_table(plan: ExperimentPlan, forecasts: Sequence[PolicyForecast]) -> TextTable:
    days = ["days"] if plan.per_day else []
    blocks = plan.block > 1
    first, last = ("rounds", "outcomes") if blocks else ("median", "÷ bound")
    alike = len({each.runs for each in plan.forecasts}) == 1
    rows = []
    for each in forecasts:
        runs = "" if alike else f" [of {each.runs:,}]"
        row = (
            each.name + runs,
            _figure(each.counted, "median"),
            f"{_figure(each.counted, 'low')}–{_figure(each.counted, 'high')}",
            _figure(each.pulls, "median") if blocks else _ratio(each),
            percent_range(each.error_rate, each.error_interval),
            *(_days(plan, each.rounds) for _ in days),
        )
        rows.append(row)
    return TextTable.of(("policy", first, "8 of 10 times", last, "wrong (95 %)", *days), rows)


def _ratio(each: PolicyForecast) -> str:
    return "–" if each.ratio is None else _figure(each.pulls, "mean", lambda _: f"{each.ratio:.1f}")


def _figure(spread: Spread, name: str, write: Callable[[float], str] = "{:,.0f}".format) -> str:
    """A figure, with a sign if it depends on experiments that were cut."""
    return ("≥ " if name in spread.cut else "") + write(getattr(spread, name))


def _days(plan: ExperimentPlan, spread: Spread) -> str:
    names, write = ("median", "low", "high"), lambda rounds: _day(plan.days(rounds) or 0.0)
    return "{} ({}–{})".format(*(_figure(spread, name, write) for name in names))


def _day(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def describe_time(seconds: float) -> str:
    """A length of time in words, to about two digits.

    >>> describe_time(90), describe_time(172_800)
    ('1.5 min', '2 days')
    """
    for unit, name in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            count = f"{float(f'{seconds / unit:.2g}'):,.10g}"
            return f"{count} {name.removesuffix('s') if count == '1' else name}"
    return f"{seconds:.2g} s"
