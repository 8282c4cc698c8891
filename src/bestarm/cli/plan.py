"""`bestarm plan`: how long a trial will take, under assumptions one states."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bestarm import Problem
from bestarm.checks import interval
from bestarm.cli.files import read_table
from bestarm.cli.reporting import console, print_json
from bestarm.cli.workers import bars, check_workers, lines, working
from bestarm.errors import InvalidInputError
from bestarm.planning import (
    DEFAULT_POLICIES,
    Effort,
    ExperimentPlan,
    PlanRequest,
    PolicyForecast,
    Scenario,
    plan_experiment,
)
from bestarm.planning.assumptions import as_scenario, scales
from bestarm.planning.effort import LONGEST

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["run_plan"]


def run_plan(
    source: Path,
    *,
    target: Path | None,
    gap: float | None,
    scenario: Path | None,
    delta: float,
    noise: float | None,
    baseline: float | None,
    bounds: tuple[float, float] | None,
    level: float | None,
    drift: Sequence[str],
    policy: Sequence[str],
    per_day: float | None,
    runs: int,
    seed: int,
    max_pulls: int | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Read a problem and the assumptions, simulate, say what came of it."""
    check_workers(workers, None)
    limits = None if bounds is None else interval(tuple(bounds), "bounds")
    told_noise, told_baseline = scales(limits, noise, baseline)
    arms = read_table(source)
    options = None if target is None else read_table(target)
    problem = Problem(
        arms.features,
        None if options is None else options.features,
        delta=delta,
        noise=told_noise,
        baseline=told_baseline,
        source_labels=arms.labels,
        target_labels=None if options is None else options.labels,
    )
    scenarios = [] if scenario is None else _read_scenarios(scenario)
    if scenarios and (drift or level is not None):
        raise InvalidInputError(
            "`--drift` and `--level` go with `--gap`; a file says both for each scenario.",
            field="scenario",
            value=str(scenario),
            remedy="Leave them out.",
        )
    policies = list(dict.fromkeys(policy)) or list(DEFAULT_POLICIES)
    drifts = list(dict.fromkeys(drift)) or ["sine"]
    total = runs * len(policies) * (len(scenarios) or len(drifts))
    try:
        with (
            working(workers) as executor,
            bars(["planning"], total) as shown,
            lines() as written,
        ):

            def progress(done: int, total: int) -> None:
                written(done, total)
                shown["planning"](done, total)

            plan = plan_experiment(
                PlanRequest(
                    problem,
                    gap=gap,
                    scenarios=scenarios,
                    drift=drifts,
                    bounds=limits,
                    level=level,
                    policies=policies,
                    per_day=per_day,
                    runs=runs,
                    seed=seed,
                    max_pulls=max_pulls,
                ),
                executor=executor,
                progress=progress,
                on_estimate=partial(_announce, workers=workers or 1),
            )
    except KeyboardInterrupt:  # before the first run
        typer.echo("bestarm: interrupted before any trial had been simulated.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json(plan.to_dict())
    else:
        _print_words(plan, problem)
    if plan.interrupted:
        raise typer.Exit(130)


def _announce(effort: Effort, *, workers: int) -> None:
    effort.refuse_beyond(LONGEST, expected=effort.seconds / workers, rounds=effort.runs)
    typer.echo(f"bestarm: estimated time: {effort.words(workers)}.", err=True)


def _read_scenarios(path: Path) -> list[Scenario]:
    """The tables named `scenario` of a TOML file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise _wrong(path, f"is not a TOML file: {error}.") from None
    tables: Any = document.pop("scenario", None)
    if document or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise _wrong(path, "must hold tables [[scenario]] and nothing else.")
    return [as_scenario(table, name=str(i)) for i, table in enumerate(tables, start=1)]


def _wrong(path: Path, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{str(path)!r} {what}",
        field="scenario",
        value=str(path),
        remedy='Try [[scenario]] with name = "calm", gap = 0.1 and drift = "none" below it.',
    )


def _print_words(plan: ExperimentPlan, problem: Problem) -> None:
    screen = console()
    among = "" if problem.source is problem.target else f", {plan.targets} targets"
    screen.print(
        f"{plan.arms} arms{among}, δ = {plan.delta:g}, noise {problem.noise:g} and baseline "
        f"±{problem.baseline:g} declared; {_count(plan.runs)} of each policy, seed {plan.seed}. "
        "Counted in outcomes:",
        soft_wrap=True,
    )
    for assumed in plan.scenarios:
        screen.print()
        screen.print(f"{assumed.scenario}: {assumed}.", soft_wrap=True)
        forecasts = plan.of(assumed.scenario)
        if forecasts:
            screen.print()
            screen.print(_table(plan, forecasts))
            screen.print(
                f"No rule that is right with probability {1 - plan.delta:g}, whatever the baseline "
                f"does, takes fewer than {'about ' if assumed.bounded else ''}"
                f"{assumed.lower_bound:,.0f} outcomes on average.",
                soft_wrap=True,
            )
    screen.print()
    for line in _remarks(plan):
        screen.print(line, soft_wrap=True)


def _table(plan: ExperimentPlan, forecasts: Sequence[PolicyForecast]) -> Table:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy", no_wrap=True)
    headings = ["median", "8 of 10 trials", "÷ bound", "wrong (95 %)"]
    for heading in [*headings, *(["days"] if plan.per_day else [])]:
        table.add_column(heading, justify="right", no_wrap=True)
    for each in forecasts:
        low, high = each.error_interval
        runs = "" if each.runs == plan.runs else f" [of {each.runs:,}]"
        table.add_row(
            each.policy + runs,
            f"{_at_least(each, 0.5)}{each.median:,.0f}",
            f"{each.low:,.0f}–{_at_least(each, 0.9)}{each.high:,.0f}",
            "–" if each.ratio is None else f"{each.ratio:.1f}",
            f"{each.error_rate:.1%} ({100 * low:.1f}–{100 * high:.1f})",
            *([_days(plan, each)] if plan.per_day else []),
        )
    return table


def _at_least(each: PolicyForecast, level: float) -> str:
    """A sign before a quantile that lies among trials that were cut."""
    return "≥ " if each.capped > (1 - level) * each.runs else ""


def _days(plan: ExperimentPlan, each: PolicyForecast) -> str:
    low, median, high = (_short(plan.days(n) or 0.0) for n in (each.low, each.median, each.high))
    return f"{median} ({low}–{high})"


def _short(days: float) -> str:
    return f"{days:,.0f}" if days >= 10 else f"{days:.1f}"


def _remarks(plan: ExperimentPlan) -> list[str]:
    said = list(plan.warnings)
    precise = [_precision(each) for each in plan.forecasts if each.runs > 1]
    if precise:
        said.append(
            f"From {_count(plan.runs)} each, a median here is known to {max(precise):.0%} or "
            "better (95 %); four times as many trials halve that."
        )
    said.append("A forecast holds if its assumptions do. Outcomes grow with 1/gap².")
    return said


def _precision(each: PolicyForecast) -> float:
    low, high = each.median_interval
    return max(high - each.median, each.median - low) / each.median


def _count(runs: int) -> str:
    return f"{runs:,} simulated trial" + ("" if runs == 1 else "s")
