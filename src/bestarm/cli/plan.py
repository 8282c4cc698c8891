"""`bestarm plan`: how long an experiment will take, under assumptions one states."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bestarm.cli.options import AsJson, Delta, Seed, Source, Target, Workers, decimal, whole
from bestarm.cli.reporting import console, print_json, remark, reported
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.table import Table

    from bestarm.planning import Effort, ExperimentPlan, PolicyForecast, Scenario
    from bestarm.problem import Problem

__all__ = ["plan"]


@reported
def plan(
    source: Source,
    target: Target = None,
    gap: Annotated[
        float | None,
        typer.Option(
            parser=decimal,
            help="The smallest lead worth finding, in units of the reward. All others are assumed "
            "to trail the best by as little as the features allow: the hardest case.",
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Assumptions in detail, as TOML, instead of a gap."),
    ] = None,
    delta: Delta = DELTA,
    noise: Annotated[
        float | None,
        typer.Option(
            parser=decimal,
            help="The scale of the noise; 1, or what the bounds imply, if left out.",
        ),
    ] = None,
    baseline: Annotated[
        float | None,
        typer.Option(
            parser=decimal, help="A bound on the baseline's size; 1, or what the bounds imply."
        ),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(
            parser=decimal,
            metavar="LO HI",
            help="The lowest and the highest reward: 0 1 for no and yes.",
        ),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            parser=decimal, help="The mean reward; 0, or the middle of the bounds, if left out."
        ),
    ] = None,
    drift: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="How the baseline moves: none, sine, walk or switches; sine if left out. Repeat "
            "it for more.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A policy by name; anytime, sp-bai-sharp and sp-bai if left out. Repeat it for "
            "more.",
        ),
    ] = None,
    per_day: Annotated[
        float | None,
        typer.Option(parser=decimal, metavar="N", help="Outcomes per day, to print days as well."),
    ] = None,
    runs: Annotated[
        int, typer.Option(parser=whole, help="Simulated experiments of each policy.")
    ] = 200,
    seed: Seed = 0,
    max_pulls: Annotated[
        int | None,
        typer.Option(
            parser=whole,
            help="Where a simulated experiment is cut; 100 times the lower bound if left out.",
        ),
    ] = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """How long will it take? Simulates an experiment before it is run."""
    from bestarm.checks import interval
    from bestarm.cli.features import read_problem
    from bestarm.cli.progress import bars, lines
    from bestarm.planning import DEFAULT_POLICIES, PlanRequest, plan_experiment
    from bestarm.planning.assumptions import scales
    from bestarm.simulation.executors import check_workers, open_executor

    check_workers(workers, None)
    limits = None if bounds is None else interval(tuple(bounds), "bounds")
    noise, baseline = scales(limits, noise, baseline)
    problem = read_problem(source, target, delta=delta, noise=noise, baseline=baseline)
    scenarios = [] if scenario is None else _read_scenarios(scenario)
    if scenarios and (drift or level is not None):
        raise InvalidInputError(
            "`--drift` and `--level` go with `--gap`; a file gives both for each scenario.",
            field="scenario",
            value=str(scenario),
            remedy="Leave them out.",
        )
    policies = list(dict.fromkeys(policy or DEFAULT_POLICIES))
    drifts = list(dict.fromkeys(drift or ["sine"]))
    total = runs * len(policies) * (len(scenarios) or len(drifts))
    try:
        with (
            open_executor(workers) as executor,
            bars(["planning"], total) as shown,
            lines() as written,
        ):

            def progress(done: int, total: int) -> None:
                written(done, total)
                shown["planning"](done, total)

            made = plan_experiment(
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
        remark("interrupted before any experiment had been simulated.")
        raise typer.Exit(130) from None
    if json:
        print_json(made.to_dict())
    else:
        _print_words(made, problem)
    if made.interrupted:
        raise typer.Exit(130)


def _announce(effort: Effort, *, workers: int) -> None:
    from bestarm.planning.effort import LONGEST

    effort.refuse_beyond(LONGEST, expected=effort.seconds / workers, rounds=effort.runs)
    remark(f"estimated time: {effort.words(workers)}.")


def _read_scenarios(path: Path) -> list[Scenario]:
    """The tables named `scenario` of a TOML file."""
    from bestarm.planning.assumptions import as_scenario

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
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy", no_wrap=True)
    headings = ["median", "8 of 10 times", "÷ bound", "wrong (95 %)"]
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
    """A sign before a quantile that lies among experiments that were cut."""
    return "≥ " if each.capped > (1 - level) * each.runs else ""


def _days(plan: ExperimentPlan, each: PolicyForecast) -> str:
    low, median, high = (_short(plan.days(n) or 0.0) for n in (each.low, each.median, each.high))
    return f"{median} ({low}–{high})"


def _short(days: float) -> str:
    return f"{days:,.0f}" if days >= 10 else f"{days:.1f}"


def _remarks(plan: ExperimentPlan) -> list[str]:
    remarks = list(plan.warnings)
    precise = [_precision(each) for each in plan.forecasts if each.runs > 1]
    if precise:
        remarks.append(
            f"From {_count(plan.runs)} each, a median here is known to {max(precise):.0%} or "
            "better (95 %); four times as many halve that."
        )
    remarks.append("A forecast holds if its assumptions do. Outcomes grow with 1/gap².")
    return remarks


def _precision(each: PolicyForecast) -> float:
    low, high = each.median_interval
    return max(high - each.median, each.median - low) / each.median


def _count(runs: int) -> str:
    return f"{runs:,} simulated experiment" + ("" if runs == 1 else "s")
