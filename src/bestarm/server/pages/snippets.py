"""Code to paste: how to ask and tell in one experiment, in Python and with curl."""

from __future__ import annotations

import json
import shlex
from urllib.parse import quote


def snippets(name: str, *, address: str, forecaster: str | None = None) -> dict[str, str]:
    """Code for one experiment of the server at an address without a slash at its end, by title.

    Where there is a forecaster, what it needs comes along with the request.
    """
    place = f"{address}/api/v1/experiments/{quote(name, safe='')}"
    body = json.dumps({"count": 1} | _KNOWN.get(forecaster or "", {}))
    ask, tell = (shlex.quote(f"{place}/{what}") for what in ("ask", "tell"))
    return {
        "Python": _PYTHON.format(place=repr(f"{place}/"), body=body),
        "curl": _CURL.format(ask=ask, tell=tell, body=body),
    }


_KNOWN: dict[str, dict[str, object]] = {
    "default": {"covariates": [{"age": 31, "country": "CH"}]},
    "own": {"forecasts": [0.5]},
}


_PYTHON = """\
import os, httpx

experiment = httpx.Client(
    base_url={place},
    headers={{"Authorization": "Bearer " + os.environ["BESTARM_TOKEN"]}},
    timeout=60,
)
batch = experiment.post("ask", json={body}).raise_for_status().json()
outcomes = [
    {{"id": each["id"], "reward": measure(each["label"])}}  # measure: yours
    for each in batch["assignments"]
]
experiment.post("tell", json={{"outcomes": outcomes}}).raise_for_status()
"""

_CURL = """\
curl -s {ask} -H "Authorization: Bearer $BESTARM_TOKEN" \\
  -H 'Content-Type: application/json' -d '{body}'
curl -s {tell} -H "Authorization: Bearer $BESTARM_TOKEN" \\
  -H 'Content-Type: application/json' -d '{{"outcomes": [{{"id": 0, "reward": 1.0}}]}}'
"""
