"""`bestarm experiment`: asking, telling, and saying how it stands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from bestarm.cli.outcomes import number_of, read_outcomes, reward_of
from bestarm.cli.reporting import OutputError, print_json, printable
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.live import Batch, Experiment
from bestarm.records import Recommendation

__all__ = [
    "opened",
    "recommendation_data",
    "recommendation_words",
    "run_ask",
    "run_change",
    "run_fail",
    "run_lease",
    "run_recommend",
    "run_status",
    "run_tell",
    "say",
]


@contextmanager
def opened(store: str, name: str) -> Iterator[Experiment]:
    """An experiment of a store; its policy may be one's own, from the current folder."""
    here = os.getcwd()
    sys.path.insert(0, here)
    experiment = None
    try:
        with Experiment.open(store, name) as experiment:
            yield experiment
    except (BestArmError, OSError, typer.Exit):
        raise
    except Exception as error:
        made_of = None if experiment is None else experiment.spec
        if made_of is None or ":" not in made_of.policy:
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")
        raise InvalidInputError(
            f"The policy {made_of.policy!r} raised {what}.",
            field="policy",
            value=name,
            remedy="Outcomes told are kept: correct the policy and ask again.",
        ) from error
    finally:
        sys.path.remove(here)


def say(sentence: str) -> None:
    """Something to know that is not the answer: on stderr, in one line."""
    typer.echo(f"bestarm: {printable(' '.join(sentence.split()))}", err=True)


def run_ask(store: str, name: str, count: int, *, request_id: str | None, as_json: bool) -> None:
    """Print assignments, or why there are none."""
    if sys.stdout is None:
        raise OutputError("Nothing was asked for: output is closed, so it could not be printed.")
    with opened(store, name) as experiment:
        batch = experiment.ask(count, request_id=request_id)
    try:
        _print_batch(name, batch, count, as_json=as_json)
        sys.stdout.flush()
    except OSError as error:
        if not batch:
            raise
        raise OutputError(
            f"{batch.ids[0]} to {batch.ids[-1]} were given out but could not be printed "
            f"({error.strerror}). "
            + (
                f"bestarm experiment export {name} FILE.csv shows them."
                if request_id is None
                else f"Ask for {count} again with --request-id {request_id!r} to see them."
            )
        ) from error


def _print_batch(name: str, batch: Batch, count: int, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "experiment": name,
                "state": batch.state,
                "phase": batch.phase,
                "waiting": batch.waiting,
                "assignments": [asdict(assignment) for assignment in batch],
            }
        )
        return
    width = max((len(str(number)) for number in batch.ids[-1:]), default=1)
    for assignment in batch:
        typer.echo(f"{assignment.id:>{width}}  {printable(assignment.label)}")
    for sentence in _why(batch, count):
        say(sentence)


def _why(batch: Batch, count: int) -> Iterator[str]:
    if len(batch) == count:
        return
    given = f"{len(batch)} of {count} given out" if batch else "Nothing was given out"
    if batch.waiting:
        yield f"{given}: {batch.waiting} outcomes of phase {batch.phase} are awaited first."
    elif batch.state == "paused":
        yield f"{given}: the experiment is paused."
    elif batch.finished:
        yield f"{given}: the experiment is {batch.state}."
    else:
        yield f"{given}: the plan of phase {batch.phase} does not allow for more."


