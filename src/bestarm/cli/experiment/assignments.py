"""`bestarm experiment ask`, `tell` and `fail`: get assignments, record what came of them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.experiment.command import Result, on_experiment
from bestarm.cli.reporting import remark
from bestarm.errors import BestArmError, InvalidInputError

if TYPE_CHECKING:
    from bestarm.live import Batch, Experiment


@on_experiment
def ask(experiment: Experiment, count: int = 1, *, request_id: str | None = None) -> Result:
    """Get assignments: what to try next, drawn and on record.

    Args:
        count ([COUNT]): How many are wanted.
        request_id (TEXT): A name for this request: repeated under it, it gives the same
            assignments.
    """
    if sys.stdout is None:
        raise BestArmError(
            "Nothing was assigned: output is closed, so it could not be printed.", field="output"
        )
    batch = experiment.ask(count, request_id=request_id)
    width = max((len(str(number)) for number in batch.ids[-1:]), default=1)
    return Result(
        {
            "state": batch.state,
            "phase": batch.phase,
            "waiting": batch.waiting,
            "assignments": [asdict(assignment) for assignment in batch],
        },
        [f"{assignment.id:>{width}}  {assignment.label}" for assignment in batch],
        note=_why_fewer(batch, count) if len(batch) < count else "",
        unprinted=_unprinted(experiment.name, batch, count, request_id) if batch else "",
    )


def _unprinted(name: str, batch: Batch, count: int, request_id: str | None) -> str:
    made = f"Assignments {batch.ids[0]} to {batch.ids[-1]} were made but could not be printed."
    if request_id is None:
        return f"{made} bestarm experiment export {name} FILE.csv shows them."
    return f"{made} Ask for {count} again with --request-id {request_id!r} to see them."


def _why_fewer(batch: Batch, count: int) -> str:
    made = f"{len(batch)} of {count} assigned" if batch else "Nothing was assigned"
    if batch.waiting:
        return f"{made}: {batch.waiting} outcomes of phase {batch.phase} must arrive first."
    if batch.state != "running":
        return f"{made}: the experiment is {batch.state}."
    return f"{made}: the plan of phase {batch.phase} does not allow more."


@on_experiment
def tell(
    experiment: Experiment,
    outcome: list[str] | None = None,
    *,
    table: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OUTCOMES.csv",
            help="Read ids and rewards from this file, CSV or JSON, or from standard input if it "
            "is -.",
        ),
    ] = None,
) -> Result:
    """Record the outcome of one assignment or of many: all of them or, on an error, none.

    Args:
        outcome ([ID REWARD]): An assignment's id and its reward: a number, yes or no.
    """
    from bestarm.cli.experiment.outcomes import read_id, read_outcomes, read_reward

    pair = outcome or []
    if (table is None) == (not pair) or len(pair) not in {0, 2}:
        raise InvalidInputError(
            "Give an id and a reward, or a table of them."
            if len(pair) in {0, 2}
            else f"Give an id and a reward; got {' '.join(pair)!r}.",
            field="outcome",
            value=pair,
            remedy="For example: bestarm experiment tell NAME 17 0.5, or --from outcomes.csv.",
        )
    skipped = 0
    if table is None:
        outcomes = [(read_id(pair[0]), read_reward(pair[1]))]
    else:
        outcomes, skipped = read_outcomes(table)
    receipt = experiment.tell_many(outcomes)
    state = experiment.state
    if receipt.late:
        when = f"the experiment is {state}" if state in {"stopped", "finished"} else "they are lost"
        remark(f"{receipt.late} kept and flagged, but not used: {when}.")
    if skipped:
        remark(f"{skipped} rows without a reward were skipped.")
    return Result({"state": state, **asdict(receipt), "skipped": skipped}, [f"{receipt}."])


@on_experiment
def fail(experiment: Experiment, ids: list[str], *, reason: str = "failed") -> Result:
    """Record that the outcomes of assignments will never come.

    Args:
        ids (ID...): Ids of assignments.
        reason (TEXT): The reason, in words.
    """
    from bestarm.cli.experiment.outcomes import read_id

    numbers = [read_id(text) for text in ids]
    experiment.fail_many(numbers, reason)
    words = f"Recorded: no outcome will come for {', '.join(map(str, numbers))}."
    return Result({"state": experiment.state, "failed": numbers}, [words])
