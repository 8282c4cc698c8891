"""`bestarm experiment`: what is on record, and whether it is as it should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer

from bestarm.checks import whole
from bestarm.cli.experiment_run import opened, recommendation_data, recommendation_words, say
from bestarm.cli.reporting import print_json, printable
from bestarm.errors import ReplayError
from bestarm.live import Experiment, Listed
from bestarm.live.replay import Remark
from bestarm.live.values import Check, worst

__all__ = [
    "print_checks",
    "run_export",
    "run_health",
    "run_list",
    "run_log",
    "run_replay",
    "run_verify",
]

_PART = 1000  # trials of a list read at a time
_LONGEST = 300  # characters of a value in the log
_MARKS = {"ok": "ok     ", "warning": "WARNING", "alarm": "ALARM  "}


def run_health(store: str, name: str, *, as_json: bool) -> None:
    """Print how a trial is; exit code 1 on an alarm."""
    with opened(store, name) as experiment:
        checks = experiment.health()
    print_checks({"experiment": name}, checks, as_json=as_json)


def print_checks(about: dict[str, object], checks: Sequence[Check], *, as_json: bool) -> None:
    """Print answers, and end with exit code 1 if one of them is an alarm."""
    level = worst(checks)
    if as_json:
        print_json({**about, "level": level, "checks": [asdict(check) for check in checks]})
    else:
        width = max((len(check.name) for check in checks), default=0)
        for check in checks:
            said = f"{check.finding} {check.action}".strip()
            typer.echo(f"{_MARKS[check.level]} {check.name:<{width}}  {printable(said)}")
    if level == "alarm":
        raise typer.Exit(1)


def run_log(store: str, name: str, *, start: int, last: int | None, as_json: bool) -> None:
    """Print the log."""
    if last is not None:
        whole(last, "last", least=1)
    with opened(store, name) as experiment:
        events = list(experiment.events(start))
    events = events if last is None else events[-last:]
    if as_json:
        shown = [{**asdict(event), "at": _time(event.at)} for event in events]
        print_json({"experiment": name, "events": shown})
        return
    width = len(str(events[-1].number)) if events else 1
    for event in events:
        data = ", ".join(f"{key} {_short(value)}" for key, value in event.data.items())
        typer.echo(
            f"{event.number:>{width}}  {_time(event.at)}  {event.kind:<10}  "
            f"{event.hash[:12]}  {printable(data)}"
        )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    if len(text) == 64 and text.isalnum():
        return f"{text[:12]}…"
    return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text


def run_export(
    store: str, name: str, path: Path, *, layout: str, probabilities: bool, as_json: bool
) -> None:
    """Write a file, and print how many rows it has."""
    with opened(store, name) as experiment:
        rows = experiment.export(path, layout=layout, probabilities=probabilities)
    if as_json:
        print_json({"experiment": name, "path": str(path), "layout": layout, "rows": rows})
    else:
        typer.echo(printable(f"{rows} assignments written to {path}."))


def run_verify(store: str, name: str, *, as_json: bool) -> None:
    """Print what an audit found; exit code 1 if anything."""
    with opened(store, name) as experiment:
        report = experiment.verify()
    if as_json:
        counts = asdict(report)
        print_json({"experiment": name, "sound": report.sound, **counts})
    else:
        for line in f"{name}: {report}".split("\n"):
            typer.echo(printable(line))
    if not report.sound:
        raise typer.Exit(1)


def run_replay(store: str, name: str, *, as_json: bool) -> None:
    """Print what a fresh policy says; exit code 1 if it does not do what was done."""
    with opened(store, name) as experiment:
        labels = experiment.problem.target_labels
        try:
            replayed = experiment.replay()
        except ReplayError as error:
            say(str(error))
            if as_json:
                print_json({"experiment": name, "agrees": False, "error": str(error)})
            raise typer.Exit(1) from None
    said, remarks = replayed.recommendation, replayed.remarks
    if as_json:
        data = recommendation_data(said, labels)
        shown = [asdict(remark) for remark in remarks]
        print_json({"experiment": name, "agrees": True, **data, "remarks": shown})
    else:
        typer.echo(f"The replay agrees with the log.\n{recommendation_words(said)}")
        for remark in remarks:
            typer.echo(_remark_words(remark))


def _remark_words(remark: Remark) -> str:
    would = (
        "would not be planned"
        if remark.planned is None
        else f"would be planned with {remark.planned:,} pulls and probabilities that differ by up "
        f"to {remark.difference:.2g}"
    )
    return f"Remark: phase {remark.phase} of {remark.pulls:,} pulls {would} here and now."


def run_list(store: str, *, as_json: bool) -> None:
    """Print the trials of a store."""
    if as_json:
        rows = [
            {
                "name": each.name,
                "description": each.description,
                "created": _time(each.created),
                "status": asdict(each.status),
            }
            for each in _each(store)
        ]
        print_json({"experiments": rows})
        return
    each = None
    for each in _each(store):
        about = f" ({each.description})" if each.description else ""
        typer.echo(printable(f"{each.name}{about}: {each.status}."))
    if each is None:
        say("There is no experiment in it yet.")


def _each(url: str) -> Iterator[Listed]:
    """The trials of a store, read a part at a time."""
    after = None
    while part := Experiment.list(url, limit=_PART, after=after):
        yield from part
        if len(part) < _PART:
            return
        after = part[-1].name
