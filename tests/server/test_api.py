"""The routes: they do over HTTP what the library does."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
from served import ARMS, Served, wrong

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.policies import AnytimeBAI
from bestarm.server.tokens import Role

pytest_plugins = ("api_fixtures",)


def test_an_experiment_over_http_is_the_experiment_of_the_library(
    api: httpx.Client, served: Served, experiment: str
) -> None:
    policy = AnytimeBAI(Problem([[1, 0], [0, 1]], delta=0.05), bounds=(0, 1), seed=1)
    beside = Experiment(policy, seed=1)
    while not beside.finished:
        batch = api.post(f"{experiment}/ask", json={"count": 64}).json()
        expected = beside.ask(64)
        assert [a["id"] for a in batch["assignments"]] == list(expected.ids)
        assert [a["arm"] for a in batch["assignments"]] == expected.arms.tolist()
        assert [a["probability"] for a in batch["assignments"]] == expected.probabilities.tolist()
        rewards = {each.id: float((each.arm + each.id) % 3 < 2 - each.arm) for each in expected}
        receipt = api.post(
            f"{experiment}/tell",
            json={"outcomes": [{"id": i, "reward": r} for i, r in rewards.items()]},
        )
        assert receipt.json() == {"recorded": len(rewards), "repeated": 0, "late": 0, "held": 0}
        beside.tell_many(rewards)
    assert api.get(experiment).json()["state"] == "finished"
    message, expected_said = api.get(f"{experiment}/recommendation").json(), beside.recommendation()
    assert message["label"] == expected_said.label
    assert message["error_bound"] == expected_said.error_bound == 0.05
    assert message["final"] is True
    assert message["statement"] == expected_said.statement
    assert (message["claims"], message["contradicted"]) == (0.05, False)
    assert message["chosen_labels"] == message["active_labels"] == [expected_said.label]
    late = api.post(f"{experiment}/ask", json={}).json()
    assert late["assignments"] == []
    assert late["state"] == "finished"


def test_the_lead_over_a_control_is_that_of_the_library(api: httpx.Client, served: Served) -> None:
    options = {"bounds": [0, 1], "control": "old", "expected_gap": 0.5, "tolerance": 0.01}
    body = {"name": "lead", "source_labels": ["old", "new"], "options": options, "seed": 1}
    assert api.post("/experiments", json=body).status_code == 201
    before = api.get("/experiments/lead/recommendation").json()
    assert before["effect"] is None
    with Experiment.open(served.url, "lead") as beside:
        while not beside.finished:
            given = beside.ask(64)
            beside.tell_many([(each.id, float(each.id % 10 < 4 + 5 * each.arm)) for each in given])
        expected = beside.recommendation().effect
    message = api.get("/experiments/lead/recommendation").json()
    assert expected is not None
    assert message["effect"] == asdict(expected)
    assert message["effect"]["lower"] > 0
    unknown = body | {"name": "else", "options": options | {"control": "odl"}}
    refused = wrong(api.post("/experiments", json=unknown), 422, "invalid_input")
    assert refused["field"] == "control"


def test_health_and_export_are_those_of_the_library(
    api: httpx.Client, served: Served, tmp_path: Path
) -> None:
    labels = ['a,"b"', "=1+1", "<b>"]
    body = {"name": "export", "source": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "source_labels": labels}
    assert api.post("/experiments", json=body).status_code == 201
    given = api.post("/experiments/export/ask", json={"count": 9}).json()["assignments"]
    outcomes = [{"id": each["id"], "reward": 0.1 * each["id"]} for each in given[:7]]
    api.post("/experiments/export/tell", json={"outcomes": outcomes})
    with Experiment.open(served.url, "export") as beside:
        checks = api.get("/experiments/export/health").json()["checks"]
        expected = beside.health()
        assert [each["name"] for each in checks] == [each.name for each in expected]
        assert [each["level"] for each in checks] == [each.level for each in expected]
        for layout in ("assignments", "mrt"):
            beside.export(tmp_path / "here.csv", layout=layout)
            sent = api.get("/experiments/export/export", params={"layout": layout})
            assert sent.content == (tmp_path / "here.csv").read_bytes()
            assert sent.headers["content-type"].startswith("text/csv")
            named = f'attachment; filename="{layout}.csv"'
            assert sent.headers["content-disposition"] == named
    for layout in ("../../etc/passwd", "", "x'; DROP TABLE bestarm_outcomes; --"):
        refused = api.get("/experiments/export/export", params={"layout": layout})
        wrong(refused, 422, "invalid_input")


def test_pause_resume_stop_and_their_repetition(api: httpx.Client, experiment: str) -> None:
    for _ in range(2):
        assert api.post(f"{experiment}/pause").json()["state"] == "paused"
    given = api.post(f"{experiment}/ask", json={"count": 3}).json()
    assert given["assignments"] == []
    assert given["state"] == "paused"
    for _ in range(2):
        assert api.post(f"{experiment}/resume").json()["state"] == "running"
    for _ in range(2):
        stopped = api.post(f"{experiment}/stop", json={"reason": "the season is over"})
        assert stopped.json()["state"] == "stopped"
    wrong(api.post(f"{experiment}/resume"), 422, "invalid_input")
    kinds = [event["kind"] for event in api.get(f"{experiment}/events").json()["events"]]
    assert kinds == ["created", "planned", "paused", "resumed", "stopped"]


def test_outcomes_with_a_window(api: httpx.Client, served: Served) -> None:
    body: dict[str, Any] = {"name": "window", "source_labels": ["old", "new"], "seed": 1}
    body |= {"options": {"bounds": [0, 1]}, "window": "7d", "otherwise": 0}
    assert api.post("/experiments", json=body).status_code == 201
    api.post("/experiments/window/ask", json={"count": 2})
    for reward in (1, 0):  # a conversion, and its cancellation
        outcomes = [{"id": 0, "reward": reward}]
        told = api.post("/experiments/window/tell", json={"outcomes": outcomes})
        assert told.json() == {"recorded": 1, "repeated": 0, "late": 0, "held": 1}
    assert api.get("/experiments/window").json()["early"] == 1
    with Experiment.open(served.url, "window") as beside:
        assert (beside.window, beside.otherwise) == (604_800.0, 0.0)
    refused = api.post("/experiments", json=body | {"name": "both", "lease": 60})
    wrong(refused, 422, "invalid_input")


def test_a_lease_can_be_changed_until_the_end(
    api: httpx.Client, served: Served, experiment: str
) -> None:
    with Experiment.open(served.url, unquote(experiment.rpartition("/")[2])) as beside:
        for lease, seconds in ((60, 60), ("1m", 60), (0.5, 0.5), ("2h", 7200), (None, None)):
            assert (
                api.post(f"{experiment}/lease", json={"lease": lease}).json()["state"] == "running"
            )
            assert beside.lease == seconds
        for body in ({}, {"lease": 0}, {"lease": -1}, {"lease": "soon"}, {"lease": 1, "x": 1}):
            wrong(api.post(f"{experiment}/lease", json=body), 422, "invalid_input")
        wrong(api.post(f"{experiment}/lease"), 422, "invalid_input")
        api.post(f"{experiment}/stop")
        wrong(api.post(f"{experiment}/lease", json={"lease": 60}), 422, "invalid_input")
        changes = [each.data["lease"] for each in beside.events() if each.kind == "changed"]
        assert changes == [60, 0.5, 7200, None]


def test_true_and_false_are_rewards(api: httpx.Client, served: Served, experiment: str) -> None:
    api.post(f"{experiment}/ask", json={"count": 2})
    outcomes = [{"id": 0, "reward": True}, {"id": 1, "reward": False}]
    told = api.post(f"{experiment}/tell", json={"outcomes": outcomes})
    assert told.json() == {"recorded": 2, "repeated": 0, "late": 0, "held": 0}
    with Experiment.open(served.url, unquote(experiment.rpartition("/")[2])) as beside:
        assert beside.outcomes()["reward"].tolist() == [1.0, 0.0]


def test_names_alone_begin_an_experiment(api: httpx.Client, served: Served) -> None:
    body = {"name": "named", "source_labels": ["old", "new"], "lease": "1d"}
    assert api.post("/experiments", json=body).status_code == 201
    with Experiment.open(served.url, "named") as beside:
        assert beside.problem == Problem.named(["old", "new"])
        assert beside.lease == 86400
    error = wrong(api.post("/experiments", json={"name": "none"}), 422, "invalid_input")
    assert error["field"] == "source"
    assert "source_labels" in error["remedy"]
    many = {"name": "many", "source_labels": [str(i) for i in range(400)]}
    assert wrong(api.post("/experiments", json=many), 422, "invalid_input")["value"] == 160_000


def test_a_confidence_is_not_an_error_probability(api: httpx.Client) -> None:
    body = {"name": "sure", "source_labels": ["old", "new"], "delta": 0.95}
    error = wrong(api.post("/experiments", json=body), 422, "invalid_input")
    assert (error["field"], error["value"]) == ("delta", 0.95)
    assert "Did you mean 0.05?" in error["remedy"]
    for label in ("", "  "):
        body = {"name": "blank", "source_labels": ["old", label]}
        error = wrong(api.post("/experiments", json=body), 422, "invalid_input")
        assert error["field"] == "source_labels"


def test_nobody_learns_the_seed(api: httpx.Client, served: Served) -> None:
    """Neither one that was given nor one that was drawn: whoever knows it foresees the draws."""
    seed = 918273645546372819
    for name, given in (("sown", {"seed": seed}), ("drawn", {})):
        body = {"name": name, **{key: ARMS[key] for key in ("source", "options")}, **given}
        message = [api.post("/experiments", json=body).text]
        with Experiment.open(served.url, name) as beside:
            known = str(beside.seed)
            assert (beside.seed == seed) == bool(given)
        api.post(f"/experiments/{name}/ask", json={"count": 3})
        for path in ("", "/recommendation", "/health", "/events", "/export"):
            message += [api.get(f"/experiments/{name}{path}").text]
        address = str(api.base_url).split("/api/")[0]
        for page in (f"/experiments/{name}", f"/experiments/{name}/report", "/"):
            message += [api.get(f"{address}{page}").text]
        assert not any(known in text for text in message)
        (created, *_) = api.get(f"/experiments/{name}/events").json()["events"]
        assert "seed" not in created["data"]
        assert len(known) > 9


def test_an_experiment_of_its_owner_only_needs_no_body_to_stop(
    api: httpx.Client, experiment: str
) -> None:
    assert api.post(f"{experiment}/stop").json()["state"] == "stopped"


def test_asking_again_under_a_key_gives_the_same_and_another_body_is_a_conflict(
    api: httpx.Client, experiment: str
) -> None:
    key = {"Idempotency-Key": "worker-7/1"}
    first = api.post(f"{experiment}/ask", json={"count": 3}, headers=key).json()
    api.post(f"{experiment}/ask", json={"count": 2})
    assert api.post(f"{experiment}/ask", json={"count": 3}, headers=key).json() == first
    again = api.post(f"{experiment}/ask", json={"count": 4}, headers=key)
    error = wrong(again, 409, "conflicting_request")
    assert (error["field"], error["value"]) == ("Idempotency-Key", "worker-7/1")
    assert api.get(experiment).json()["pulls"] == 5
    for bad in ("x" * 201, ""):
        refused = api.post(f"{experiment}/ask", json={}, headers={"Idempotency-Key": bad})
        wrong(refused, 422, "invalid_input")


def test_a_key_is_its_caller_s_own(api: httpx.Client, served: Served, experiment: str) -> None:
    """Two programs that count their requests from 1 are not given each other's assignments."""
    key, given = {"Idempotency-Key": "1"}, []
    with served.client(Role.TELL) as other:
        for caller in (api, other, api, other):
            answer = caller.post(f"{experiment}/ask", json={"count": 3}, headers=key).json()
            given.append([each["id"] for each in answer["assignments"]])
        assert given == [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5]]
        # What one of them asked for says nothing of what the other may.
        error = wrong(
            other.post(f"{experiment}/ask", json={"count": 4}, headers=key),
            409,
            "conflicting_request",
        )
        assert (error["field"], error["value"]) == ("Idempotency-Key", "1")
        assert "token" not in json.dumps(error)
    longest = {"Idempotency-Key": "k" * 200}
    first, again = (
        api.post(f"{experiment}/ask", json={"count": 1}, headers=longest).json() for _ in range(2)
    )
    assert first == again
    with Experiment.open(served.url, unquote(experiment.rsplit("/", 1)[1])) as opened:
        assert opened.verify().sound


