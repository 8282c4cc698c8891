"""Planning over HTTP: the library's figures, one at a time, with an end, gone with its reader."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest
from databases import wait_until
from plan_processes import begin, settled, workers
from served import PATIENT, Served, get, in_thread, wrong

from bestarm import Problem
from bestarm.planning import (
    ExperimentPlan,
    PlanRequest,
    detectable_lifts,
    plan_experiment,
    wording,
    worker,
)
from bestarm.planning.wording import plan_words
from bestarm.server.api import plan as plan_api
from bestarm.server.tokens import Role

LONG = {"source": [[1, 0], [0, 1]], "gap": 0.03, "policies": ["anytime"], "runs": 2000}
LIMIT = 600.0  # seconds: far more than anything here takes, however slow the machine
# The process that simulates, with its time up in the second batch of runs.
UP_AFTER_SIX = """
import signal
from bestarm.planning import simulating, worker  # run as bestarm.planning.worker is
simulate = simulating.simulate
def until_six(*arguments, runs, **options):
    if runs > 6:
        signal.raise_signal(signal.SIGALRM)
    return simulate(*arguments, runs=runs, **options)
simulating.simulate = until_six
worker.main()
"""
# The same, with its time up before the first run.
UP_AT_ONCE = """
import signal
from bestarm.planning import simulating, worker
simulating.simulate = lambda *_, **__: signal.raise_signal(signal.SIGALRM)
worker.main()
"""
# Stand-ins, where it does not matter what is simulated: one that never ends, one that ends without
# a result, one that is quick.
ENDLESS = """
import time  # listed as bestarm.planning.worker is
print('{"progress": {"done": 0, "total": 1}}', flush=True)
time.sleep(1000)
"""
ABRUPT = """
import os
print('{"progress": {"done": 0, "total": 1}}', flush=True)
print('{"pl', end="", flush=True)
os._exit(1)
"""
QUICK = """print('{"plan": {}}')"""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """No new process, most of whose time goes into imports, simulates."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path_factory.mktemp('plan')}/store.db"
    with in_thread(url, limits=replace(PATIENT, planning=LIMIT)) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client(Role.TELL) as made:
        made.timeout = LIMIT
        yield made


