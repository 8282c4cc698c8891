"""What the routes do, and that whatever goes wrong has one shape."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest
from fastapi import FastAPI
from served import ARMS, PATIENCE, Served, in_thread

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.policies import AnytimeBAI
from bestarm.policies.registry import policies
from bestarm.server import create_app
from bestarm.server.api.schemas import CreateBody
from bestarm.server.security.tokens import Role


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with in_thread(f"sqlite:///{tmp_path_factory.mktemp('api') / 'trial.db'}") as running:
        yield running


@pytest.fixture(scope="module")
def api(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


@pytest.fixture
def trial(api: httpx.Client, request: pytest.FixtureRequest) -> str:
    """The path of a new trial."""
    name = f"{request.node.name}"[:200].replace("/", "-")
    made = api.post("/experiments", json={"name": name, **ARMS})
    assert made.status_code == 201, made.text
    return f"/experiments/{quote(name, safe='')}"


def wrong(response: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The error of a response, which must be of the one shape."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"kind", "message", "field", "value", "remedy"}
    assert body["error"]["kind"] == kind
    assert body["error"]["message"].endswith((".", "?", "…"))
    error: dict[str, Any] = body["error"]
    return error


def test_a_trial_over_http_is_the_trial_of_the_library(
    api: httpx.Client, served: Served, trial: str
) -> None:
    policy = AnytimeBAI(Problem([[1, 0], [0, 1]], delta=0.05), bounds=(0, 1), seed=1)
    beside = Experiment(policy, seed=1)
    while not beside.finished:
        batch = api.post(f"{trial}/ask", json={"count": 64}).json()
        expected = beside.ask(64)
        assert [a["id"] for a in batch["assignments"]] == list(expected.ids)
        assert [a["arm"] for a in batch["assignments"]] == expected.arms.tolist()
        assert [a["probability"] for a in batch["assignments"]] == expected.probabilities.tolist()
        rewards = {each.id: float((each.arm + each.id) % 3 < 2 - each.arm) for each in expected}
        receipt = api.post(
            f"{trial}/tell", json={"outcomes": [{"id": i, "reward": r} for i, r in rewards.items()]}
        )
        assert receipt.json() == {"recorded": len(rewards), "repeated": 0, "late": 0}
        beside.tell_many(rewards)
    assert api.get(trial).json()["state"] == "finished"
    said, expected_said = api.get(f"{trial}/recommendation").json(), beside.recommendation()
    assert said["label"] == expected_said.label
    assert said["error_bound"] == expected_said.error_bound == 0.05
    assert said["final"] is True
    assert said["statement"] == expected_said.statement
    assert (said["claims"], said["contradicted"]) == (0.05, False)
    assert said["chosen_labels"] == said["active_labels"] == [expected_said.label]
    late = api.post(f"{trial}/ask", json={}).json()
    assert late["assignments"] == []
    assert late["state"] == "finished"


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


def test_pause_resume_stop_and_their_repetition(api: httpx.Client, trial: str) -> None:
    for _ in range(2):
        assert api.post(f"{trial}/pause").json()["state"] == "paused"
    given = api.post(f"{trial}/ask", json={"count": 3}).json()
    assert given["assignments"] == []
    assert given["state"] == "paused"
    for _ in range(2):
        assert api.post(f"{trial}/resume").json()["state"] == "running"
    for _ in range(2):
        stopped = api.post(f"{trial}/stop", json={"reason": "the season is over"})
        assert stopped.json()["state"] == "stopped"
    wrong(api.post(f"{trial}/resume"), 422, "invalid_input")
    kinds = [event["kind"] for event in api.get(f"{trial}/events").json()["events"]]
    assert kinds == ["created", "planned", "paused", "resumed", "stopped"]


def test_a_lease_can_be_changed_until_the_end(
    api: httpx.Client, served: Served, trial: str
) -> None:
    with Experiment.open(served.url, unquote(trial.rpartition("/")[2])) as beside:
        for lease, seconds in ((60, 60), ("1m", 60), (0.5, 0.5), ("2h", 7200), (None, None)):
            assert api.post(f"{trial}/lease", json={"lease": lease}).json()["state"] == "running"
            assert beside.lease == seconds
        for body in ({}, {"lease": 0}, {"lease": -1}, {"lease": "soon"}, {"lease": 1, "x": 1}):
            wrong(api.post(f"{trial}/lease", json=body), 422, "invalid_input")
        wrong(api.post(f"{trial}/lease"), 422, "invalid_input")
        api.post(f"{trial}/stop")
        refused = wrong(api.post(f"{trial}/lease", json={"lease": 60}), 422, "invalid_input")
        assert "stopped cannot be changed" in refused["message"]
        changes = [each.data["lease"] for each in beside.events() if each.kind == "changed"]
        assert changes == [60, 0.5, 7200, None]


def test_true_and_false_are_rewards(api: httpx.Client, served: Served, trial: str) -> None:
    api.post(f"{trial}/ask", json={"count": 2})
    outcomes = [{"id": 0, "reward": True}, {"id": 1, "reward": False}]
    told = api.post(f"{trial}/tell", json={"outcomes": outcomes})
    assert told.json() == {"recorded": 2, "repeated": 0, "late": 0}
    with Experiment.open(served.url, unquote(trial.rpartition("/")[2])) as beside:
        assert beside.outcomes()["reward"].tolist() == [1.0, 0.0]


def test_names_alone_begin_a_trial(api: httpx.Client, served: Served) -> None:
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
        said = [api.post("/experiments", json=body).text]
        with Experiment.open(served.url, name) as beside:
            known = str(beside.seed)
            assert (beside.seed == seed) == bool(given)
        api.post(f"/experiments/{name}/ask", json={"count": 3})
        for path in ("", "/recommendation", "/health", "/events", "/export"):
            said += [api.get(f"/experiments/{name}{path}").text]
        address = str(api.base_url).split("/api/")[0]
        for page in (f"/experiments/{name}", f"/experiments/{name}/report", "/"):
            said += [api.get(f"{address}{page}").text]
        assert not any(known in text for text in said)
        (created, *_) = api.get(f"/experiments/{name}/events").json()["events"]
        assert "seed" not in created["data"]
        assert len(known) > 9


def test_a_trial_of_its_owner_only_needs_no_body_to_stop(api: httpx.Client, trial: str) -> None:
    assert api.post(f"{trial}/stop").json()["state"] == "stopped"


def test_asking_again_under_a_key_gives_the_same_and_another_body_is_a_conflict(
    api: httpx.Client, trial: str
) -> None:
    key = {"Idempotency-Key": "worker-7/1"}
    first = api.post(f"{trial}/ask", json={"count": 3}, headers=key).json()
    api.post(f"{trial}/ask", json={"count": 2})
    assert api.post(f"{trial}/ask", json={"count": 3}, headers=key).json() == first
    again = api.post(f"{trial}/ask", json={"count": 4}, headers=key)
    error = wrong(again, 409, "conflicting_request")
    assert (error["field"], error["value"]) == ("Idempotency-Key", "worker-7/1")
    assert api.get(trial).json()["pulls"] == 5
    for bad in ("x" * 201, ""):
        refused = api.post(f"{trial}/ask", json={}, headers={"Idempotency-Key": bad})
        wrong(refused, 422, "invalid_input")


def test_a_key_is_its_caller_s_own(api: httpx.Client, served: Served, trial: str) -> None:
    """Two programs that count their requests from 1 are not given each other's assignments."""
    key, given = {"Idempotency-Key": "1"}, []
    with served.client(Role.TELL) as other:
        for caller in (api, other, api, other):
            answer = caller.post(f"{trial}/ask", json={"count": 3}, headers=key).json()
            given.append([each["id"] for each in answer["assignments"]])
        assert given == [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5]]
        # What one of them asked for says nothing of what the other may.
        error = wrong(
            other.post(f"{trial}/ask", json={"count": 4}, headers=key), 409, "conflicting_request"
        )
        assert (error["field"], error["value"]) == ("Idempotency-Key", "1")
        assert "token" not in json.dumps(error)
    longest = {"Idempotency-Key": "k" * 200}
    first, again = (
        api.post(f"{trial}/ask", json={"count": 1}, headers=longest).json() for _ in range(2)
    )
    assert first == again
    with Experiment.open(served.url, unquote(trial.rsplit("/", 1)[1])) as experiment:
        assert experiment.verify().sound


