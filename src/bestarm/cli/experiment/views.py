"""`bestarm experiment status`, `recommend`, `health` and `list`: how experiments stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.command import command
from bestarm.cli.experiment.command import Result, on_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, StoreUrl
from bestarm.cli.reporting import checks_result, print_json, printable, remark

if TYPE_CHECKING:
    from bestarm.live import Experiment
    from bestarm.policies.policy import Policy, Rates
    from bestarm.recommendation import Recommendation
    from bestarm.units import Unit


def time_of(seconds: float) -> str:
    """A time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@on_experiment
def status(experiment: Experiment) -> Result:
    """Show where an experiment stands."""
    from bestarm.errors import ReplayError
    from bestarm.live.watch.overview import Watch
    from bestarm.live.watch.wording import verdict

    problem, traits, now = experiment.problem, experiment.traits, experiment.status()
    words = [*experiment.description.splitlines(), f"{experiment.name}: {now}."]
    data = status_data(experiment) | {"verdict": None}
    if now.state == "finished":
        try:
            said, rates = experiment.recommendation(), experiment.inspect(_rates)
            unit = unit_of(rates)
            data["verdict"] = experiment.inspect(
                lambda _, books: verdict(books.head, said, problem, traits, unit=unit)
            )
            words.append(data["verdict"])
            words += rates_words(rates, problem.target_labels)
        except ReplayError:  # another version of the policy: without the effect
            data["verdict"] = Watch(experiment).headline()
            words.append(data["verdict"])
    return Result(data, words)


def status_data(experiment: Experiment) -> dict[str, Any]:
    """What there is to know of an experiment before its outcomes, as JSON has it."""
    problem = experiment.problem
    return {
        "description": experiment.description,
        **asdict(experiment.status()),
        "lease": experiment.lease,
        "window": experiment.window,
        "otherwise": experiment.otherwise,
        "seed": experiment.seed,
        "delta": problem.delta,
        "arms": list(problem.source_labels),
        "targets": list(problem.target_labels),
    }


@on_experiment
def recommend(experiment: Experiment) -> Result:
    """Name the best option as far as is known, what may be claimed, and under which assumptions."""
    now, labels = experiment.recommendation(), experiment.problem.target_labels
    rates = experiment.inspect(_rates)
    data = recommendation_data(now, labels) | {"rates": rates_data(rates, labels)}
    return Result(data, [*recommendation_words(now), *rates_words(rates, labels)])


def _rates(policy: Policy, _: object) -> Rates | None:
    return policy.rates()


def unit_of(rates: Rates | None) -> Unit:
    """How rewards are written."""
    from bestarm.units import Unit

    return Unit(percent=rates is not None and rates.binary)


def rates_data(rates: Rates | None, labels: Sequence[str]) -> list[dict[str, Any]] | None:
    """What each option pays on average, as JSON has it."""
    if rates is None:
        return None
    columns = (labels, rates.estimate.tolist(), rates.low.tolist(), rates.high.tolist())
    names = ("label", "estimate", "lower", "upper")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def rates_words(rates: Rates | None, labels: Sequence[str]) -> list[str]:
    """What each option pays on average, the most first."""
    if rates is None:
        return []
    from bestarm.live.watch.wording import percent

    unit = unit_of(rates)
    what = "Rate" if rates.binary else "Mean outcome"
    all_of = rates.estimate.tolist()
    lines = [
        f"{what} of each option over {rates.rounds:,} assignments whose outcome is in, had each "
        f"got it ({percent(rates.delta)} for all intervals, at all times together):"
    ]
    for each in sorted(range(len(all_of)), key=lambda option: -all_of[option]):
        low, high = float(rates.low[each]), float(rates.high[each])
        size = f"{unit.value(all_of[each], *all_of)} ({unit.interval(low, high, *all_of)})"
        lines.append(f"- {labels[each]}: {size}")
    return lines


def recommendation_data(now: Recommendation, labels: Sequence[str]) -> dict[str, Any]:
    """A recommendation as JSON has it: without its trace, and with the names of options."""
    data = {key: value for key, value in vars(now).items() if key != "trace"}
    data["effect"] = None if now.effect is None else asdict(now.effect)
    named = ("chosen", "active", "tied")
    return data | {key: [labels[target] for target in data[key]] for key in named}


def recommendation_words(now: Recommendation) -> list[str]:
    """A recommendation with its assumptions."""
    lines = [f"{now}."]
    if now.statement:
        lines.append(now.statement)
    if now.assumptions:
        lines += ["This rests on:", *(f"- {each}" for each in now.assumptions)]
    return lines


@on_experiment
def health(experiment: Experiment) -> Result:
    """Run the health checks of an experiment: exit code 1 on an alarm."""
    return Result(*checks_result(experiment.health()))


@command
def list_(*, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """List the experiments of a store."""
    from bestarm.live import Experiment

    listed = Experiment.list(store)
    if json:
        rows = [{**asdict(each), "created": time_of(each.created)} for each in listed]
        for row in rows:
            del row["revision"]
        print_json({"experiments": rows})
        return
    for each in listed:
        about = f" ({each.description})" if each.description else ""
        typer.echo(printable(f"{each.name}{about}: {each.status}."))
    if not listed:
        remark("There are no experiments in it yet.")
