"""Commands that read an experiment: how it stands, what is on record, whether it is sound."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bestarm.cli.command import command
from bestarm.cli.experiment.command import on_experiment
from bestarm.cli.output import (
    Count,
    Result,
    checks_result,
    need_server,
    remark,
    show_progress,
)
from bestarm.defaults import STORE
from bestarm.errors import ModuleNotAllowedError, ReplayError
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.live import Experiment, Remark
    from bestarm.policies.policy import Policy, Rates
    from bestarm.problem import Problem
    from bestarm.recommendation import Recommendation
    from bestarm.units import Unit


def time_of(seconds: float) -> str:
    """A time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@on_experiment
def status(experiment: Experiment) -> Result:
    """Show where an experiment stands."""
    from bestarm.live.watch.overview import Watch
    from bestarm.live.watch.wording import verdict

    problem, traits, now = experiment.problem, experiment.traits, experiment.status()
    words = [*experiment.description.splitlines(), f"{experiment.name}: {now}."]
    data = status_data(experiment) | {"verdict": None}
    if now.state == "finished":
        try:
            recommendation, rates = experiment.recommendation(), experiment.inspect(_rates)
            unit = unit_of(rates)
            data["verdict"] = experiment.inspect(
                lambda _, snapshot: " ".join(
                    verdict(
                        snapshot.head,
                        recommendation,
                        problem,
                        traits,
                        unit=unit,
                        retired=len(experiment.options_at(snapshot).retired),
                    )
                )
            )
            words.append(data["verdict"])
            words += rates_words(rates, problem)
        except ReplayError:  # of another version, or not allowed: without the effect
            data["verdict"] = Watch(experiment).headline()
            words.append(data["verdict"])
    return Result(data, words)


def status_data(experiment: Experiment) -> dict[str, Any]:
    """What there is to know of an experiment before its outcomes, as JSON has it."""
    from bestarm.live.draws import seed_data

    with experiment.read() as snapshot:
        options = experiment.options_at(snapshot)
    problem = options.problem
    retired = {each.label: each.reason for each in options.retired.values()}
    return {
        "description": experiment.description,
        **asdict(experiment.status()),
        "lease": experiment.lease,
        "window": experiment.window,
        "otherwise": experiment.otherwise,
        "seed": seed_data(experiment.seed),
        "delta": problem.delta,
        "arms": list(problem.source_labels),
        "targets": list(problem.target_labels),
        "retired": retired,
    }


@on_experiment
def recommend(experiment: Experiment) -> Result:
    """Name the best option as far as is known, what may be claimed, and under which assumptions."""
    now, problem = experiment.recommendation(), experiment.problem
    rates, labels = experiment.inspect(_rates), problem.target_labels
    data = recommendation_data(now, labels) | {"rates": rates_data(rates, labels)}
    return Result(data, [*recommendation_words(now), *rates_words(rates, problem)])


def _rates(policy: Policy, _: object) -> Rates | None:
    return policy.rates()


def unit_of(rates: Rates | None) -> Unit:
    """How rewards are written."""
    from bestarm.units import Unit

    return Unit(percent=rates is not None and rates.binary)


def rates_data(rates: Rates | None, labels: Sequence[str]) -> list[dict[str, Any]] | None:
    """What each option pays on average, as JSON has it."""
    if rates is None:
        return None
    ends = zip(rates.estimate.tolist(), rates.low.tolist(), rates.high.tolist(), strict=True)
    names = ("label", "estimate", "lower", "upper")
    # Nothing is shown of retired options; one just added may not be known to the policy yet.
    rows = [(label, *each) for label, each in zip(labels, ends, strict=False) if each[0] == each[0]]
    return [dict(zip(names, row, strict=True)) for row in rows]


