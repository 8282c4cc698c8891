"""`bestarm experiment fail`: record that outcomes will never come."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, reported

__all__ = ["fail"]


@reported
def fail(
    name: Name,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of assignments.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, in words.")] = "failed",
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Record that the outcomes of assignments will never come."""
    from bestarm.cli.experiment.outcomes import read_id

    numbers = [read_id(text) for text in ids]
    with open_experiment(store, name) as experiment:
        experiment.fail_many(numbers, reason)
        state = experiment.state
    if json:
        print_json({"experiment": name, "state": state, "failed": numbers})
    else:
        typer.echo(f"Recorded: no outcome will come for {', '.join(map(str, numbers))}.")
