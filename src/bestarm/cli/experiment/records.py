"""`bestarm experiment log`, `export`, `report`, `verify` and `replay`: what is on record."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.experiment.views import recommendation_data, recommendation_words, time_of
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl, whole
from bestarm.cli.reporting import need_server, print_json, print_result, remark, reported
from bestarm.errors import ReplayError

if TYPE_CHECKING:
    from bestarm.live.replay import Remark

__all__ = ["export", "log", "replay", "report", "verify"]

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
    width = len(str(events[-1].number)) if events else 1
    lines = [
        f"{event.number:>{width}}  {time_of(event.at)}  {event.kind:<10}  {event.hash[:12]}  "
        + ", ".join(f"{key} {_short(value)}" for key, value in event.data.items())
        for event in events
    ]
    shown = [{**asdict(event), "at": time_of(event.at)} for event in events]
    print_result({"experiment": name, "events": shown}, *lines, as_json=json)


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    if len(text) == 64 and text.isalnum():  # a digest
        return f"{text[:12]}…"
    return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text


class Layout(StrEnum):
    """What columns an export has."""

    ASSIGNMENTS = "assignments"
    MRT = "mrt"


@reported
def export(
    name: Name,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file, .csv or .parquet.")],
    layout: Annotated[
        Layout,
        typer.Option(help="All that is on record, or as micro-randomised trials are analysed."),
    ] = Layout.ASSIGNMENTS,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of every option.")
    ] = False,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Write all assignments with their outcomes to a file."""
    with open_experiment(store, name) as experiment:
        rows = experiment.export(path, layout=layout.value, probabilities=probabilities)
    data = {"experiment": name, "path": str(path), "layout": layout.value, "rows": rows}
    print_result(data, f"{rows} assignments written to {path}.", as_json=json)


@reported
def report(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")] = Path(
        "report.html"
    ),
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Write an experiment as one page to print or keep."""
    need_server()
    from bestarm.server.pages.report import write_report

    with open_experiment(store, name) as experiment:
        written = write_report(experiment, out)
    print_result({"experiment": name, "file": str(written)}, f"Wrote {written}.", as_json=json)


@reported
def verify(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Redo every draw and check the whole record: exit code 1 if it is not sound."""
    with open_experiment(store, name) as experiment:
        found = experiment.verify()
    data = {"experiment": name, "sound": found.sound, **asdict(found)}
    print_result(data, *f"{name}: {found}".split("\n"), as_json=json)
    if not found.sound:
        raise typer.Exit(1)


@reported
def replay(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Replay an experiment with a fresh policy: exit code 1 if its decisions differ."""
    with open_experiment(store, name) as experiment:
        labels = experiment.problem.target_labels
        try:
            replayed = experiment.replay()
        except ReplayError as error:
            remark(str(error))
            if json:
                print_json({"experiment": name, "agrees": False, "error": str(error)})
            raise typer.Exit(1) from None
    now, remarks = replayed.recommendation, replayed.remarks
    data = {"experiment": name, "agrees": True, **recommendation_data(now, labels)}
    print_result(
        {**data, "remarks": [asdict(each) for each in remarks]},
        "The replay agrees with the log.",
        *recommendation_words(now),
        *map(_remark_words, remarks),
        as_json=json,
    )


def _remark_words(remark: Remark) -> str:
    would = (
        "would not be planned"
        if remark.planned is None
        else f"would be planned with {remark.planned:,} assignments and probabilities that differ "
        f"by up to {remark.difference:.2g}"
    )
    return f"Remark: phase {remark.phase} of {remark.pulls:,} assignments {would} here and now."
