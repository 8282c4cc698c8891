"""Code to paste: how to ask and tell in one experiment, in Python, with curl, in a shell."""

from __future__ import annotations

import shlex
from typing import NamedTuple
from urllib.parse import quote


class Snippets(NamedTuple):
    """Code ready to paste; for the library and the command line, empty without a database."""

    python: str
    curl: str
    library: str
    cli: str


def snippets(name: str, *, address: str, store: str | None) -> Snippets:
    """Code for one experiment.

    Args:
        name: the experiment's.
        address: the server's address, without a slash at its end.
        store: the database's URL without its password; None if it is in memory, or not to be shown.
    """
    place = f"{address}/api/v1/experiments/{quote(name, safe='')}"
    return Snippets(
        python=_PYTHON.format(place=repr(f"{place}/")),
        curl=_CURL.format(ask=shlex.quote(f"{place}/ask"), tell=shlex.quote(f"{place}/tell")),
        library="" if store is None else _LIBRARY.format(store=repr(store), name=repr(name)),
        cli="" if store is None else _cli(name, store),
    )


def _cli(name: str, store: str) -> str:
    place, title = f"--store {shlex.quote(store)}", shlex.quote(name)
    if name.startswith("-"):
        title = f"-- {title}"
    commands = ("status", "ask", "health", "log")
    lines = [f"bestarm experiment {command} {place} {title}" for command in commands]
    return "\n".join(lines) + f"\nbestarm experiment report {place} --out report.html {title}\n"


_PYTHON = """\
import os, httpx

experiment = httpx.Client(
    base_url={place},
    headers={{"Authorization": "Bearer " + os.environ["BESTARM_TOKEN"]}},
    timeout=60,
)
batch = experiment.post("ask", json={{"count": 10}}).raise_for_status().json()
outcomes = [
    {{"id": each["id"], "reward": measure(each["label"])}}  # measure: yours
    for each in batch["assignments"]
]
experiment.post("tell", json={{"outcomes": outcomes}}).raise_for_status()
"""

_CURL = """\
curl -s {ask} -H "Authorization: Bearer $BESTARM_TOKEN" \\
  -H 'Content-Type: application/json' -d '{{"count": 1}}'
curl -s {tell} -H "Authorization: Bearer $BESTARM_TOKEN" \\
  -H 'Content-Type: application/json' -d '{{"outcomes": [{{"id": 0, "reward": 1.0}}]}}'
"""

_LIBRARY = """\
from bestarm.live import Experiment

with Experiment.open({store}, {name}) as experiment:
    outcomes = [(each.id, measure(each.label)) for each in experiment.ask(10)]  # measure: yours
    experiment.tell_many(outcomes)
    print(experiment.recommendation())
"""