def test_a_name_in_either_spelling_is_one_trial(api: httpx.Client, served: Served) -> None:
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


def test_outcomes_are_told_once_all_or_none(api: httpx.Client, trial: str) -> None:
    def tell(*pairs: tuple[int, float]) -> httpx.Response:
        outcomes = [{"id": id_, "reward": reward} for id_, reward in pairs]
        return api.post(f"{trial}/tell", json={"outcomes": outcomes})

    api.post(f"{trial}/ask", json={"count": 4})
    assert tell((0, 1), (1, 0)).json() == {"recorded": 2, "repeated": 0, "late": 0}
    assert tell((0, 1), (2, 0)).json() == {"recorded": 1, "repeated": 1, "late": 0}
    wrong(tell((3, 1), (0, 0)), 409, "conflicting_outcome")
    wrong(tell((3, 1), (4, 0)), 404, "unknown_assignment")
    wrong(tell((3, 1.5)), 422, "invalid_input")
    assert api.get(trial).json()["answered"] == 3
    assert tell().json() == {"recorded": 0, "repeated": 0, "late": 0}
    wrong(api.post(f"{trial}/fail", json={"ids": [0]}), 409, "conflicting_outcome")
    for _ in range(2):
        assert api.post(f"{trial}/fail", json={"ids": [3]}).json()["lost"] == 1
    assert tell((3, 1)).json() == {"recorded": 1, "repeated": 0, "late": 1}


