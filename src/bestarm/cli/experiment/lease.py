"""`bestarm experiment lease`: how long outcomes may take."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, reported

__all__ = ["lease"]


@reported
def lease(
    name: Name,
    length: Annotated[
        str,
        typer.Argument(metavar="TIME", help="90s, 30m, 12h or 2d; none to wait for ever."),
    ],
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Change how long outcomes may take from now on; what is lost stays lost."""
    with open_experiment(store, name) as experiment:
        experiment.change_lease(None if length == "none" else length)
        state, seconds = experiment.state, experiment.lease
    if json:
        print_json({"experiment": name, "state": state, "lease": seconds})
    else:
        takes = "any time" if seconds is None else f"{seconds:g} seconds"
        typer.echo(f"Outcomes of {name} may take {takes} from now on.")
