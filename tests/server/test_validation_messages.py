"""What a request that cannot be understood is told: the field, the value and a remedy, in words."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from served import wrong

pytest_plugins = ("api_fixtures",)

API = "GET /api/v1/openapi.json describes it."
CREATE: dict[str, Any] = {"name": "page", "source_labels": ["old", "new"]}
PLAN: dict[str, Any] = {"source_labels": ["old", "new"]}


@pytest.mark.parametrize(
    ("path", "body", "message", "value", "remedy"),
    [
        ("tell", {}, "`outcomes` is missing.", None, "Send it."),
        ("tell", [], "`body` must be an object; got a list.", "[]", API),
        (
            "tell",
            {"outcomes": [{"id": 0, "reward": "yes"}]},
            '`outcomes.0.reward` must be true or false, or a number; got "yes".',
            "yes",
            "Send it without quotes if it is one.",
        ),
        (
            "tell",
            {"outcomes": [{"id": 0, "reward": None}]},
            "`outcomes.0.reward` must be true or false, or a number; got null.",
            None,
            API,
        ),
        ("tell", {"outcomes": [{"id": 0}]}, "`outcomes.0.reward` is missing.", None, "Send it."),
        (
            "tell",
            {"outcomes": [{"id": 0, "reward": 1, "rewards": 1}]},
            "`outcomes.0.rewards` is not known.",
            1,
            "Did you mean reward?",
        ),
        (
            "tell",
            {"outcomes": [{"id": 1.5, "reward": 1}]},
            "`outcomes.0.id` must be a whole number; got 1.5.",
            1.5,
            API,
        ),
        ("tell", {"outcomes": {}}, "`outcomes` must be a list; got an object.", "{}", API),
        ("ask", {"count": 0}, "`count` must be at least 1; got 0.", 0, "Send a larger number."),
        ("ask", {"count": True}, "`count` must be a whole number; got true.", True, API),
        (
            "ask",
            {"covariates": [{"age": [1]}]},
            "`covariates.0.age` must be a number, a text, true, false or null; got a list.",
            "[1]",
            API,
        ),
        ("lease", {"lease": -3}, "`lease` must be positive; got -3.", -3, "Give a number above 0."),
        ("stop", {"why": "x"}, "`why` is not known.", "x", "Known are reason."),
        (
            "lease",
            {"lease": [1]},
            "`lease` must be a number of seconds, or a time like 90s, 30m, 12h or 2d; got a list.",
            "[1]",
            API,
        ),
    ],
)
def test_bodies(
    api: httpx.Client,
    experiment: str,
    path: str,
    body: object,
    message: str,
    value: Any,
    remedy: str,
) -> None:
    error = wrong(api.post(f"{experiment}/{path}", json=body), 422, "invalid_input")
    assert error["message"] == message
    assert error["field"] == message.split("`")[1]
    assert error["value"] == value
    assert error["remedy"] == remedy


@pytest.mark.parametrize(
    ("path", "body", "message", "remedy"),
    [
        (
            "experiments",
            CREATE | {"colour": 1},
            "`colour` is not known.",
            "Known are name, source,",
        ),
        ("experiments", CREATE | {"polisy": 1}, "`polisy` is not known.", "Did you mean policy?"),
        ("experiments", {"source_labels": []}, "`name` is missing.", "Send it."),
        (
            "experiments",
            CREATE | {"name": 3},
            "`name` must be a text; got 3.",
            "Send it in quotes.",
        ),
        (
            "experiments",
            CREATE | {"name": ""},
            '`name` must be a text of at least 1 characters; got "".',
            "Send a longer text.",
        ),
        (
            "experiments",
            CREATE | {"policy": "best"},
            "`policy` must be one of anytime, sp-bai-sharp, ",
            API,
        ),
        (
            "experiments",
            CREATE | {"forecaster": "mine"},
            "`forecaster` must be 'default' or 'own'; got \"mine\".",
            API,
        ),
        (
            "experiments",
            {"name": "page", "source": [[1, 0], [1]]},
            "`source` could not be read as a table of numbers: its rows have from 1 to 2 entries.",
            "Give one row per arm, one number per feature",
        ),
        (
            "experiments",
            CREATE | {"bounds": [0]},
            "`bounds` must be a list of at least 2 entries; got a list.",
            "Send more entries.",
        ),
        ("experiments", CREATE | {"bounds": [1, 0]}, "`bounds` must be two finite numbers", "For"),
        (
            "experiments",
            CREATE | {"options": {"colour": "red"}},
            "The policy 'anytime' has no option 'colour'.",
            "Its options are bounds, ",
        ),
        (
            "experiments",
            CREATE | {"delta": 5},
            "`delta` must lie in (0, 0.5]; got 5.",
            "Did you mean 0.05?",
        ),
        (
            "experiments",
            CREATE | {"source_labels": ["old"]},
            "There is only one option, 'old'.",
            "Give at least two.",
        ),
        (
            "plan",
            PLAN | {"gap": "small"},
            '`gap` must be a number; got "small".',
            "Send it without",
        ),
        (
            "plan",
            PLAN | {"scenarios": [{"name": "a", "drift": {"kind": "wave"}}]},
            "`scenarios.0.drift.kind` must be 'none', 'sine', ",
            API,
        ),
        (
            "plan",
            PLAN | {"scenarios": [{"name": "a", "drift": {"kind": "sine", "sise": 1}}]},
            "`scenarios.0.drift.sise` is not known.",
            "Did you mean size?",
        ),
        (
            "plan",
            PLAN | {"scenarios": [{"name": "a", "theta": [1, "x"]}]},
            '`scenarios.0.theta.1` must be a number; got "x".',
            "Send it without quotes",
        ),
    ],
)
def test_bodies_of_new_experiments_and_plans(
    api: httpx.Client, path: str, body: object, message: str, remedy: str
) -> None:
    error = wrong(api.post(f"/{path}", json=body), 422, "invalid_input")
    assert error["message"].startswith(message)
    assert error["remedy"].startswith(remedy)


@pytest.mark.parametrize(
    ("query", "message", "remedy"),
    [
        ("limit=x", '`limit` must be a whole number; got "x".', API),
        ("limit=0", '`limit` must be at least 1; got "0".', "Send a larger number."),
        ("limit=1001", '`limit` must be at most 1000; got "1001".', "Send a smaller number."),
    ],
)
def test_queries(api: httpx.Client, query: str, message: str, remedy: str) -> None:
    error = wrong(api.get(f"/experiments?{query}"), 422, "invalid_input")
    assert (error["message"], error["field"], error["remedy"]) == (message, "limit", remedy)


def test_an_infinite_number(api: httpx.Client, experiment: str) -> None:
    body, kind = '{"outcomes": [{"id": 0, "reward": 1e400}]}', "application/json"
    answer = api.post(f"{experiment}/tell", content=body, headers={"Content-Type": kind})
    error = wrong(answer, 422, "invalid_input")
    assert error["remedy"] == "Send a smaller number."


def test_a_plan_that_is_refused_by_its_simulation_names_the_value(api: httpx.Client) -> None:
    error = wrong(api.post("/plan", json=PLAN | {"gap": 0.1, "block": 3}), 422, "invalid_input")
    assert (error["field"], error["value"]) == ("block", 3)
    body = PLAN | {"gap": 0.1, "bounds": [1, 0]}
    error = wrong(api.post("/plan", json=body), 422, "invalid_input")
    assert (error["field"], error["value"]) == ("bounds", "(1.0, 0.0)")


def test_paths_and_methods(api: httpx.Client, experiment: str) -> None:
    error = wrong(api.get("/experiment"), 404, "not_found")
    assert error["message"] == "There is nothing at this address."
    assert error["remedy"] == "GET /api/v1/openapi.json lists what there is."
    error = wrong(api.get(f"{experiment}/ask"), 405, "method_not_allowed")
    assert (error["message"], error["remedy"]) == ("GET is not allowed here.", "Allowed is POST.")