def test_polling_with_an_etag_costs_nothing_until_something_changes(
    api: httpx.Client, trial: str
) -> None:
    tag = api.get(trial).headers["etag"]
    for given in (tag, f'"else", {tag}', "*", tag.removeprefix("W/")):
        same = api.get(trial, headers={"If-None-Match": given})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert api.get(trial, headers={"If-None-Match": '"else"'}).status_code == 200
    api.post(f"{trial}/ask", json={})
    changed = api.get(trial, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_the_log_is_read_in_parts(api: httpx.Client, trial: str) -> None:
    for _ in range(3):
        api.post(f"{trial}/pause")
        api.post(f"{trial}/resume")
    whole = api.get(f"{trial}/events").json()["events"]
    read: list[dict[str, Any]] = []
    after = 0
    while True:
        part = api.get(f"{trial}/events", params={"after": after, "limit": 3}).json()
        assert part["next"] == after + len(part["events"])
        if not part["events"]:
            break
        read, after = read + part["events"], part["next"]
    assert read == whole
    assert len(whole) == 8
    for query in ({"limit": 0}, {"limit": 1001}, {"after": -1}, {"after": 2**62}, {"after": "x"}):
        wrong(api.get(f"{trial}/events", params=query), 422, "invalid_input")


NAMES = [
    "a b",
    "Größe ✓ 好",
    "' OR 1=1 --",
    'x"; DROP TABLE bestarm_experiments; --',
    "<img src=x onerror=alert(1)>",
    "%2e%2e",
    "a\\b",
    "..a",
    "a?b#c&d=e",
    "{name}",
    "${7*7}",
    "\u202egnp",
    "x" * 200,
    "☃" * 200,
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_printable_name_is_a_name(api: httpx.Client, served: Served, name: str) -> None:
    made = api.post("/experiments", json={"name": name, **ARMS})
    if not name.isprintable():
        wrong(made, 422, "invalid_input")
        return
    assert made.status_code == 201
    path = f"/experiments/{quote(name, safe='')}"
    assert api.get(path).json()["phase"] == 1
    assert len(api.post(f"{path}/ask", json={"count": 2}).json()["assignments"]) == 2
    listed = api.get("/experiments", params={"limit": 1000}).json()["experiments"]
    assert name in {each["name"] for each in listed}
    before = api.get("/experiments", params={"after": name}).json()  # any name is a place to go on
    assert name not in {each["name"] for each in before["experiments"]}
    assert Experiment.open(served.url, name).status().pulls == 2
    wrong(api.post("/experiments", json={"name": name, **ARMS}), 409, "experiment_exists")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "/", "../../etc/passwd", "a\nb", "a\0b", " ", " a", "a ", "y" * 201],
)
def test_a_name_that_no_path_could_carry_is_refused(api: httpx.Client, name: str) -> None:
    wrong(api.post("/experiments", json={"name": name, **ARMS}), 422, "invalid_input")


