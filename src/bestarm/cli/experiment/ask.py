"""`bestarm experiment ask`: get assignments."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl, whole
from bestarm.cli.reporting import OutputError, print_json, printable, remark, reported

if TYPE_CHECKING:
    from bestarm.live import Batch

__all__ = ["ask"]


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
        raise OutputError("Nothing was assigned: output is closed, so it could not be printed.")
    with open_experiment(store, name) as experiment:
        batch = experiment.ask(count, request_id=request_id)
    try:
        _print_batch(name, batch, count, as_json=json)
        sys.stdout.flush()
    except OSError as error:
        if not batch:
            raise
        raise OutputError(
            f"Assignments {batch.ids[0]} to {batch.ids[-1]} were made but could not be printed "
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
    if len(batch) < count:
        remark(_why_fewer(batch, count))


def _why_fewer(batch: Batch, count: int) -> str:
    made = f"{len(batch)} of {count} assigned" if batch else "Nothing was assigned"
    if batch.waiting:
        return f"{made}: {batch.waiting} outcomes of phase {batch.phase} must arrive first."
    if batch.state == "paused":
        return f"{made}: the experiment is paused."
    if batch.finished:
        return f"{made}: the experiment is {batch.state}."
    return f"{made}: the plan of phase {batch.phase} does not allow more."
