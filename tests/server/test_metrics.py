"""`GET /metrics`: what Prometheus reads, checked by its own tool."""

from __future__ import annotations

import re
import subprocess
import time

import httpx
import pytest
from needed import need
from served import Served, create, get, outcomes

from bestarm.live.replay import PolicyReplayer
from bestarm.server.tokens import Role

pytest_plugins = ("api_fixtures",)

ODD = 'say "tea"\\now'


def scrape(served: Served, role: Role | None = Role.VIEW) -> str:
    headers = {} if role is None else {"Authorization": f"Bearer {served.token(role)}"}
    answer = get(f"{served.base}/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


def value(text: str, name: str, **labels: str) -> float | None:
    """The value of a sample, or None."""
    named = ",".join(f'{key}="{each}"' for key, each in labels.items())
    found = re.search(rf"^bestarm_{name}{{{re.escape(named)}}} (\S+)$", text, re.MULTILINE)
    return None if found is None else float(found[1])


def test_the_counters_of_an_experiment(served: Served, api: httpx.Client, experiment: str) -> None:
    name = experiment.rpartition("/")[2]
    before = time.time()
    assert value(scrape(served), "experiment_last_outcome_timestamp_seconds") is None
    api.post(f"{experiment}/ask", json={"count": 9})
    api.post(f"{experiment}/tell", json=outcomes(dict.fromkeys(range(4), 1)))
    api.post(f"{experiment}/fail", json={"ids": [4, 5]})
    api.post(f"{experiment}/tell", json=outcomes({4: 1}))
    text = scrape(served)
    expected = {"assignments_total": 9, "outcomes_total": 4, "lost_total": 2, "late_total": 1}
    expected |= {"outstanding": 3, "phase": 1, "options_left": 2}
    found = {key: value(text, f"experiment_{key}", experiment=name) for key in expected}
    assert found == expected
    for state in ("running", "paused", "stopped", "finished"):
        given = value(text, "experiment_state", experiment=name, state=state)
        assert given == (state == "running")
    told = value(text, "experiment_last_outcome_timestamp_seconds", experiment=name)
    assert told is not None
    assert before <= told <= time.time()
    api.post(f"{experiment}/stop")
    stopped = value(scrape(served), "experiment_state", experiment=name, state="stopped")
    assert stopped == 1


def test_options_that_are_ruled_out_are_not_left(
    served: Served, api: httpx.Client, experiment: str
) -> None:
    name = experiment.rpartition("/")[2]
    while (given := api.post(f"{experiment}/ask", json={"count": 50}).json())["state"] == "running":
        rewards = {each["id"]: each["arm"] for each in given["assignments"]}
        api.post(f"{experiment}/tell", json=outcomes(rewards))
    text = scrape(served)
    assert value(text, "experiment_options_left", experiment=name) == 1
    assert value(text, "experiment_state", experiment=name, state="finished") == 1


def test_requests_are_counted_by_route_and_not_by_what_callers_make_up(
    served: Served, api: httpx.Client, experiment: str
) -> None:
    def count(route: str, status: int, method: str = "GET") -> float:
        labels = {"method": method, "route": route, "status": str(status)}
        return value(scrape(served), "http_requests_total", **labels) or 0

    route = "/api/v1/experiments/{name}"
    before = count(route, 200), count(route, 404)
    api.get(experiment)
    api.head(experiment)
    api.get("/experiments/none")
    assert (count(route, 200), count(route, 404)) == (before[0] + 2, before[1] + 1)
    asked = count(f"{route}/ask", 200, "POST")
    api.post(f"{experiment}/ask", json={})
    assert count(f"{route}/ask", 200, "POST") == asked + 1
    for made_up in ("/x1", "/x2"):
        get(f"{served.base}{made_up}")
    api.request("MAKEUP", experiment)
    text = scrape(served)
    assert "/x1" not in text
    assert "MAKEUP" not in text


def test_no_policy_is_asked(
    served: Served, api: httpx.Client, experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a policy was replayed")

    monkeypatch.setattr(PolicyReplayer, "follow", refuse)
    assert experiment.rpartition("/")[2] in scrape(served)


def test_prometheus_reads_it(served: Served, api: httpx.Client) -> None:
    need("promtool", package="prometheus")
    create(api, ODD)
    path = create(api, "ruled", options=["a", "b"], policy_options={"bounds": [0, 1]})
    api.post(f"{path}/ask", json={"count": 2})
    api.post(f"{path}/tell", json=outcomes({0: 1}))
    text = scrape(served)
    assert f'experiment="{ODD}"'.replace("\\", "\\\\").replace('"tea"', '\\"tea\\"') in text
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_who_may_not_view_learns_nothing(served: Served) -> None:
    sent = {"Authorization": "Bearer bestarm-9-none"}
    assert get(f"{served.base}/metrics", headers=sent).status_code == 401
    assert get(f"{served.base}/metrics", headers={"Via": "a proxy"}).status_code == 401
