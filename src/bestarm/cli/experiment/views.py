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
    from bestarm.recommendation import Recommendation


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
            said = experiment.recommendation()
            data["verdict"] = experiment.inspect(
                lambda _, books: verdict(books.head, said, problem, traits)
            )
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
    return Result(recommendation_data(now, labels), recommendation_words(now))


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
