"""What the API refuses: always in one shape, with the field, the value and a remedy in words."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from plan_processes import begin
from served import ARMS, JSON, Served, wrong

from bestarm.live import Experiment
from bestarm.policies.registry import policies

pytest_plugins = ("api_fixtures",)

API = "GET /api/v1/openapi.json describes it."
TELL = 'Send it, as in {"outcomes": [{"id": 0, "reward": 1}, {"id": 1, "reward": 0}]}.'
CREATE: dict[str, Any] = {"name": "page", "options": ["old", "new"]}
PLAN: dict[str, Any] = {"options": ["old", "new"]}
NAMES = [
    "Größe ✓ 好",
    'x"; DROP TABLE bestarm_experiments; --',
    "<img src=x onerror=alert(1)>",
    "%2e%2e",
    "a\\b",
    "..a",
    "a?b#c&d=e",
    "${7*7} {name}",
    "☃" * 200,
]


@pytest.mark.parametrize("name", NAMES)
def test_any_printable_name_is_a_name(api: httpx.Client, served: Served, name: str) -> None:
    assert api.post("/experiments", json={"name": name, **ARMS}).status_code == 201
    path = f"/experiments/{quote(name, safe='')}"
    assert len(api.post(f"{path}/ask", json={"count": 2}).json()["assignments"]) == 2
    assert api.get(path).json()["pulls"] == 2
    listed = api.get("/experiments", params={"limit": 1000}).json()["experiments"]
    assert name in {each["name"] for each in listed}
    rest = api.get("/experiments", params={"after": name}).json()  # any name is a place to go on
    assert name not in {each["name"] for each in rest["experiments"]}
    assert Experiment.open(served.url, name).status().pulls == 2
    wrong(api.post("/experiments", json={"name": name, **ARMS}), 409, "experiment_exists")


@pytest.mark.parametrize(
    "name",
    [".", "..", "a/b", "../../etc/passwd", "a\nb", "a\0b", " ", "a ", "\u202egn", "y" * 201],
)
def test_a_name_that_no_path_could_carry_is_refused(api: httpx.Client, name: str) -> None:
    wrong(api.post("/experiments", json={"name": name, **ARMS}), 422, "invalid_input")


@pytest.mark.parametrize(
    "path",
    [
        "/experiments/..%2f..%2fetc%2fpasswd",
        "/experiments/%00",
        "/experiments/%ff%fe",
        "/experiments/x/../y",
        "/experiments/",
        "/experiments/x/",
        "/experiments//ask",
        "/experiments/nobody",
        "/experiments/" + "z" * 201,
        "/experiments/" + "z" * 15_000,
        "//evil.example/",
    ],
)
def test_what_is_not_there_is_refused_in_the_one_shape(api: httpx.Client, path: str) -> None:
    response = api.get(httpx.URL(str(api.base_url)).copy_with(raw_path=b"/api/v1" + path.encode()))
    assert response.status_code in {404, 405, 422, 431}
    error = wrong(response, response.status_code, response.json()["kind"])
    assert "sqlite" not in json.dumps(error)
    assert len(response.content) < 3000


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused_and_no_other_site_is_let_in(
    api: httpx.Client, experiment: str, method: str
) -> None:
    response = api.request(method, experiment, headers={"Origin": "https://evil.example"})
    assert response.headers["allow"] == "GET"
    assert not any(name.startswith("access-control") for name in response.headers)
    wrong(response, 405, "method_not_allowed")


def test_paths_and_methods_in_words(api: httpx.Client, experiment: str) -> None:
    error = wrong(api.get("/experiment"), 404, "not_found")
    assert error["detail"] == "There is nothing at this address."
    assert error["remedy"] == "GET /api/v1/openapi.json lists what there is."
    error = wrong(api.get(f"{experiment}/ask"), 405, "method_not_allowed")
    assert (error["detail"], error["remedy"]) == ("GET is not allowed here.", "Allowed is POST.")


def test_the_head_of_an_answer_is_that_of_the_answer(api: httpx.Client, experiment: str) -> None:
    root = str(api.base_url).removesuffix("/api/v1/")
    for path in (experiment, f"{experiment}/events", f"{root}/", "/experiments/nobody"):
        head, whole = api.head(path), api.get(path)
        assert (head.content, head.status_code) == (b"", whole.status_code)
        assert whole.content
        for answer in (head, whole):
            del answer.headers["date"]
        assert head.headers == whole.headers
    assert api.head(f"{experiment}/ask").status_code == 405  # what takes no GET has none
    assert api.head(experiment, headers={"Host": "evil.example"}).status_code == 421


UNREADABLE = {
    "nothing in it": b"   ",
    "cut off": b'{"outcomes": [',
    "not UTF-8": b'{"reason": "\xff\xfe"}',
    "deep lists": b'{"outcomes": ' + b"[" * 100_000,
    "deep objects": b'{"outcomes": ' + b'{"a":' * 100_000,
    "closed deep lists": b'{"outcomes": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "NaN": b'{"outcomes": [{"id": 0, "reward": NaN}]}',
    "Infinity": b'{"outcomes": [{"id": 0, "reward": Infinity}]}',
    "a number without end": b'{"outcomes": [{"id": ' + b"9" * 5000 + b', "reward": 0}]}',
    "a name twice": b'{"outcomes": [{"id": 0, "reward": 1, "reward": 0}]}',
    "two documents": b'{"outcomes": []} {"outcomes": []}',
    "too many names": json.dumps({str(i): 0 for i in range(2000)}).encode(),
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_not_plain_json_is_a_bad_request(
    api: httpx.Client, experiment: str, body: bytes
) -> None:
    response = api.post(f"{experiment}/tell", content=body, headers=JSON)
    wrong(response, 400, "bad_request")
    assert len(response.content) < 2000


@pytest.mark.parametrize(
    ("path", "body", "message", "remedy"),
    [
        ("tell", {}, "`outcomes` is missing.", TELL),
        ("tell", {"id": 0, "reward": 1}, "`outcomes` is missing.", TELL),
        ("tell", [], "`body` must be a valid dictionary", API),
        (
            "tell",
            {"outcomes": [{"id": 0, "reward": "yes"}]},
            "`reward` must be a finite number of size at most 1e+100, or True or False; got 'yes'.",
            "Tell nothing until the outcome is known.",
        ),
        (
            "tell",
            {"outcomes": [{"id": 0, "reward": None}]},
            "`reward` must be a finite number",
            "Tell nothing until the outcome is known.",
        ),
        ("tell", {"outcomes": [{"id": 0}]}, "`outcomes.0.reward` is missing.", "Send it."),
        (
            "tell",
            {"outcomes": [{"id": 0, "reward": 1, "guardrails": {"reward": 0}}]},
            "The reward is not a value of a guardrail.",
            "Send it beside the `guardrails`.",
        ),
        (
            "tell",
            {"outcomes": [{"id": 0, "value": 1}]},
            "`outcomes.0.value` is not known.",
            "Known are id, unit, decision_point, guardrails, reward.",
        ),
        (
            "tell",
            {"outcomes": [{"id": 0, "reward": 1, "rewards": 1}]},
            "`outcomes.0.rewards` is not known.",
            "Did you mean reward?",
        ),
        (
            "tell",
            {"outcomes": [{"id": 1.5, "reward": 1}]},
            "`outcomes.0.id` must be a valid integer.",
            API,
        ),
        ("tell", {"outcomes": {}}, "`outcomes` must be a valid list.", API),
        ("ask", {"count": 0}, "`count` must be greater than or equal to 1.", API),
        ("ask", {"count": True}, "`count` must be a valid integer.", API),
        (
            "ask",
            {"unit": None},
            "`unit` must be a text or a whole number, or be left out.",
            "Null, as of a cookie that is missing, is nobody's name",
        ),
        (
            "ask",
            {"unit": "person-7", "decision_point": None},
            "`decision_point` must be a text or a whole number, or be left out.",
            "Null, as of",
        ),
        (
            "ask",
            {"covariates": [{"age": [1]}]},
            "`covariates['age']` must be a finite number; got [1].",
            "Leave out what is not known.",
        ),
        ("lease", {"lease": -3}, "`lease` must be positive; got -3.", "Give a number above 0."),
        (
            "lease",
            {"lease": [1]},
            "`lease` must be a finite number; got [1].",
            "Give a number.",
        ),
        ("stop", {"why": "x"}, "`why` is not known.", "Known are reason."),
        (
            "/experiments",
            CREATE | {"colour": 1},
            "`colour` is not known.",
            "Known are name, options,",
        ),
        ("/experiments", CREATE, "How large outcomes may be is not declared.", "Give the lowest"),
        ("/experiments", CREATE | {"polisy": 1}, "`polisy` is not known.", "Did you mean policy?"),
        (
            "/experiments",
            {"options": []},
            "`name` is missing.",
            'Send it, as in {"',
        ),
        (
            "/experiments",
            CREATE | {"name": 3},
            "`name` must be a valid string.",
            API,
        ),
        (
            "/experiments",
            CREATE | {"name": ""},
            "`name` must have at least 1 character.",
            API,
        ),
        (
            "/experiments",
            CREATE | {"policy": "os:system"},
            "`policy` must be one of 'anytime', 'sp-bai', 'sbe', ",
            "Choose one of these.",
        ),
        (
            "/experiments",
            CREATE | {"forecaster": "mine"},
            "`forecaster` must be 'default' or 'own'.",
            API,
        ),
        (
            "/experiments",
            {"name": "page", "source": [[1, 0], [1]]},
            "`source` could not be read as a table of numbers: its rows have from 1 to 2 entries.",
            "Give one row per arm, one number per feature",
        ),
        (
            "/experiments",
            CREATE | {"bounds": [0]},
            "`bounds` must have at least 2 items",
            API,
        ),
        ("/experiments", CREATE | {"bounds": [1, 0]}, "`bounds` must be two finite numbers", "For"),
        (
            "/experiments",
            CREATE | {"policy_options": {"bounds": [0, 1], "colour": "red"}},
            "The policy 'anytime' has no option 'colour'.",
            "Its options are bounds, ",
        ),
        (
            "/experiments",
            CREATE | {"delta": 0.95},
            "`delta` must lie in (0, 0.5]; got 0.95.",
            "It is the probability of an error. Did you mean 0.05?",
        ),
        ("/experiments", {"name": "page"}, "There are no options.", "Give their names"),
        ("/plan", PLAN | {"per_day": "few"}, "`per_day` must be a valid number.", API),
        ("/plan", PLAN | {"gap": "small"}, "`gap` must be a lead like 0.002", "A lead is positive"),
        (
            "/plan",
            PLAN | {"drift": ["wave"]},
            "`drift.0` must be 'none', 'sine', ",
            API,
        ),
        (
            "/plan",
            PLAN | {"visitor": 100},
            "`visitor` is not known.",
            "Did you mean visitors?",
        ),
        (
            "/plan",
            PLAN | {"source": [[1, "x"], [0, 1]]},
            "`source.0.1` must be a valid number.",
            API,
        ),
        ("/experiments?limit=x", None, "`limit` must be a valid integer", API),
        (
            "/experiments?limit=1001",
            None,
            "`limit` must be less than or equal to 1000.",
            API,
        ),
    ],
)
def test_the_first_fault_is_named_with_its_remedy(
    api: httpx.Client, experiment: str, path: str, body: object, message: str, remedy: str
) -> None:
    place = path if path.startswith("/") else f"{experiment}/{path}"
    sent = api.get(place) if body is None else api.post(place, json=body)
    error = wrong(sent, 422, "invalid_input")
    assert error["detail"].startswith(message)
    assert error["remedy"].startswith(remedy)
    if message.startswith("`"):
        assert error["field"] == message.split("`")[1]
    assert "be left out" not in message or error["value"] is None
    assert api.get(experiment).json()["pulls"] == 0


@pytest.mark.parametrize(
    ("body", "value"),
    [([], "[]"), ({}, None), ({"outcomes": "yes"}, "yes"), ({"outcomes": 1.5}, 1.5)],
)
def test_the_value_is_what_was_sent(
    api: httpx.Client, experiment: str, body: object, value: object
) -> None:
    error = wrong(api.post(f"{experiment}/tell", json=body), 422, "invalid_input")
    assert error["value"] == value


INVALID: dict[str, str] = {
    "null": "null",
    "true for an id": '{"outcomes": [{"id": true, "reward": 1}]}',
    "a negative id": '{"outcomes": [{"id": -1, "reward": 1}]}',
    "an id beyond 63 bits": f'{{"outcomes": [{{"id": {2**63}, "reward": 1}}]}}',
    "a reward beyond doubles": f'{{"outcomes": [{{"id": 0, "reward": {10**400}}}]}}',
    "an infinite reward": '{"outcomes": [{"id": 0, "reward": 1e400}]}',
    "many faults": json.dumps({"outcomes": [{}] * 50_000}),
}


@pytest.mark.parametrize("body", INVALID.values(), ids=INVALID)
def test_json_of_another_form_is_invalid(api: httpx.Client, experiment: str, body: str) -> None:
    api.post(f"{experiment}/ask", json={})
    response = api.post(f"{experiment}/tell", content=body, headers=JSON)
    wrong(response, 422, "invalid_input")
    assert len(response.content) < 3000
    assert api.get(experiment).json()["answered"] == 0


def test_half_a_character_is_refused(api: httpx.Client, experiment: str) -> None:
    for path, body in (
        ("/experiments", b'{"name": "lone \\ud800", "source": [[1, 0], [0, 1]]}'),
        ("/experiments", b'{"name": "lone", "options": ["\\udfff", "b"]}'),
        (f"{experiment}/stop", b'{"reason": "\\ud800"}'),
    ):
        wrong(api.post(path, content=body, headers=JSON), 422, "invalid_input")


BAD_EXPERIMENTS: dict[str, dict[str, Any]] = {
    "no feature": {"source": [[], []]},
    "twins": {"source": [[1, 0], [1, 0]]},
    "too many features": {"source": [[0.0] * 201] * 2},
    "too many arms": {"source": [[i] for i in range(10_001)]},
    "too many numbers": {"source": [[float(i)] * 101 for i in range(1000)]},
    "too many names": {"source": None, "options": [str(i) for i in range(400)]},
    "a seed beyond 64 bits": {"seed": 2**64},
    "no time": {"lease": 0},
    "an own policy": {"policy": "bestarm.policies:AnytimeBAI"},
    "a long description": {"description": "x" * 10_001},
    "options in a list": {"policy_options": [1]},
}


@pytest.mark.parametrize("change", BAD_EXPERIMENTS.values(), ids=BAD_EXPERIMENTS)
def test_an_experiment_that_makes_no_sense_is_refused_and_leaves_nothing(
    api: httpx.Client, change: dict[str, Any]
) -> None:
    body = {"name": "senseless", "source": [[1, 0], [0, 1]], "noise": 1}
    response = api.post("/experiments", json=body | change)
    wrong(response, 422, response.json()["kind"])
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
        options = {"noise": 1, "policy_options": {name: value}}
        made = api.post("/experiments", json=body | options)
        if made.status_code != 201:
            wrong(made, 422, "invalid_input")
            continue
        given = api.post(f"/experiments/{policy} {place}/ask", json={"count": 2})
        assert given.status_code == 200, (name, value, given.text)
    infinite = (
        '{"name": "inf", "options": ["a", "b"], "noise": 1, "policy_options": {"top": 1e400}}'
    )
    wrong(api.post("/experiments", content=infinite, headers=JSON), 422, "invalid_input")


def test_a_plan_that_is_refused_by_its_simulation_names_the_value(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin)
    error = wrong(api.post("/plan", json=PLAN | {"gap": 0.1, "block": 3}), 422, "invalid_input")
    assert (error["field"], error["value"]) == ("block", 3)
