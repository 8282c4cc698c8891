"""Code to paste: how to ask and tell in one experiment, in Python and with curl."""

from __future__ import annotations

import shlex
from typing import NamedTuple
from urllib.parse import quote


class Snippets(NamedTuple):
    """Code ready to paste."""

    python: str
    curl: str


def snippets(name: str, *, address: str) -> Snippets:
    """Code for one experiment of the server at an address, which ends without a slash."""
    place = f"{address}/api/v1/experiments/{quote(name, safe='')}"
    return Snippets(
        python=_PYTHON.format(place=repr(f"{place}/")),
        curl=_CURL.format(ask=shlex.quote(f"{place}/ask"), tell=shlex.quote(f"{place}/tell")),
    )


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
