"""`bestarm experiment status`: the counters of an experiment."""

from __future__ import annotations

from dataclasses import asdict

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, printable, reported

__all__ = ["status"]


@reported
def status(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Show where an experiment stands."""
    with open_experiment(store, name) as experiment:
        now, lease = experiment.status(), experiment.lease
        about, problem, seed = experiment.description, experiment.problem, experiment.seed
    if json:
        print_json(
            {
                "experiment": name,
                "description": about,
                **asdict(now),
                "lease": lease,
                "seed": seed,
                "delta": problem.delta,
                "arms": list(problem.source_labels),
                "targets": list(problem.target_labels),
            }
        )
        return
    for line in about.splitlines():
        typer.echo(printable(line))
    typer.echo(f"{name}: {now}.")
