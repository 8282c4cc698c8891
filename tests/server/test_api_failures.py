"""Several processes, slow phases, failures; and the description of the API."""

from __future__ import annotations

import json
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from databases import wait_until
from served import HANG_TIMEOUT, Served, create, in_thread, outcomes, wrong

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.policies import AnytimeBAI
from bestarm.server import experiments
from bestarm.server.experiments import Maintenance

pytest_plugins = ("api_fixtures",)


def test_other_processes_and_this_one_see_the_same_experiments(
    api: httpx.Client, served: Served
) -> None:
    wrong(api.get("/experiments/from elsewhere"), 404, "unknown_experiment")
    with Experiment.create(
        served.url, "from elsewhere", Problem([[1, 0], [0, 1]]), seed=0
    ) as outside:
        api.post("/experiments/from elsewhere/ask", json={"count": 2})
        outside.tell_many({0: 0.5, 1: 0.25})
        assert api.get("/experiments/from elsewhere").json()["answered"] == 2
        outside.stop()
        assert api.get("/experiments/from elsewhere").json()["state"] == "stopped"


def test_a_policy_on_record_is_imported_only_from_modules_that_are_allowed(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rule_of_a_server.py").write_text("from bestarm import AnytimeBAI\n")
    monkeypatch.syspath_prepend(tmp_path)
    Experiment.create(
        sqlite_url, "own", ["old", "new"], bounds=(0, 1), policy="rule_of_a_server:AnytimeBAI"
    ).close()
    sys.modules.pop("rule_of_a_server")
    for allowed in ((), ("rule_of_a_server",)):
        with in_thread(sqlite_url, allow_modules=allowed) as served, served.client() as client:
            found = client.get("/experiments/own/recommendation")
            if allowed:
                assert found.json()["reason"] == "running"
                continue
            error = wrong(found, 503, "module_not_allowed")
            assert (error["field"], error["value"]) == ("policy", "rule_of_a_server:AnytimeBAI")
            assert client.get("/experiments/own").json()["state"] == "running"
            assert client.get("/experiments/own/health").status_code == 200
            assert "rule_of_a_server" not in sys.modules


def test_no_request_imports_the_policy_on_record_by_itself(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who can write to the database names a module that the server could import."""
    (tmp_path / "evil_rule.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiments, "_EVERY", 0.05)
    with Experiment.create(sqlite_url, "offer", ["old", "new"], bounds=(0, 1)) as experiment:
        batch = experiment.ask(8)
        experiment.tell_many({each.id: 0.5 for each in batch[:7]})
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        changed = "json_set(document, '$.policy', 'evil_rule:Rule')"
        connection.execute(f"UPDATE bestarm_documents SET document = {changed}")
    rounds, run_once = list[Maintenance](), Maintenance.run_once

    def counted(self: Maintenance) -> None:
        run_once(self)
        rounds.append(self)

    monkeypatch.setattr(Maintenance, "run_once", counted)
    with in_thread(sqlite_url) as served, served.client() as api:
        path, found = "/experiments/offer", dict[str, int]()
        sent: tuple[tuple[str, Any], ...] = (
            *((each, None) for each in ("", "/guardrails", "/health", "/events", "/export")),
            ("/tell", outcomes({7: 0.5})),  # a step is pending from here on
            ("/ask", {"count": 3}),
            ("/fail", {"ids": [3]}),
            ("/add", {"label": "newer"}),
            ("/retire", {"label": "new"}),
            ("/recommendation", None),
        )
        for part, body in sent:
            method = "GET" if body is None else "POST"
            response = api.request(method, f"{path}{part}", json=body)
            found[part] = response.status_code
            if response.status_code >= 500:
                wrong(response, 503, "module_not_allowed")
        assert found["/recommendation"] == found["/ask"] == 503
        for page in ("", "/metrics", path, f"{path}/report", f"{path}/panels"):
            shown = api.get(f"{served.base}{page}", headers={"Accept": "text/html"})
            assert shown.status_code == (503 if path in page else 200)
            assert ("--allow-module evil_rule" in shown.text) == (path in page)
        before = len(rounds)
        wait_until(lambda: len(rounds) > before + 2)
        assert api.post(f"{path}/stop", json={}).status_code == 200
    assert "evil_rule" not in sys.modules
    assert not (tmp_path / "imported").exists()


def test_a_phase_that_takes_long_to_close_keeps_nobody_from_looking(
    served: Served, api: httpx.Client, experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = api.post(f"{experiment}/ask", json={"count": 16}).json()["assignments"]
    inside, go_on = Event(), Event()
    update = AnytimeBAI.update

    def slow(self: AnytimeBAI, *args: Any, **kwargs: Any) -> None:
        inside.set()
        assert go_on.wait(HANG_TIMEOUT)
        update(self, *args, **kwargs)

    monkeypatch.setattr(AnytimeBAI, "update", slow)
    limits = httpx.Limits(max_connections=150)
    with served.client(limits=limits) as many, ThreadPoolExecutor(120) as threads:
        try:
            told = outcomes(dict.fromkeys((each["id"] for each in given), 1))
            closing = threads.submit(many.post, f"{experiment}/tell", json=told)
            assert inside.wait(HANG_TIMEOUT)
            # More than there are threads or connections: who asks for the recommendation waits for
            # the policy, and who tells does not.
            waiting = [
                threads.submit(many.post, f"{experiment}/tell", json=outcomes({0: 1}))
                for _ in range(60)
            ]
            waiting += [threads.submit(many.get, f"{experiment}/recommendation") for _ in range(50)]
            wait_until(lambda: all(each.running() or each.done() for each in waiting))
            for _ in range(20):
                assert api.get(experiment).json()["answered"] == 16
                assert api.get("/experiments").status_code == 200
            assert not any(each.done() for each in waiting[60:])
        finally:
            go_on.set()
        assert closing.result(HANG_TIMEOUT).json()["recorded"] == 16
        assert {each.result().status_code for each in waiting} == {200}


def test_a_file_that_is_gone_is_no_place_to_keep_outcomes(tmp_path: Path) -> None:
    path, away = tmp_path / "store.db", tmp_path / "away.db"
    with in_thread(f"sqlite:///{path}") as served, served.client() as api:
        for name in ("x", "y"):
            create(api, name)
        assert api.post("/experiments/y/ask", json={"count": 3}).status_code == 200
        sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        path.rename(away)
        gone = api.post("/experiments/y/ask", json={})
        error = wrong(gone, 503, "store_unavailable")
        assert str(tmp_path) not in json.dumps(error)
        assert "retry-after" in gone.headers
        # Another file with other experiments, of which one has the number of the first.
        with Experiment.create(f"sqlite:///{path}", "y", Problem([[1, 0], [0, 1]]), seed=0):
            pass
        for call in ("x", "y"):
            wrong(api.get(f"/experiments/{call}"), 503, "store_unavailable")
        wrong(api.post("/experiments/y/ask", json={}), 503, "store_unavailable")
        assert Experiment.open(f"sqlite:///{path}", "y").status().pulls == 0


def test_a_failure_that_was_not_foreseen_has_the_shape_too(
    api: httpx.Client, experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Experiment) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(Experiment, "pause", fail)
    response = api.post(f"{experiment}/pause")
    wrong(response, 500, "internal_error")
    assert "secret" not in response.text


def test_every_route_has_an_example_and_says_what_can_go_wrong(api: httpx.Client) -> None:
    schema = api.get("/openapi.json").json()
    models = schema["components"]["schemas"]

    def has_example(content: dict[str, Any]) -> bool:
        kind = content.get("schema", {})
        names = [kind.get("$ref", ""), *(each.get("$ref", "") for each in kind.get("anyOf", []))]
        return (
            "example" in content
            or "examples" in kind
            or any(models.get(name.rsplit("/", 1)[-1], {}).get("examples") for name in names)
        )

    seen = 0
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            if not path.startswith("/api/"):
                continue
            seen += 1
            answers = operation["responses"]
            assert operation["summary"], path
            assert {"401", "403", "422", "503"} <= set(answers), path
            assert operation["security"] == [{"HTTPBearer": []}], path
            for code, answer in answers.items():
                for kind, content in answer.get("content", {}).items():
                    if code.startswith("2"):
                        assert has_example(content), (method, path)
                    else:
                        assert kind == "application/problem+json"
                        assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                assert has_example(content), (method, path)
    assert seen >= 13


def test_the_examples_are_true(api: httpx.Client) -> None:
    described = api.get("/openapi.json").json()
    [example] = described["components"]["schemas"]["CreateBody"]["examples"]
    assert api.post("/experiments", json=example).status_code == 201
    given = api.post("/experiments/checkout/ask", json={"count": 2}).json()["assignments"]
    assert {each["label"] for each in given} <= set(example["options"])


def test_an_experiment_of_another_version_keeps_what_is_told_and_says_why_it_does_not_go_on(
    served: Served, api: httpx.Client, experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = api.post(f"{experiment}/ask", json={"count": 100}).json()["assignments"]
    monkeypatch.setattr(AnytimeBAI, "version", AnytimeBAI.version + 1)
    with in_thread(served.url) as other, other.client() as elsewhere:
        wrong(elsewhere.get(f"{experiment}/recommendation"), 503, "replay")
        rewards = {each["id"]: 1.0 for each in given}
        told = elsewhere.post(f"{experiment}/tell", json=outcomes(rewards))
        error = wrong(told, 503, "replay")
        assert f"version {AnytimeBAI.version}" in error["detail"]
        assert error["remedy"].startswith("The outcomes sent are recorded.")
        assert elsewhere.get(experiment).json()["outstanding"] == 0
    monkeypatch.undo()
    assert api.post(f"{experiment}/ask", json={"count": 1}).json()["phase"] > 1
