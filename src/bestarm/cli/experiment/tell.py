"""`bestarm experiment tell`: record outcomes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, remark, reported
from bestarm.errors import InvalidInputError

__all__ = ["tell"]


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
    if json:
        print_json({"experiment": name, "state": state, **asdict(receipt), "skipped": skipped})
    else:
        typer.echo(f"{receipt}.")
