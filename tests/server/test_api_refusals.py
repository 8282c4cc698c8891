"""Names, bodies and options: what is refused, always in one shape."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from served import ARMS, Served, wrong

from bestarm.live import Experiment
from bestarm.policies.registry import policies

pytest_plugins = ("api_fixtures",)


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


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused_and_no_other_site_is_let_in(
    api: httpx.Client, experiment: str, method: str
) -> None:
    response = api.request(method, experiment, headers={"Origin": "https://evil.example"})
    assert response.status_code == 405
    assert response.headers["allow"] == "GET"
    assert not any(name.startswith("access-control") for name in response.headers)
    wrong(response, 405, "method_not_allowed")


def test_the_head_of_an_answer_is_that_of_the_answer(api: httpx.Client, experiment: str) -> None:
    root = str(api.base_url).removesuffix("/api/v1/")
    for path in (
        experiment,
        "/experiments",
        f"{experiment}/events",
        f"{root}/",
        "/experiments/nobody",
    ):
        head, whole = api.head(path), api.get(path)
        assert head.content == b""
        assert whole.content
        assert head.status_code == whole.status_code
        changing = {"date"}
        assert {k: v for k, v in head.headers.items() if k not in changing} == {
            k: v for k, v in whole.headers.items() if k not in changing
        }
    # A stream has a head as well, and does not go on; what takes no GET has none.
    head = api.head(f"{experiment}/stream")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert api.head(f"{experiment}/ask").status_code == 405
    assert api.head(experiment, headers={"Host": "evil.example"}).status_code == 421


def deep(text: str, depth: int) -> bytes:
    return text.encode() * depth


UNREADABLE = {
    "nothing in it": b"   ",
    "cut off": b'{"outcomes": [',
    "not UTF-8": b'{"reason": "\xff\xfe"}',
    "deep lists": b'{"outcomes": ' + deep("[", 100_000),
    "deep objects": b'{"outcomes": ' + deep('{"a":', 100_000),
    "closed deep lists": b'{"outcomes": ' + deep("[", 100_000) + deep("]", 100_000) + b"}",
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
    api: httpx.Client, experiment: str, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    response = api.post(f"{experiment}/tell", content=body, headers=headers)
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
def test_json_of_another_form_is_invalid(api: httpx.Client, experiment: str, body: object) -> None:
    api.post(f"{experiment}/ask", json={})
    content = json.dumps(body).replace("1e+200", "1e400")
    response = api.post(
        f"{experiment}/tell", content=content, headers={"Content-Type": "application/json"}
    )
    wrong(response, 422, "invalid_input")
    assert len(response.content) < 3000
    assert api.get(experiment).json()["answered"] == 0


def test_an_id_that_was_never_given_out_is_unknown(api: httpx.Client, experiment: str) -> None:
    for id_ in (0, 10**18):
        body = {"outcomes": [{"id": id_, "reward": 1}]}
        wrong(api.post(f"{experiment}/tell", json=body), 404, "unknown_assignment")
    wrong(api.post(f"{experiment}/fail", json={"ids": [5]}), 404, "unknown_assignment")


def test_half_a_character_is_refused_or_kept_as_something_that_can_be_sent(
    api: httpx.Client, experiment: str
) -> None:
    headers = {"Content-Type": "application/json"}
    body = b'{"name": "lone \\ud800", "source": [[1, 0], [0, 1]]}'
    wrong(api.post("/experiments", content=body, headers=headers), 422, "invalid_input")
    labels = b'{"name": "lone", "source": [[1, 0], [0, 1]], "source_labels": ["\\udfff", "b"]}'
    wrong(api.post("/experiments", content=labels, headers=headers), 422, "invalid_input")
    wrong(
        api.post(f"{experiment}/stop", content=b'{"reason": "\\ud800"}', headers=headers),
        422,
        "invalid_input",
    )


BAD_EXPERIMENTS: dict[str, dict[str, Any]] = {
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


@pytest.mark.parametrize("change", BAD_EXPERIMENTS.values(), ids=BAD_EXPERIMENTS)
def test_an_experiment_that_makes_no_sense_is_refused_and_leaves_nothing(
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
