"""`bestarm experiment pause`, `resume` and `stop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, reported

if TYPE_CHECKING:
    from bestarm.live import Experiment

__all__ = ["pause", "resume", "stop"]


@reported
def pause(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Make no assignments until `resume`; outcomes are still recorded."""
    _change(store, name, lambda experiment: experiment.pause(), as_json=json)


@reported
def resume(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Continue after `pause`."""
    _change(store, name, lambda experiment: experiment.resume(), as_json=json)


@reported
def stop(
    name: Name,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, in words.")] = "",
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """End an experiment for good; outcomes that come later are kept and flagged."""
    _change(store, name, lambda experiment: experiment.stop(reason), as_json=json)


def _change(
    store: str, name: str, change: Callable[[Experiment], object], *, as_json: bool
) -> None:
    with open_experiment(store, name) as experiment:
        change(experiment)
        state = experiment.state
    if as_json:
        print_json({"experiment": name, "state": state})
    else:
        typer.echo(f"{name} is {state}.")
