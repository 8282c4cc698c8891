"""`bestarm plan`: how long an experiment will take, under assumptions one states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.command import command
from bestarm.cli.output import console, count, print_json, remark, show_progress, table
from bestarm.defaults import DELTA
from bestarm.tables import percent_range

if TYPE_CHECKING:
    from rich.table import Table

    from bestarm.planning import Effort, ExperimentPlan, PolicyForecast, Saving, Spread
    from bestarm.problem import Problem


@command
def plan(
    source: Path,
    *,
    target: Path | None = None,
    gap: float | None = None,
    scenario: Path | None = None,
    delta: float = DELTA,
    noise: float | None = None,
    baseline: float | None = None,
    bounds: tuple[float, float] | None = None,
    level: float | None = None,
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
    """How long will it take? Simulates an experiment before it is run.

    Args:
        gap: The smallest lead worth finding, in units of the reward. All others are assumed to
            trail the best by as little as the features allow: the hardest case.
        scenario (FILE): Assumptions in detail, as TOML, instead of a gap.
        level: The mean reward; 0, or the middle of the bounds, if left out.
        drift (NAME): How the baseline moves: none, sine, walk, switches, or people, a level of its
            own for every round. If left out, sine; with --block, people. Repeat it for more.
        policy (NAME): A policy by name; if left out, anytime, sp-bai-sharp and sp-bai, and with
            --block those that can. Repeat it for more.
        block: Options per round, as when each person rates 2; compared with one per round.
        per_day (N): Outcomes per day, to print days as well; with --block rounds per day: people.
        window (TIME): How long after its assignment an outcome counts (30m, 7d), as in `experiment
            create`. Needs --per-day. Days then include the delay.
        runs: Simulated experiments of each policy.
        max_pulls: Where a simulated experiment is cut; 100 times the lower bound if left out.
    """
    from bestarm.cli.features import read_table
    from bestarm.planning import plan_experiment
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
        "policies": list(dict.fromkeys(policy or ())),
        "block": block,
        "per_day": per_day,
        "window": window,
        "runs": runs,
        "seed": seed,
        "max_pulls": max_pulls,
    }
    for name, path in (("source", source), ("target", target)):
        if path is not None:
            read = read_table(path)
            document |= {name: read.features, f"{name}_labels": read.labels}
    request = read_request(document)
    jobs = len(request.methods()) * len(request.sizes) * len(request.resolved_scenarios())
    try:
        with open_executor(workers) as executor, show_progress("planning", runs * jobs) as progress:
            made = plan_experiment(
                request,
                executor=executor,
                progress=progress,
                on_estimate=partial(_announce, workers=workers or 1),
            )
    except KeyboardInterrupt:  # before the first run
        remark("interrupted before any experiment had been simulated.")
        raise typer.Exit(130) from None
    if json:
        print_json(made.to_dict())
    else:
        _print_words(made, request.problem)
    if made.interrupted:
        raise typer.Exit(130)


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
        f"{plan.arms} arms{among}, δ = {plan.delta:g}, noise {problem.noise:g} and baseline "
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