def test_a_name_in_either_spelling_is_one_experiment(api: httpx.Client, served: Served) -> None:
    composed, apart = "th\u00e9", "the\u0301"
    assert api.post("/experiments", json={"name": apart, **ARMS}).status_code == 201
    for name in (composed, apart):
        wrong(api.post("/experiments", json={"name": name, **ARMS}), 409, "experiment_exists")
        path = f"/experiments/{quote(name, safe='')}"
        assert api.post(f"{path}/ask", json={"count": 1}).status_code == 200
        assert httpx.get(f"{served.base}{path}").status_code == 200
    assert api.get(path).json()["pulls"] == 2
    names = [each["name"] for each in api.get("/experiments").json()["experiments"]]
    assert composed in names
    assert apart not in names


def test_outcomes_are_told_once_all_or_none(api: httpx.Client, experiment: str) -> None:
    def tell(*pairs: tuple[int, float]) -> httpx.Response:
        outcomes = [{"id": id_, "reward": reward} for id_, reward in pairs]
        return api.post(f"{experiment}/tell", json={"outcomes": outcomes})

    api.post(f"{experiment}/ask", json={"count": 4})
    assert tell((0, 1), (1, 0)).json() == {"recorded": 2, "repeated": 0, "late": 0, "held": 0}
    assert tell((0, 1), (2, 0)).json() == {"recorded": 1, "repeated": 1, "late": 0, "held": 0}
    wrong(tell((3, 1), (0, 0)), 409, "conflicting_outcome")
    wrong(tell((3, 1), (4, 0)), 404, "unknown_assignment")
    wrong(tell((3, 1.5)), 422, "invalid_input")
    assert api.get(experiment).json()["answered"] == 3
    assert tell().json() == {"recorded": 0, "repeated": 0, "late": 0, "held": 0}
    wrong(api.post(f"{experiment}/fail", json={"ids": [0]}), 409, "conflicting_outcome")
    for _ in range(2):
        assert api.post(f"{experiment}/fail", json={"ids": [3]}).json()["lost"] == 1
    assert tell((3, 1)).json() == {"recorded": 1, "repeated": 0, "late": 1, "held": 0}


