"""Code to paste: how to ask and tell in one experiment, in Python and with curl."""

from __future__ import annotations

import shlex
from urllib.parse import quote


def snippets(name: str, *, address: str) -> dict[str, str]:
    """Code for one experiment of the server at an address without a slash at its end, by title."""
    place = f"{address}/api/v1/experiments/{quote(name, safe='')}"
    return {
        "Python": _PYTHON.format(place=repr(f"{place}/")),
        "curl": _CURL.format(ask=shlex.quote(f"{place}/ask"), tell=shlex.quote(f"{place}/tell")),
    }


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
