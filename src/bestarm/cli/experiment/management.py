"""`bestarm experiment pause`, `resume`, `lease` and `stop`."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_result, reported

__all__ = ["lease", "pause", "resume", "stop"]


@reported
def pause(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Make no assignments until `resume`; outcomes are still recorded."""
    with open_experiment(store, name) as experiment:
        experiment.pause()
        _print_state(name, experiment.state, as_json=json)


@reported
def resume(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Continue after `pause`."""
    with open_experiment(store, name) as experiment:
        experiment.resume()
        _print_state(name, experiment.state, as_json=json)


@reported
def stop(
    name: Name,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, in words.")] = "",
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """End an experiment for good; outcomes that come later are kept and flagged."""
    with open_experiment(store, name) as experiment:
        experiment.stop(reason)
        _print_state(name, experiment.state, as_json=json)


def _print_state(name: str, state: str, *, as_json: bool) -> None:
    print_result({"experiment": name, "state": state}, f"{name} is {state}.", as_json=as_json)


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
    takes = "any time" if seconds is None else f"{seconds:g} seconds"
    print_result(
        {"experiment": name, "state": state, "lease": seconds},
        f"Outcomes of {name} may take {takes} from now on.",
        as_json=json,
    )
