"""`bestarm plan`: how long an experiment will take, or what it can find, under assumptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.command import command
from bestarm.cli.output import console, count, print_json, remark, show_progress, table
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError
from bestarm.tables import percent_range

if TYPE_CHECKING:
    from rich.table import Table

    from bestarm.planning import (
        DetectableLifts,
        Effort,
        ExperimentPlan,
        LiftCurve,
        PolicyForecast,
        Saving,
        Spread,
    )
    from bestarm.problem import Problem


@command
def plan(
    source: Path | None = None,
    *,
    target: Path | None = None,
    options: int | None = None,
    gap: str | None = None,
    visitors: int | None = None,
    base: str | None = None,
    scenario: Path | None = None,
    delta: float = DELTA,
    noise: float | None = None,
    baseline: float | None = None,
    bounds: tuple[float, float] | None = None,
    level: str | None = None,
    drift: list[str] | None = None,
    policy: list[str] | None = None,
    block: int = 1,
    per_day: float | None = None,
    window: str | None = None,
    runs: int = 200,
    seed: int = 0,
    max_pulls: int | None = None,
    workers: int | None = None,
    json: bool = False,
) -> None:
    """How long will it take, or what can be found? Simulates an experiment before it is run.

    Args:
        options (N): So many options without features, instead of a file; 2 if left out.
        gap (LEAD): The smallest lead worth finding: 0.002 in units of the reward, '0.2 pp', or
            '+10 %' of the base rate. All others are assumed to trail the best by as little as the
            features allow: the hardest case.
        visitors (N): Instead of a gap: which lift can be found with so many visitors, with which
            probability? With --block, rounds.
        base (RATE): The base rate, such as '2 %': the mean reward of the options next to the best.
            Rewards are then 0 or 1, unless --bounds or --noise say otherwise.
        scenario (FILE): Assumptions in detail, as TOML, instead of a gap.
        level (RATE): The mean reward over all options, instead of the base rate; 0, or the middle
            of the bounds, if left out.
        drift (NAME): How the baseline moves: none, sine, walk, switches, or people, a level of its
            own for every round. If left out, sine; with --block, people. Repeat it for more.
        policy (NAME): A policy by name; if left out, anytime, sp-bai-sharp and sp-bai, with --block
            those that can, and with --visitors anytime. Repeat it for more.
        block: Options per round, as when each person rates 2; compared with one per round.
        per_day (N): Outcomes per day, to print days as well; with --block rounds per day: people.
        window (TIME): How long after its assignment an outcome counts (30m, 7d), as in `experiment
            create`. Needs --per-day. Days then include the delay.
        runs: Simulated experiments of each policy; with --visitors, for each of twelve lifts.
        max_pulls: Where a simulated experiment is cut; 100 times the lower bound if left out.
    """
    from bestarm.cli.features import read_table
    from bestarm.planning import DetectableLifts, detectable_lifts, plan_experiment
    from bestarm.planning.request import read_request
    from bestarm.simulation.executors import check_workers, open_executor

    check_workers(workers, None)
    document: dict[str, Any] = {
        "delta": delta,
        "noise": noise,
        "baseline": baseline,
        "gap": gap,
        "scenarios": None if scenario is None else _read_scenarios(scenario),
        "drift": list(dict.fromkeys(drift or ())),
        "bounds": bounds,
        "level": level,
        "base": base,
        "policies": list(dict.fromkeys(policy or ())),
        "block": block,
        "per_day": per_day,
        "window": window,
        "runs": runs,
        "seed": seed,
        "max_pulls": max_pulls,
    }
    if source is None:
        document["options"] = _numbered(2 if options is None else options)
    elif options is not None:
        what = "`options` does not go with a file of options, which says how many there are."
        raise InvalidInputError(what, field="options", value=options, remedy="Leave one out.")
    tables = (("source", "options", source), ("target", "target_labels", target))
    for name, labels, path in tables:
        if path is not None:
            read = read_table(path)
            document |= {name: read.features, labels: read.labels}
    request = read_request(document)
    announce = partial(_announce, workers=workers or 1)
    made: ExperimentPlan | DetectableLifts
    try:
        with open_executor(workers) as executor, show_progress("planning", 0) as progress:
            if visitors is None:
                made = plan_experiment(
                    request, executor=executor, progress=progress, on_estimate=announce
                )
            else:
                made = detectable_lifts(
                    request,
                    visitors=visitors,
                    executor=executor,
                    progress=progress,
                    on_estimate=announce,
                )
    except KeyboardInterrupt:  # before the first run
        remark("interrupted before any experiment had been simulated.")
        raise typer.Exit(130) from None
    if json:
        print_json(made.to_dict())
    elif isinstance(made, DetectableLifts):
        _print_lifts(made)
    else:
        _print_words(made, request.problem)
    if made.interrupted:
        raise typer.Exit(130)


def _numbered(options: int) -> list[str]:
    """The names of so many options."""
    from bestarm.checks import whole

    return [f"option {1 + n}" for n in range(whole(options, "options", least=2, below=10_001))]


def _announce(effort: Effort, *, workers: int) -> None:
    from bestarm.planning.plan import LONGEST

    effort.refuse_beyond(LONGEST, expected=effort.seconds / workers, runs=effort.runs)
    remark(f"estimated time: {effort.describe(workers)}.")


def _read_scenarios(path: Path) -> list[dict[str, Any]]:
    """The tables named `scenario` of a TOML file."""
    from bestarm.cli.files import UserFile

    example = 'Try [[scenario]] with name = "calm", gap = 0.1 and drift = "none" below it.'
    file = UserFile(path, "scenario", example)
    document = file.toml()
    tables: Any = document.pop("scenario", None)
    if document or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise file.wrong("must hold tables [[scenario]] and nothing else.")
    return tables


def _print_words(plan: ExperimentPlan, problem: Problem) -> None:
    from bestarm.planning.forecasts import unit_of
    from bestarm.planning.plan import duration

    unit = unit_of(plan.block)
    among = "" if problem.source is problem.target else f", {plan.targets} targets"
    typer.echo(
        f"{plan.arms} options{among}, δ = {plan.delta:g}, noise {problem.noise:g} and baseline "
        f"±{problem.baseline:g} declared; {count(plan.runs, 'simulated experiment')} of each "
        f"policy, seed {plan.seed}. Counted in {unit}:"
    )
    if plan.block > 1:
        typer.echo(
            f"A round is one person, prompt or plate; with ×{plan.block} it tries {plan.block} "
            "options. Count rounds where people are what it costs, and outcomes where every "
            "judgement is paid for. Ranges and days are of rounds."
        )
    if plan.window is not None:
        typer.echo(
            f"A window of {duration(plan.window)} at {plan.per_day:,.10g} outcomes per day: "
            f"{plan.delay:,} are always under way. Days include that."
        )
    whatever = "whatever the baseline does" if problem.drifts else "where there is no baseline"
    for assumed in plan.scenarios:
        typer.echo(f"\n{assumed.scenario}: {assumed.describe(unit)}.")
        forecasts = plan.of(assumed.scenario)
        if forecasts:
            typer.echo()
            console().print(_table(plan, forecasts))
            for each in plan.savings:
                if each.scenario == assumed.scenario:
                    typer.echo(_describe_saving(each, plan.block))
            for forecast in forecasts:
                if waiting := plan.waiting(forecast):
                    least = "at least " if "mean" in forecast.rounds.cut else ""
                    typer.echo(
                        f"{forecast.name} assigns nothing on {least}{_day(waiting)} of its days, "
                        "on average: it waits for the last outcomes of each phase."
                    )
            typer.echo(
                f"No rule that is right with probability {1 - plan.delta:g}, {whatever}, takes "
                f"fewer than {'about ' if assumed.bounded else ''}{assumed.lower_bound:,.0f} "
                "outcomes on average."
            )
    typer.echo()
    for warning in plan.warnings:
        typer.echo(warning)
    if words := _precision(plan):
        typer.echo(words)
    typer.echo(f"A forecast holds if its assumptions do. {unit.title()} grow with 1/gap².")


def _print_lifts(found: DetectableLifts) -> None:
    from bestarm.planning.amounts import describe_lift, in_percent

    rates = _rates(found)
    many = count(found.visitors, "visitor" if found.block == 1 else "round")
    days = "" if found.days is None else f" ({_day(found.days)} days)"
    typer.echo(
        f"{found.arms} options, δ = {found.delta:g}; {many}{days}. "
        f"{count(found.runs, 'simulated experiment')} per lift, seed {found.seed}."
    )
    noun = "lead" if found.base is None else "lift"
    for curve in found.curves:
        unit = "visitors" if found.block == 1 else "rounds"
        typer.echo(f"\n{curve.policy}, {curve.scenario}: {curve.world.describe_drift(unit)}.\n")
        shown, largest = curve.at(0.8), curve.points[-1].lift
        if shown.lift is None:
            lift = describe_lift(largest, found.base, rates=rates)
            typer.echo(f"With {many} no {noun} up to {lift} is found with probability 80 %.")
        else:
            lift = describe_lift(shown.lift, found.base, rates=rates)
            typer.echo(f"With {many} a {noun} of {lift} is found with probability 80 %.")
        typer.echo()
        for each in _lift_tables(found, curve):
            console().print(each)
            typer.echo()
    for warning in found.warnings:
        typer.echo(warning)
    if found.base is not None:
        base = in_percent(found.base) if rates else f"{found.base:.4g}"
        typer.echo(f"A lift in percent is of the base rate, {base}: that of the next best option.")
    typer.echo(
        f"Found: named as the winner within {many}, with error probability {found.delta:g}. It "
        "holds if the assumptions do. Four times as many visitors find half of the lift, about."
    )


def _lift_tables(found: DetectableLifts, curve: LiftCurve) -> Iterator[Table]:
    """The smallest lift per probability, and the probabilities of lifts."""
    from bestarm.planning.amounts import describe_lift, in_percent

    def words(lift: float | None) -> str:
        share = found.relative(lift)
        if lift is None:
            return "…"
        return f"{lift:.3g}" if share is None else f"+{in_percent(share)}"

    noun = "lead" if found.base is None else "lift"
    smallest = table("probability", f"smallest {noun}", "95 %")
    for each in curve.lifts:
        lift = (
            None if each.lift is None else describe_lift(each.lift, found.base, rates=_rates(found))
        )
        low, high = map(words, each.interval)
        smallest.add_row(f"{each.power:.0%}", lift or "none", f"{low} to {high}")
    yield smallest
    probabilities = table(noun, "found (95 %)")
    for point in curve.points:
        probabilities.add_row(words(point.lift), percent_range(point.probability, point.interval))
    yield probabilities


def _rates(found: DetectableLifts) -> bool:
    """Whether outcomes are yes and no, so that means are rates."""
    return found.bounds == (0, 1)


def _describe_saving(saving: Saving, block: int) -> str:
    """What blocks save, with intervals."""
    rounds, pulls = (
        f"{value:.2f} ({low:.2f}–{high:.2f})"
        for value, (low, high) in (
            (saving.rounds, saving.rounds_interval),
            (saving.pulls, saving.pulls_interval),
        )
    )
    return (
        f"With ×{block}, {saving.policy} takes {rounds} times the rounds and {pulls} times the "
        "outcomes of one option per round (means, 95 %)."
    )


def _precision(plan: ExperimentPlan) -> str:
    """How precisely medians are known, if any are."""
    known = {
        each: precision
        for each in plan.forecasts
        if (precision := each.counted.precision) is not None
    }
    if not known:
        return ""
    runs = min(each.runs for each in known)
    made = count(runs, "simulated experiment") + (" or more" if runs < plan.runs else "")
    which = "a median here is"
    if len(known) < len(plan.forecasts):
        which = f"{len(known)} of {len(plan.forecasts)} medians here are"
    return (
        f"From {made} each, {which} known to {max(known.values()):.0%} or better (95 %); four "
        "times as many halve that."
    )


def _table(plan: ExperimentPlan, forecasts: Sequence[PolicyForecast]) -> Table:
    days = ["days"] if plan.per_day else []
    blocks = plan.block > 1
    first, last = ("rounds", "outcomes") if blocks else ("median", "÷ bound")
    shown = table("policy", first, "8 of 10 times", last, "wrong (95 %)", *days)
    for each in forecasts:
        runs = "" if each.runs == plan.runs else f" [of {each.runs:,}]"
        shown.add_row(
            each.name + runs,
            _figure(each.counted, "median"),
            f"{_figure(each.counted, 'low')}–{_figure(each.counted, 'high')}",
            _figure(each.pulls, "median") if blocks else _ratio(each),
            percent_range(each.error_rate, each.error_interval),
            *(_days(plan, each.rounds) for _ in days),
        )
    return shown


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