def rates_words(rates: Rates | None, problem: Problem) -> list[str]:
    """What each option pays on average, the most first."""
    if rates is None:
        return []
    from bestarm.live.watch.wording import percent

    unit = unit_of(rates)
    what = "Rate" if rates.binary else "Mean outcome"
    known = rates_data(rates, problem.target_labels) or []
    all_of = [each["estimate"] for each in known]
    lines = [
        f"{what} of each option over {plural(rates.rounds, 'assignment')} whose outcome is in, "
        f"had each got it ({percent(problem.delta)} for all intervals, at all times together):"
    ]
    for each in sorted(known, key=lambda option: -option["estimate"]):
        interval = unit.interval(each["lower"], each["upper"], *all_of)
        lines.append(f"- {each['label']}: {unit.value(each['estimate'], *all_of)} ({interval})")
    return lines


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
def guardrails(experiment: Experiment) -> Result:
    """Show how much worse than the control each option is by each guardrail."""
    from bestarm.live.watch.wording import guardrail_line

    rows = experiment.guardrails()
    lines = [guardrail_line(row) for row in rows] or ["The experiment has no guardrails."]
    return Result({"guardrails": [asdict(row) for row in rows]}, lines)


@on_experiment
def health(experiment: Experiment) -> Result:
    """Run the health checks of an experiment: exit code 1 on an alarm."""
    return checks_result(experiment.health())


@command
def list_(*, archived: bool = False, store: str = STORE) -> Result:
    """List the experiments of a store.

    Args:
        archived: List archived ones too.
    """
    from bestarm.live import Experiment
    from bestarm.live.store import Store

    database = Store(store)
    listed = Experiment.list(database, archived=archived)
    rows = [{**asdict(each), "created": time_of(each.created)} for each in listed]
    for row in rows:
        del row["revision"]
    abouts = [f" ({each.description})" if each.description else "" for each in listed]
    lines = [
        f"{each.name}{about}: {each.status}." for each, about in zip(listed, abouts, strict=True)
    ]
    note = "" if listed else database.why_empty
    return Result({"experiments": rows}, lines, note=note)


_MANY = 500_000  # assignments that take a second or two to read


@on_experiment
def log(experiment: Experiment, *, start: int = 0, last: int | None = None) -> Result:
    """Tell what happened in an experiment; with --json every event, bound to the last by its hash.

    Args:
        start (N): The first event to look at.
        last (N): Look at the last N events at most.
    """
    from collections import Counter

    from bestarm import checks
    from bestarm.live.values import in_utc
    from bestarm.live.watch.story import count_routine, describe, is_routine, routine_words
    from bestarm.units import Unit

    if last is not None:
        checks.whole(last, "last", least=1)
    events = list(experiment.events(start))[-(last or 0) :]
    with experiment.read() as snapshot:
        problem = experiment.options_at(snapshot).problem
    traits = experiment.traits
    unit, routine = Unit(percent=traits.bounds == (0, 1)), Counter[str]()
    lines = []
    for event in events:
        if is_routine(event):
            routine[event.kind] += count_routine(event)
        else:
            lines.append(f"{in_utc(event.at)}  {describe(event, problem, traits, unit)}")
    if routine:
        lines.append(f"Besides: {routine_words(routine)}")
    shown = [{**asdict(event), "at": time_of(event.at)} for event in events]
    return Result({"events": shown}, lines)


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
    return Result(data, [f"Wrote {out}: {plural(rows, 'assignment')}."])


def _progress(experiment: Experiment, verb: str) -> AbstractContextManager[Count | None]:
    """A function that shows progress where there is enough to read that somebody waits for it."""
    pulls = experiment.status().pulls
    return show_progress(verb, pulls, what="assignments") if pulls >= _MANY else nullcontext()


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
    except ModuleNotAllowedError:
        raise
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
        else f"would be planned with {plural(remark.planned, 'assignment')} and "
        f"probabilities that differ by up to {remark.difference:.2g}"
    )
    phase = f"phase {remark.phase} of {plural(remark.pulls, 'assignment')}"
    return f"Remark: {phase} {would} here and now."
