"""`bestarm experiment list`: the experiments of a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from bestarm.cli.experiment.log import time_of
from bestarm.cli.options import DEFAULT_STORE, AsJson, StoreUrl
from bestarm.cli.reporting import print_json, printable, remark, reported

if TYPE_CHECKING:
    from bestarm.live import Listed

__all__ = ["list_"]

_PART = 1000  # experiments read at a time


@reported
def list_(store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """List the experiments of a store."""
    if json:
        rows = [
            {
                "name": each.name,
                "description": each.description,
                "created": time_of(each.created),
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
        remark("There are no experiments in it yet.")


def _each(url: str) -> Iterator[Listed]:
    """The experiments of a store, read in parts."""
    from bestarm.live import Experiment

    after = None
    while part := Experiment.list(url, limit=_PART, after=after):
        yield from part
        if len(part) < _PART:
            return
        after = part[-1].name