def test_polling_with_an_etag_costs_nothing_until_something_changes(
    api: httpx.Client, experiment: str
) -> None:
    tag = api.get(experiment).headers["etag"]
    for given in (tag, f'"else", {tag}', "*", tag.removeprefix("W/")):
        same = api.get(experiment, headers={"If-None-Match": given})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert api.get(experiment, headers={"If-None-Match": '"else"'}).status_code == 200
    api.post(f"{experiment}/ask", json={})
    changed = api.get(experiment, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_the_log_is_read_in_parts(api: httpx.Client, experiment: str) -> None:
    for _ in range(3):
        api.post(f"{experiment}/pause")
        api.post(f"{experiment}/resume")
    whole = api.get(f"{experiment}/events").json()["events"]
    read: list[dict[str, Any]] = []
    after = 0
    while True:
        part = api.get(f"{experiment}/events", params={"after": after, "limit": 3}).json()
        assert part["next"] == after + len(part["events"])
        if not part["events"]:
            break
        read, after = read + part["events"], part["next"]
    assert read == whole
    assert len(whole) == 8
    for query in ({"limit": 0}, {"limit": 1001}, {"after": -1}, {"after": 2**62}, {"after": "x"}):
        wrong(api.get(f"{experiment}/events", params=query), 422, "invalid_input")
