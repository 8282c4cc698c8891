"""`bestarm experiment log`, `export`, `report`, `verify` and `replay`: what is on record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bestarm.cli.experiment.command import Result, on_experiment
from bestarm.cli.experiment.views import recommendation_data, recommendation_words, time_of
from bestarm.cli.reporting import count, need_server, remark
from bestarm.errors import ReplayError

if TYPE_CHECKING:
    from bestarm.cli.progress import Count
    from bestarm.live import Experiment, Remark

_LONGEST = 300  # characters of a value
_MANY = 500_000  # assignments that take a second or two to read


@on_experiment
def log(experiment: Experiment, *, start: int = 0, last: int | None = None) -> Result:
    """Show every change of an experiment's state, each bound to the one before by its hash.

    Args:
        start (N): The first event to show.
        last (N): Show at most the last N events.
    """
    from bestarm import checks

    if last is not None:
        checks.whole(last, "last", least=1)
    events = list(experiment.events(start))[-(last or 0) :]
    width = len(str(events[-1].number)) if events else 1
    lines = [
        f"{event.number:>{width}}  {time_of(event.at)}  {event.kind:<10}  {event.hash[:12]}  "
        + ", ".join(f"{key} {_short(value)}" for key, value in event.data.items())
        for event in events
    ]
    shown = [{**asdict(event), "at": time_of(event.at)} for event in events]
    return Result({"events": shown}, lines)


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    if len(text) == 64 and text.isalnum():  # a digest
        return f"{text[:12]}…"
    return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text


@on_experiment
def export(
    experiment: Experiment,
    *,
    out: Path = Path("export.csv"),
    layout: Literal["assignments", "mrt"] = "assignments",
    probabilities: bool = False,
) -> Result:
    """Write all assignments with their outcomes to a file.

    Args:
        out (FILE): Where to write them: .csv or .parquet.
        layout: All that is on record, or as micro-randomised trials are analysed.
        probabilities: Add the probability of every option.
    """
    with _progress(experiment, "writing") as progress:
        rows = experiment.export(out, layout=layout, probabilities=probabilities, progress=progress)
    data = {"file": str(out), "layout": layout, "rows": rows}
    return Result(data, [f"Wrote {out}: {count(rows, 'assignment')}."])


@contextmanager
def _progress(experiment: Experiment, verb: str) -> Iterator[Count | None]:
    """A function that shows progress where there is enough to read that somebody waits for it."""
    from bestarm.cli.progress import counted

    pulls = experiment.status().pulls
    if pulls < _MANY:
        yield None
        return
    with counted(verb, pulls, what="assignments") as counting:
        yield counting


@on_experiment
def report(experiment: Experiment, *, out: Path = Path("report.html")) -> Result:
    """Write an experiment as one page to print or keep.

    Args:
        out (FILE): Where to write it.
    """
    need_server()
    from bestarm.server.pages.panels import write_report

    written = write_report(experiment, out)
    return Result({"file": str(written)}, [f"Wrote {written}."])


@on_experiment
def verify(experiment: Experiment) -> Result:
    """Redo every draw and check the whole record: exit code 1 if it is not sound."""
    with _progress(experiment, "verifying") as progress:
        found = experiment.verify(progress=progress)
    lines = f"{experiment.name}: {found}".split("\n")
    return Result({"sound": found.sound, **asdict(found)}, lines, code=int(not found.sound))


@on_experiment
def replay(experiment: Experiment) -> Result:
    """Replay an experiment with a fresh policy: exit code 1 if its decisions differ."""
    try:
        replayed = experiment.replay()
    except ReplayError as error:
        remark(str(error))
        return Result({"agrees": False, "error": str(error)}, [], code=1)
    now, remarks = replayed.recommendation, replayed.remarks
    data = recommendation_data(now, experiment.problem.target_labels)
    return Result(
        {"agrees": True, **data, "remarks": [asdict(each) for each in remarks]},
        [
            "The replay agrees with the log.",
            *recommendation_words(now),
            *map(_remark_words, remarks),
        ],
    )


def _remark_words(remark: Remark) -> str:
    would = (
        "would not be planned"
        if remark.planned is None
        else f"would be planned with {remark.planned:,} assignments and probabilities that differ "
        f"by up to {remark.difference:.2g}"
    )
    return f"Remark: phase {remark.phase} of {remark.pulls:,} assignments {would} here and now."