@pytest.mark.parametrize(
    "path",
    [
        "/experiments/..%2f..%2fetc%2fpasswd",
        "/experiments/%00",
        "/experiments/%ff%fe",
        "/experiments/a%2Fask",
        "/experiments/x/../y",
        "/experiments/%2e%2e/x",
        "/experiments/",
        "/experiments/x/",
        "/experiments//ask",
        "/experiments/nobody",
        "/experiments/" + "z" * 201,
        "/experiments/" + "z" * 15_000,
        "/nothing",
        "//evil.example/",
    ],
)
def test_what_is_not_there_is_said_in_the_one_shape(api: httpx.Client, path: str) -> None:
    response = api.get(httpx.URL(str(api.base_url)).copy_with(raw_path=b"/api/v1" + path.encode()))
    assert response.status_code in {404, 405, 422, 431}
    error = wrong(response, response.status_code, response.json()["error"]["kind"])
    assert "sqlite" not in json.dumps(error)
    assert len(response.content) < 3000


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"])
def test_other_methods_are_refused_and_no_other_site_is_let_in(
    api: httpx.Client, trial: str, method: str
) -> None:
    response = api.request(method, trial, headers={"Origin": "https://evil.example"})
    assert response.status_code == 405
    assert response.headers["allow"] == "GET"
    assert not any(name.startswith("access-control") for name in response.headers)
    wrong(response, 405, "method_not_allowed")


def test_the_head_of_an_answer_is_that_of_the_answer(api: httpx.Client, trial: str) -> None:
    root = str(api.base_url).removesuffix("/api/v1/")
    for path in (trial, "/experiments", f"{trial}/events", f"{root}/", "/experiments/nobody"):
        head, whole = api.head(path), api.get(path)
        assert head.content == b""
        assert whole.content
        assert head.status_code == whole.status_code
        changing = {"date"}
        assert {k: v for k, v in head.headers.items() if k not in changing} == {
            k: v for k, v in whole.headers.items() if k not in changing
        }
    # A stream has a head as well, and does not go on; what takes no GET has none.
    head = api.head(f"{trial}/stream")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert api.head(f"{trial}/ask").status_code == 405
    assert api.head(trial, headers={"Host": "evil.example"}).status_code == 421


def deep(text: str, depth: int) -> bytes:
    return text.encode() * depth


