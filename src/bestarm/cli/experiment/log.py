"""`bestarm experiment log`: the event log."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl, whole
from bestarm.cli.reporting import print_json, printable, reported

__all__ = ["log", "time_of"]

_LONGEST = 300  # characters of a value


@reported
def log(
    name: Name,
    start: Annotated[
        int, typer.Option(parser=whole, metavar="N", help="The first event to show.")
    ] = 0,
    last: Annotated[
        int | None,
        typer.Option(parser=whole, metavar="N", help="Show at most the last N events."),
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Show every change of an experiment's state, each bound to the one before by its hash."""
    from bestarm import checks

    if last is not None:
        checks.whole(last, "last", least=1)
    with open_experiment(store, name) as experiment:
        events = list(experiment.events(start))
    events = events if last is None else events[-last:]
    if json:
        shown = [{**asdict(event), "at": time_of(event.at)} for event in events]
        print_json({"experiment": name, "events": shown})
        return
    width = len(str(events[-1].number)) if events else 1
    for event in events:
        data = ", ".join(f"{key} {_short(value)}" for key, value in event.data.items())
        typer.echo(
            f"{event.number:>{width}}  {time_of(event.at)}  {event.kind:<10}  "
            f"{event.hash[:12]}  {printable(data)}"
        )


def time_of(seconds: float) -> str:
    """A time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    if len(text) == 64 and text.isalnum():  # a digest
        return f"{text[:12]}…"
    return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text
