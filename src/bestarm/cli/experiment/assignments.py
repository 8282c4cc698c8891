"""`bestarm experiment ask`, `tell` and `fail`: get assignments, record what came of them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl, whole
from bestarm.cli.reporting import print_result, remark, reported
from bestarm.errors import BestArmError, InvalidInputError

if TYPE_CHECKING:
    from bestarm.live import Batch

__all__ = ["ask", "fail", "tell"]


@reported
def ask(
    name: Name,
    count: Annotated[
        int, typer.Argument(parser=whole, metavar="[COUNT]", help="How many are wanted.")
    ] = 1,
    request_id: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="A name for this request: repeated under it, it gives the same assignments.",
        ),
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Get assignments: what to try next, drawn and on record."""
    if sys.stdout is None:
        raise BestArmError(
            "Nothing was assigned: output is closed, so it could not be printed.", field="output"
        )
    with open_experiment(store, name) as experiment:
        batch = experiment.ask(count, request_id=request_id)
    try:
        _print_batch(name, batch, count, as_json=json)
        sys.stdout.flush()
    except OSError as error:
        if not batch:
            raise
        raise BestArmError(
            f"Assignments {batch.ids[0]} to {batch.ids[-1]} were made but could not be printed "
            f"({error.strerror}).",
            field="output",
            remedy=f"bestarm experiment export {name} FILE.csv shows them."
            if request_id is None
            else f"Ask for {count} again with --request-id {request_id!r} to see them.",
        ) from error


def _print_batch(name: str, batch: Batch, count: int, *, as_json: bool) -> None:
    data = {
        "experiment": name,
        "state": batch.state,
        "phase": batch.phase,
        "waiting": batch.waiting,
        "assignments": [asdict(assignment) for assignment in batch],
    }
    width = max((len(str(number)) for number in batch.ids[-1:]), default=1)
    lines = [f"{assignment.id:>{width}}  {assignment.label}" for assignment in batch]
    print_result(data, *lines, as_json=as_json)
    if len(batch) < count and not as_json:
        remark(_why_fewer(batch, count))


def _why_fewer(batch: Batch, count: int) -> str:
    made = f"{len(batch)} of {count} assigned" if batch else "Nothing was assigned"
    if batch.waiting:
        return f"{made}: {batch.waiting} outcomes of phase {batch.phase} must arrive first."
    if batch.state != "running":
        return f"{made}: the experiment is {batch.state}."
    return f"{made}: the plan of phase {batch.phase} does not allow more."


@reported
def tell(
    name: Name,
    outcome: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID REWARD]", help="An assignment's id and its reward: a number, yes or no."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OUTCOMES.csv",
            help="Read ids and rewards from this file, CSV or JSON, or from standard input if it "
            "is -.",
        ),
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Record the outcome of one assignment or of many: all of them or, on an error, none."""
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
    with open_experiment(store, name) as experiment:
        receipt = experiment.tell_many(outcomes)
        state = experiment.state
    if receipt.late:
        when = f"the experiment is {state}" if state in {"stopped", "finished"} else "they are lost"
        remark(f"{receipt.late} kept and flagged, but not used: {when}.")
    if skipped:
        remark(f"{skipped} rows without a reward were skipped.")
    data = {"experiment": name, "state": state, **asdict(receipt), "skipped": skipped}
    print_result(data, f"{receipt}.", as_json=json)


@reported
def fail(
    name: Name,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of assignments.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, in words.")] = "failed",
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Record that the outcomes of assignments will never come."""
    from bestarm.cli.experiment.outcomes import read_id

    numbers = [read_id(text) for text in ids]
    with open_experiment(store, name) as experiment:
        experiment.fail_many(numbers, reason)
        state = experiment.state
    print_result(
        {"experiment": name, "state": state, "failed": numbers},
        f"Recorded: no outcome will come for {', '.join(map(str, numbers))}.",
        as_json=json,
    )
