"""Lines to paste: how to ask and tell in one very trial, in Python, with curl and in a shell."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from urllib.parse import quote

__all__ = ["Snippets", "snippets"]


@dataclass(frozen=True)
class Snippets:
    """Ready to paste, every name quoted as its language wants it.

    Attributes:
        python: asks and tells over HTTP.
        curl: the same in a shell.
        library: works on the database itself; empty where there is none.
        cli: the command line, likewise.
    """

    python: str
    curl: str
    library: str
    cli: str


def snippets(name: str, *, address: str, store: str | None) -> Snippets:
    """Lines for one trial.

    Args:
        name: the trial's.
        address: where the server is, without a slash at its end.
        store: the database's URL without its password, or None for a trial in memory.
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

trial = httpx.Client(
    base_url={place},
    headers={{"Authorization": "Bearer " + os.environ["BESTARM_TOKEN"]}},
    timeout=60,
)
given = trial.post("ask", json={{"count": 10}}).raise_for_status().json()
outcomes = [
    {{"id": each["id"], "reward": measure(each["label"])}}  # measure: yours
    for each in given["assignments"]
]
trial.post("tell", json={{"outcomes": outcomes}}).raise_for_status()
"""

_CURL = """\
curl -s {ask} -H "Authorization: Bearer $BESTARM_TOKEN" \\
  -H 'Content-Type: application/json' -d '{{"count": 1}}'
curl -s {tell} -H "Authorization: Bearer $BESTARM_TOKEN" \\
  -H 'Content-Type: application/json' -d '{{"outcomes": [{{"id": 0, "reward": 1.0}}]}}'
"""

_LIBRARY = """\
from bestarm.live import Experiment

with Experiment.open({store}, {name}) as trial:
    outcomes = [(each.id, measure(each.label)) for each in trial.ask(10)]  # measure: yours
    trial.tell_many(outcomes)
    print(trial.recommendation())
"""