def run_tell(
    store: str, name: str, outcome: Sequence[str], *, table: Path | None, as_json: bool
) -> None:
    """Record outcomes, and print what became of them."""
    if (table is None) == (not outcome) or len(outcome) not in {0, 2}:
        raise InvalidInputError(
            "Give an id and a reward, or a table of them."
            if len(outcome) in {0, 2}
            else f"Give an id and a reward; got {' '.join(outcome)!r}.",
            field="outcome",
            value=list(outcome),
            remedy="For example: bestarm experiment tell NAME 17 0.5, or --from outcomes.csv.",
        )
    skipped = 0
    if table is None:
        outcomes = [(number_of(outcome[0], "id"), reward_of(outcome[1], "reward"))]
    else:
        outcomes, skipped = read_outcomes(table)
    with opened(store, name) as experiment:
        receipt = experiment.tell_many(outcomes)
        state = experiment.state
    if receipt.late:
        when = f"the experiment is {state}" if state in {"stopped", "finished"} else "they are lost"
        say(f"{receipt.late} kept and flagged, but not used: {when}.")
    if skipped:
        say(f"{skipped} rows without a reward were passed over.")
    if as_json:
        print_json({"experiment": name, "state": state, **asdict(receipt), "skipped": skipped})
    else:
        typer.echo(f"{receipt}.")


def run_fail(store: str, name: str, ids: Sequence[str], *, reason: str, as_json: bool) -> None:
    """Record that outcomes will not come."""
    numbers = [number_of(text, "id") for text in ids]
    with opened(store, name) as experiment:
        experiment.fail_many(numbers, reason)
        state = experiment.state
    if as_json:
        print_json({"experiment": name, "state": state, "failed": numbers})
    else:
        typer.echo(f"Recorded: {', '.join(map(str, numbers))} will not come.")


def run_status(store: str, name: str, *, as_json: bool) -> None:
    """Print where a trial stands."""
    with opened(store, name) as experiment:
        status, lease = experiment.status(), experiment.lease
        about, problem, seed = experiment.description, experiment.problem, experiment.seed
    if as_json:
        print_json(
            {
                "experiment": name,
                "description": about,
                **asdict(status),
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
    typer.echo(f"{name}: {status}.")


def run_recommend(store: str, name: str, *, as_json: bool) -> None:
    """Print what may be said now."""
    with opened(store, name) as experiment:
        said, labels = experiment.recommendation(), experiment.problem.target_labels
    if as_json:
        print_json({"experiment": name, **recommendation_data(said, labels)})
    else:
        typer.echo(recommendation_words(said))


def recommendation_data(said: Recommendation, labels: Sequence[str]) -> dict[str, Any]:
    """A recommendation as JSON has it."""
    return {
        "target": said.target,
        "label": said.label,
        "chosen": [labels[target] for target in said.chosen],
        "final": said.final,
        "reason": said.reason,
        "pulls": said.pulls,
        "claims": said.claims,
        "error_bound": said.error_bound,
        "contradicted": said.contradicted,
        "active": [labels[target] for target in said.active],
        "statement": said.statement,
        "assumptions": list(said.assumptions),
    }


def recommendation_words(said: Recommendation) -> str:
    """A recommendation with what it rests on."""
    lines = [f"{said}."]
    if said.statement:
        lines.append(said.statement)
    if said.assumptions:
        lines += ["This rests on:", *(f"- {each}" for each in said.assumptions)]
    return "\n".join(map(printable, lines))


def run_lease(store: str, name: str, length: str, *, as_json: bool) -> None:
    """Set how long outcomes may take from now on."""
    with opened(store, name) as experiment:
        experiment.change_lease(None if length == "none" else length)
        state, lease = experiment.state, experiment.lease
    if as_json:
        print_json({"experiment": name, "state": state, "lease": lease})
    else:
        takes = "any time" if lease is None else f"{lease:g} seconds"
        typer.echo(f"Outcomes of {name} may take {takes} from now on.")


def run_change(store: str, name: str, verb: str, *, reason: str = "", as_json: bool) -> None:
    """Pause, resume or stop."""
    with opened(store, name) as experiment:
        if verb == "stop":
            experiment.stop(reason)
        else:
            (experiment.pause if verb == "pause" else experiment.resume)()
        state = experiment.state
    if as_json:
        print_json({"experiment": name, "state": state})
    else:
        typer.echo(f"{name} is {state}.")
