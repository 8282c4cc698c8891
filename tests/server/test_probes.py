"""Probes need no token; configurations are told without the seed; experiments are archived."""

from __future__ import annotations

import shutil
from pathlib import Path

from served import create, get, in_thread, wrong

from bestarm.server.tokens import Role


def test_probes_need_no_token_and_answer_for_every_host(sqlite_url: str) -> None:
    with in_thread(sqlite_url, local=False, hosts=("offers.example",)) as served:
        for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
            answer = get(f"{served.base}{path}", headers={"Host": "10.0.0.7:8000"})
            assert (answer.status_code, answer.json()) == (200, {"status": status})
        refused = get(f"{served.base}/api/v1/experiments", headers={"Host": "10.0.0.7"})
        assert refused.status_code == 421


def test_a_server_without_its_database_lives_and_is_not_ready(
    sqlite_url: str, tmp_path: Path
) -> None:
    with in_thread(sqlite_url) as served:
        shutil.rmtree(tmp_path)
        assert get(f"{served.base}/healthz").status_code == 200
        wrong(get(f"{served.base}/readyz"), 503, "store_unavailable")


def test_the_configuration_is_what_was_created(sqlite_url: str) -> None:
    body = {
        "options": ["old", "new"],
        "bounds": [0, 1],
        "control": "old",
        "delta": 0.01,
        "window": "1h",
        "otherwise": 0,
        "seed": 7,
        "guardrails": {"refund": {"bounds": [0, 1], "worse_by": 0.1}},
    }
    with in_thread(sqlite_url) as served, served.client() as client:
        path = create(client, "offer", **body)
        client.post(f"{path}/add", json={"option": "newer"}).raise_for_status()
        with served.client(Role.VIEW) as viewer:
            answer = viewer.get(f"{path}/configuration")
    found = answer.raise_for_status().json()
    assert found["options"] == ["old", "new", "newer"]
    assert (found["control"], found["delta"], found["bounds"]) == ("old", 0.01, [0, 1])
    assert (found["policy"], found["window"], found["otherwise"]) == ("anytime", 3600, 0)
    assert [each["name"] for each in found["guardrails"]] == ["refund"]
    assert "seed" not in answer.text


def test_an_experiment_is_archived_over_http(sqlite_url: str) -> None:
    with in_thread(sqlite_url) as served, served.client() as client:
        path = create(client)
        for _ in range(2):
            assert client.delete(path).raise_for_status().json()["state"] == "running"
        assert client.get("/experiments").json()["experiments"] == []
        listed = client.get("/experiments", params={"archived": True}).json()["experiments"]
        assert [each["name"] for each in listed] == ["offer"]
        assert client.get(path).json()["state"] == "running"
        assert client.delete(path, params={"undo": True}).status_code == 200
        assert len(client.get("/experiments").json()["experiments"]) == 1
        with served.client(Role.TELL) as teller:
            assert teller.delete(path).status_code == 403