UNREADABLE = {
    "nothing in it": b"   ",
    "cut off": b'{"outcomes": [',
    "not UTF-8": b'{"reason": "\xff\xfe"}',
    "deep lists": b'{"outcomes": ' + deep("[", 100_000),
    "deep objects": b'{"outcomes": ' + deep('{"a":', 100_000),
    "closed deep lists": b'{"outcomes": ' + deep("[", 3000) + deep("]", 3000) + b"}",
    "NaN": b'{"outcomes": [{"id": 0, "reward": NaN}]}',
    "Infinity": b'{"outcomes": [{"id": 0, "reward": Infinity}]}',
    "a number without end": b'{"outcomes": [{"id": ' + b"9" * 5000 + b', "reward": 0}]}',
    "a name twice": b'{"outcomes": [{"id": 0, "reward": 1, "reward": 0}]}',
    "two documents": b'{"outcomes": []} {"outcomes": []}',
    "a byte order mark": b'\xef\xbb\xbf{"outcomes": []}',
    "too many names": json.dumps({str(i): 0 for i in range(2000)}).encode(),
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_not_plain_json_is_a_bad_request(
    api: httpx.Client, trial: str, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    response = api.post(f"{trial}/tell", content=body, headers=headers)
    if body.startswith(b"\xef\xbb\xbf"):  # harmless, and Windows programs write it
        assert response.status_code in {200, 400}
    else:
        wrong(response, 400, "bad_request")
    assert len(response.content) < 2000


INVALID: dict[str, Any] = {
    "a list": [],
    "a text": "x",
    "null": None,
    "no outcomes": {},
    "another name": {"outcomes": [], "more": 1},
    "text for a number": {"outcomes": [{"id": "0", "reward": 1}]},
    "true for an id": {"outcomes": [{"id": True, "reward": 1}]},
    "true as text": {"outcomes": [{"id": 0, "reward": "true"}]},
    "a fraction for an id": {"outcomes": [{"id": 0.5, "reward": 1}]},
    "a negative id": {"outcomes": [{"id": -1, "reward": 1}]},
    "an id beyond 63 bits": {"outcomes": [{"id": 2**63, "reward": 1}]},
    "a reward beyond doubles": {"outcomes": [{"id": 0, "reward": 10**400}]},
    "many faults": {"outcomes": [{}] * 50_000},
    "an infinite reward": {"outcomes": [{"id": 0, "reward": 1e200}]},
}


@pytest.mark.parametrize("body", INVALID.values(), ids=INVALID)
def test_json_of_another_form_is_invalid(api: httpx.Client, trial: str, body: object) -> None:
    api.post(f"{trial}/ask", json={})
    content = json.dumps(body).replace("1e+200", "1e400")
    response = api.post(
        f"{trial}/tell", content=content, headers={"Content-Type": "application/json"}
    )
    wrong(response, 422, "invalid_input")
    assert len(response.content) < 3000
    assert api.get(trial).json()["answered"] == 0


def test_an_id_that_was_never_given_out_is_unknown(api: httpx.Client, trial: str) -> None:
    for id_ in (0, 10**18):
        body = {"outcomes": [{"id": id_, "reward": 1}]}
        wrong(api.post(f"{trial}/tell", json=body), 404, "unknown_assignment")
    wrong(api.post(f"{trial}/fail", json={"ids": [5]}), 404, "unknown_assignment")


def test_half_a_character_is_refused_or_kept_as_something_that_can_be_sent(
    api: httpx.Client, trial: str
) -> None:
    headers = {"Content-Type": "application/json"}
    body = b'{"name": "lone \\ud800", "source": [[1, 0], [0, 1]]}'
    wrong(api.post("/experiments", content=body, headers=headers), 422, "invalid_input")
    labels = b'{"name": "lone", "source": [[1, 0], [0, 1]], "source_labels": ["\\udfff", "b"]}'
    wrong(api.post("/experiments", content=labels, headers=headers), 422, "invalid_input")
    wrong(
        api.post(f"{trial}/stop", content=b'{"reason": "\\ud800"}', headers=headers),
        422,
        "invalid_input",
    )


BAD_TRIALS: dict[str, dict[str, Any]] = {
    "one arm": {"source": [[1, 0]]},
    "no arm": {"source": []},
    "no feature": {"source": [[], []]},
    "ragged": {"source": [[1, 0], [1]]},
    "twins": {"source": [[1, 0], [1, 0]]},
    "text": {"source": [["a"], ["b"]]},
    "too many features": {"source": [[0.0] * 201] * 2},
    "too many arms": {"source": [[i] for i in range(10_001)]},
    "too many numbers": {"source": [[float(i)] * 101 for i in range(1000)]},
    "labels that do not fit": {"source_labels": ["a"]},
    "labels twice": {"source_labels": ["a", "a"]},
    "another dimension": {"target": [[1], [2]]},
    "not to be told apart": {"source": [[1, 0], [2, 0]], "target": [[0, 1], [0, 2]]},
    "certain": {"delta": 0},
    "delta of 5 %": {"delta": 5},
    "delta next to nothing": {"delta": 5e-324},
    "no scale": {"noise": 0, "baseline": 0},
    "a seed beyond 64 bits": {"seed": 2**64},
    "a negative seed": {"seed": -1},
    "no time": {"lease": 0},
    "no policy of ours": {"policy": "os:system"},
    "an own policy": {"policy": "bestarm.policies:AnytimeBAI"},
    "a long description": {"description": "x" * 10_001},
    "options in a list": {"options": [1]},
}


@pytest.mark.parametrize("change", BAD_TRIALS.values(), ids=BAD_TRIALS)
def test_a_trial_that_makes_no_sense_is_refused_and_leaves_nothing(
    api: httpx.Client, change: dict[str, Any]
) -> None:
    body = {"name": "senseless", "source": [[1, 0], [0, 1]], **change}
    response = api.post("/experiments", json=body)
    assert response.status_code == 422, response.text
    wrong(response, 422, response.json()["error"]["kind"])
    wrong(api.get("/experiments/senseless"), 404, "unknown_experiment")


NONSENSE = ["x", "", True, -1, 0, 2.5, 10**30, 10**400, 1e308, 5e-324, [], [1, 0], [[0, 1]]]
NONSENSE += [["a", "b"], [-1e308, 1e308], [None, None], {}, {"a": {"b": [{}]}}, [0] * 1000]
OPTIONS = {
    "anytime": ["bounds", "mean_bound", "top", "tolerance", "max_pulls", "missing"],
    "sp-bai": ["constants", "max_pulls"],
    "rage": ["tol", "max_pulls"],
    "lucb": ["max_pulls"],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that make no sense
@pytest.mark.parametrize("policy", [each.name for each in policies().values() if each.live])
def test_options_that_make_no_sense_are_refused_and_never_a_failure(
    api: httpx.Client, policy: str
) -> None:
    tried = [(name, value) for name in OPTIONS.get(policy, []) for value in NONSENSE]
    tried += [(name, 1) for name in ("nothing", "problem", "seed", "self")]
    for place, (name, value) in enumerate(tried):
        body = {"name": f"{policy} {place}", "source": [[1, 0], [0, 1]], "policy": policy}
        made = api.post("/experiments", json={**body, "options": {name: value}})
        if made.status_code != 201:
            wrong(made, 422, "invalid_input")
            continue
        given = api.post(f"/experiments/{policy} {place}/ask", json={"count": 2})
        assert given.status_code == 200, (name, value, given.text)
    infinite = '{"name": "inf", "source": [[1, 0], [0, 1]], "options": {"max_pulls": 1e400}}'
    headers = {"Content-Type": "application/json"}
    wrong(api.post("/experiments", content=infinite, headers=headers), 422, "invalid_input")


def test_other_processes_and_this_one_see_the_same_trials(
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


def test_a_phase_that_takes_long_to_close_keeps_nobody_from_looking(
    served: Served, api: httpx.Client, trial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = api.post(f"{trial}/ask", json={"count": 16}).json()["assignments"]
    inside, go_on = Event(), Event()
    update = AnytimeBAI.update

    def slow(self: AnytimeBAI, *args: Any, **kwargs: Any) -> None:
        inside.set()
        assert go_on.wait(PATIENCE)
        update(self, *args, **kwargs)

    monkeypatch.setattr(AnytimeBAI, "update", slow)
    outcomes = [{"id": each["id"], "reward": 1} for each in given]
    limits = httpx.Limits(max_connections=150)
    with served.client(limits=limits) as many, ThreadPoolExecutor(120) as threads:
        try:
            closing = threads.submit(many.post, f"{trial}/tell", json={"outcomes": outcomes})
            assert inside.wait(PATIENCE)
            # More than there are threads or connections: those who tell wait for the lock, those
            # who ask for the recommendation for the policy.
            waiting = [
                threads.submit(many.post, f"{trial}/tell", json={"outcomes": outcomes[:1]})
                for _ in range(60)
            ]
            waiting += [threads.submit(many.get, f"{trial}/recommendation") for _ in range(50)]
            latest = time.monotonic() + PATIENCE
            while not all(each.running() for each in waiting):
                assert time.monotonic() < latest
                time.sleep(0.01)
            for _ in range(20):
                assert api.get(trial).json()["answered"] == 16
                assert api.get("/experiments").status_code == 200
            assert not closing.done()
            assert not any(each.done() for each in waiting[60:])
        finally:
            go_on.set()
        assert closing.result().json()["recorded"] == 16
        assert {each.result().status_code for each in waiting} == {200}


def test_a_file_that_is_gone_is_no_place_to_keep_outcomes(tmp_path: Path) -> None:
    path, away = tmp_path / "trial.db", tmp_path / "away.db"
    with in_thread(f"sqlite:///{path}") as served, served.client() as api:
        for name in ("x", "y"):
            api.post("/experiments", json={"name": name, **ARMS})
        assert api.post("/experiments/y/ask", json={"count": 3}).status_code == 200
        sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        path.rename(away)
        gone = api.post("/experiments/y/ask", json={})
        error = wrong(gone, 503, "store_unavailable")
        assert str(tmp_path) not in json.dumps(error)
        assert "retry-after" in gone.headers
        # Another file with other trials in its place, of which one has the number of the first.
        with Experiment.create(f"sqlite:///{path}", "y", Problem([[1, 0], [0, 1]]), seed=0):
            pass
        served.tokens.clear()
        with served.client() as again:
            wrong(again.get("/experiments/x"), 404, "unknown_experiment")
            assert again.get("/experiments/y").json()["pulls"] == 0
            again.post("/experiments/y/ask", json={})
        assert Experiment.open(f"sqlite:///{path}", "y").status().pulls == 1


def test_a_failure_that_was_not_foreseen_has_the_shape_too(
    api: httpx.Client, trial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Experiment) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(Experiment, "pause", fail)
    response = api.post(f"{trial}/pause")
    wrong(response, 500, "unforeseen")
    assert "secret" not in response.text


@pytest.fixture(scope="module")
def app(served: Served) -> FastAPI:
    return create_app(served.url)


def test_every_route_has_an_example_and_says_what_can_go_wrong(app: FastAPI) -> None:
    schema = app.openapi()
    models = schema["components"]["schemas"]

    def has_example(content: dict[str, Any]) -> bool:
        kind = content.get("schema", {})
        names = [kind.get("$ref", ""), *(each.get("$ref", "") for each in kind.get("anyOf", []))]
        return "example" in content or any(
            models.get(name.rsplit("/", 1)[-1], {}).get("examples") for name in names
        )

    seen = 0
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            if not path.startswith("/api/"):
                continue
            seen += 1
            answers = operation["responses"]
            assert operation["summary"], path
            assert {"401", "403", "422", "429", "503"} <= set(answers), path
            assert operation["security"] == [{"HTTPBearer": []}], path
            for code, answer in answers.items():
                for kind, content in answer.get("content", {}).items():
                    if code.startswith("2"):
                        assert has_example(content), (method, path)
                    else:
                        assert kind == "application/json"
                        assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                assert has_example(content), (method, path)
    assert seen >= 13


def test_the_examples_are_true(app: FastAPI, api: httpx.Client) -> None:
    example = app.openapi()["components"]["schemas"]["CreateBody"]["examples"][0]
    CreateBody.model_validate(example)
    assert api.post("/experiments", json=example).status_code == 201
    given = api.post("/experiments/checkout/ask", json={"count": 2}).json()["assignments"]
    assert {each["label"] for each in given} <= set(example["source_labels"])


def test_the_description_is_for_those_who_may_look(served: Served) -> None:
    with served.client(Role.VIEW) as client:
        described = client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.")
    assert "/api/v1/experiments/{name}/tell" in described["paths"]


def test_a_trial_of_another_version_keeps_what_is_told_and_says_why_it_does_not_go_on(
    served: Served, api: httpx.Client, trial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = api.post(f"{trial}/ask", json={"count": 100}).json()["assignments"]
    monkeypatch.setattr(AnytimeBAI, "version", 7)
    with in_thread(served.url) as other, other.client() as elsewhere:
        outcomes = [{"id": each["id"], "reward": 1} for each in given]
        told = elsewhere.post(f"{trial}/tell", json={"outcomes": outcomes})
        error = wrong(told, 503, "replay")
        assert "version 7" in error["message"]
        assert error["remedy"].startswith("The outcomes sent are recorded.")
        assert elsewhere.get(trial).json()["outstanding"] == 0
    monkeypatch.undo()
    assert api.post(f"{trial}/ask", json={"count": 1}).json()["phase"] > 1