def events(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    for line in response.iter_lines():
        yield from json.loads(line).items()


def planned(client: httpx.Client, body: dict[str, Any]) -> list[tuple[str, Any]]:
    with client.stream("POST", "/plan", json=body) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"] == "application/x-ndjson"
        return list(events(response))


def test_the_plan_is_the_library_s(client: httpx.Client) -> None:
    body: dict[str, Any] = {
        "options": ["old", "<script>alert(1)</script>"],
        "gap": 0.4,
        "bounds": [0, 1],
        "drift": ["none", "sine"],
        "policies": ["anytime", "sp-bai"],
        "per_day": 100,
        "runs": 10,
        "seed": 3,
    }
    found = planned(client, body)
    drawn = [content for name, content in found if name == "curve"]
    found = [each for each in found if each[0] != "curve"]
    names = [name for name, _ in found]
    assert names[-1] == "plan"
    assert len(drawn) == 1
    assert names[0] == "progress"  # before anything was simulated, so that there always is one
    assert found[0][1] == {"done": 0, "total": 40}
    assert set(names[1:-2]) <= {"progress"}
    assert found[-3] == ("progress", {"done": 40, "total": 40})
    problem = Problem(
        np.eye(2), delta=0.05, noise=0.5, baseline=1.0, source_labels=body.pop("options")
    )
    plan = plan_experiment(PlanRequest(problem, **body | {"bounds": (0, 1)}))
    assert found[-1][1] == json.loads(json.dumps(plan.to_dict()))
    name, words = found[-2]
    assert name == "words"
    assert [each for each in words if isinstance(each, str)] == [
        each for each in plan_words(plan, problem) if isinstance(each, str) and each
    ]
    tables = [each for each in words if not isinstance(each, str)]
    assert [[row[0] for row in each["rows"]] for each in tables] == [
        ["policy", *body["policies"]]
    ] * 2
    assert settled()


@pytest.mark.usefixtures("begun")
def test_a_window_in_seconds_or_in_words(client: httpx.Client) -> None:
    body = {"source": [[1, 0], [0, 1]], "gap": 0.9, "policies": ["sp-bai"], "runs": 2}
    body |= {"bounds": [0, 1], "per_day": 24}
    hours, seconds = (
        planned(client, body | {"window": window})[-1][1] for window in ("12h", 43_200)
    )
    assert hours == seconds
    assert (hours["window"], hours["delay"]) == (43_200, 12)
    (found,) = hours["forecasts"]
    pulls, rounds = (found[name]["mean"] for name in ("pulls", "rounds"))
    assert found["days"]["waiting"] == (rounds - pulls) / 24 > 0
    prompt = planned(client, body)[-1][1]
    assert (prompt["window"], prompt["delay"]) == (None, 0)
    assert prompt["forecasts"][0]["days"]["waiting"] is None


@pytest.mark.usefixtures("begun")
def test_visitors_are_answered_with_the_lifts_they_find(client: httpx.Client) -> None:
    body = {"options": ["old", "new"], "base": "20 %", "drift": ["none"], "runs": 4}
    *before, (name, lifts) = planned(client, body | {"visitors": 300, "policies": ["anytime"]})
    assert name == "lifts"
    assert {each for each, _ in before} == {"progress", "words"}
    problem = Problem(["old", "new"], delta=0.05, noise=0.5)
    request = PlanRequest(problem, base=0.2, bounds=(0, 1), drift=["none"], runs=4)
    found = detectable_lifts(request, visitors=300)
    assert lifts == json.loads(json.dumps(found.to_dict()))


@pytest.mark.usefixtures("begun")
def test_a_lift_in_percent(client: httpx.Client) -> None:
    body = {"options": ["old", "new"], "policies": ["anytime"], "runs": 2}
    relative, points = (
        planned(client, body | {"gap": gap, "base": "20 %"})[-1][1] for gap in ("+50 %", 0.1)
    )
    assert relative == points
    assert relative["scenarios"][0]["base"] == 0.2


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "needs the smallest lead worth finding"),
        ({"gap": 1, "policies": ["magic"]}, "must be one of 'anytime'"),
        ({"gap": 1, "runs": 10**6}, "less than or equal to 2000"),
        ({"gap": 1, "source": [[1.0]] * 201}, "at most 200"),
        ({"gap": 1, "command": "rm"}, "`command` is not known."),
        ({"gap": 1, "window": "7d"}, "A window needs `per_day`"),
        ({"gap": "+10 %"}, "needs a base rate"),
        ({"gap": [1]}, "`gap` must be a finite number"),
        ({"gap": "10 %", "base": "2 %"}, "could mean a share of the base rate"),
        ({"gap": 0.1, "base": "200 %"}, "must lie between the bounds"),
        ({"visitors": 0}, "greater than or equal to 1"),
        ({"visitors": 100, "gap": 0.1}, "`gap` does not go with `visitors`"),
        ({"gap": 1, "window": -1, "per_day": 9}, "must be positive"),
        ({"gap": 1, "block": 3}, "from 1 to 2; got 3"),
        ({"gap": 1, "block": 2, "policies": ["sp-bai"]}, "sp-bai does not take `block`"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_the_one_shape(
    client: httpx.Client, change: dict[str, Any], words: str
) -> None:
    answer = client.post("/plan", json={"source": [[1, 0], [0, 1]]} | change)
    assert words in wrong(answer, 422, "invalid_input")["detail"]
    assert settled()


def test_one_at_a_time(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_api, "_WORKER", ("-c", ENDLESS))
    with client.stream("POST", "/plan", json=LONG) as response:
        stream = events(response)
        assert next(stream)[0] == "progress"
        wrong(client.post("/plan", json=LONG), 429, "busy")
    assert settled()


@pytest.mark.usefixtures("begun")
def test_a_plan_whose_time_is_up_keeps_what_was_found(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_api, "_WORKER", ("-c", UP_AFTER_SIX))
    name, plan = planned(client, LONG | {"gap": 0.9, "runs": 20})[-1]
    assert name == "plan"
    assert plan["timed_out"] is True
    assert plan["forecasts"][0]["runs"] == 6
    assert "The time limit of 600 seconds was reached" in plan["warnings"][0]
    monkeypatch.setattr(plan_api, "_WORKER", ("-c", UP_AT_ONCE))
    name, error = planned(client, LONG)[-1]
    assert name == "error"
    assert "Within 600 seconds too few experiments could be simulated" in error["message"]
    assert (error["field"], error["value"]) == ("seconds", 600)
    assert "larger gap" in error["remedy"]
    assert settled()


def test_the_time_that_is_up_is_the_server_s(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[float] = []

    def plan(request: PlanRequest, *, seconds: float, **options: Any) -> ExperimentPlan:
        given.append(seconds)
        return plan_experiment(request, **options)

    monkeypatch.setattr(wording, "plan_experiment", plan)
    monkeypatch.setattr(os, "nice", lambda _: None)
    request = LONG | {"gap": 0.9, "runs": 2, "delta": 0.05, "seed": 0, "seconds": 12.5}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    worker.main()
    assert given == [12.5]
    *_, last = capsys.readouterr().out.splitlines()
    assert list(json.loads(last)) == ["plan"]


def test_the_time_of_a_plan_begins_with_its_first_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that, the process imports what it needs."""
    monkeypatch.setattr(plan_api, "_GRACE", 0.0)
    monkeypatch.setattr(plan_api, "_WORKER", ("-c", QUICK))

    async def lines() -> list[dict[str, Any]]:
        return [each async for each in plan_api.Planner(0.0).lines({})]

    assert asyncio.run(lines()) == [{"plan": {}}]


@pytest.mark.usefixtures("begun")
def test_a_simulation_that_ends_without_a_result_is_an_error(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that the system kills for its memory, in the middle of a line."""
    monkeypatch.setattr(plan_api, "_WORKER", ("-c", ABRUPT))
    *before, (name, message) = planned(client, LONG)
    assert before == [("progress", {"done": 0, "total": 1})]
    assert name == "error"
    assert message["message"] == "The simulation ended abruptly."
    assert set(message) == {"message", "field", "remedy"}
    assert settled()
    monkeypatch.setattr(plan_api, "_WORKER", ("-c", QUICK))
    assert planned(client, LONG) == [("plan", {})]  # it is free again


@pytest.mark.usefixtures("begun")
def test_a_reader_that_goes_away_ends_the_simulation(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.stream("POST", "/plan", json=LONG) as response:
        stream = events(response)
        assert next(stream)[0] == "progress"
        assert len(workers()) == 1
    assert settled()
    monkeypatch.setattr(plan_api, "_WORKER", ("-c", QUICK))
    assert planned(client, LONG) == [("plan", {})]  # it is free again


def test_one_who_goes_before_anything_was_simulated_ends_it_too(
    client: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = ("-c", "import time; time.sleep(100)  # bestarm.planning.worker")
    monkeypatch.setattr(plan_api, "_WORKER", silent)
    body = json.dumps(LONG)
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    with served.connect() as connection:
        connection.sendall(served.post(*lines, path="/plan") + body.encode())
        wait_until(lambda: bool(workers()))
    assert settled()  # left to itself it would go on for longer than that
    monkeypatch.setattr(plan_api, "_WORKER", ("-c", QUICK))
    assert planned(client, LONG) == [("plan", {})]


def test_the_page_has_the_form_and_no_script_of_its_own(served: Served) -> None:
    page = get(f"{served.base}/plan")
    assert page.status_code == 200
    assert 'id="plan-form"' in page.text
    assert "<script>" not in page.text
    assert "onclick" not in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
