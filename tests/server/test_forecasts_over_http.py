"""Forecasts over HTTP: what is known comes with the request."""

from __future__ import annotations

import csv
import json

import httpx
import pytest
from served import wrong

pytest_plugins = ("api_fixtures",)

BODY = {"source_labels": ["tea", "coffee"], "options": {"bounds": [0, 1]}}


def rows(api: httpx.Client, name: str) -> list[dict[str, str]]:
    text = api.get(f"/experiments/{name}/export").text
    return list(csv.DictReader(text.splitlines()))


def test_covariates_come_with_the_request_and_are_exported(api: httpx.Client) -> None:
    assert (
        api.post(
            "/experiments", json=BODY | {"name": "people", "forecaster": "default"}
        ).status_code
        == 201
    )
    known = [{"age": 31, "country": "CH", "member": True}, {"age": None}]
    asked = {"count": 2, "covariates": known}
    key = {"Idempotency-Key": "a"}
    given = api.post("/experiments/people/ask", json=asked, headers=key).json()["assignments"]
    assert [each["id"] for each in given] == [0, 1]
    again = api.post("/experiments/people/ask", json=asked, headers=key).json()["assignments"]
    assert again == given
    found = rows(api, "people")
    assert [json.loads(row["covariates"]) for row in found] == known
    assert all(0 <= float(row["forecast"]) <= 1 for row in found)


def test_forecasts_of_ones_own_come_with_the_request(api: httpx.Client) -> None:
    body = BODY | {"name": "own", "forecaster": "own", "policy": "bernstein"}
    assert api.post("/experiments", json=body).status_code == 201
    sent = api.post("/experiments/own/ask", json={"count": 2, "forecasts": [0.25, 7]})
    assert sent.status_code == 200
    assert [float(row["forecast"]) for row in rows(api, "own")] == [0.25, 1.0]
    refused = api.post("/experiments/own/ask", json={"count": 1})
    wrong(refused, 422, "invalid_input")


def test_what_cannot_be_used_is_refused(api: httpx.Client) -> None:
    wrong(
        api.post("/experiments", json=BODY | {"name": "bare", "forecaster": "mine"}),
        422,
        "invalid_input",
    )
    assert api.post("/experiments", json=BODY | {"name": "bare"}).status_code == 201
    for body in (
        {"covariates": [{"age": 31}]},
        {"forecasts": [0.5]},
        {"covariates": [{"age": [1]}]},
        {"covariates": [31]},
        {"forecasts": ["0.5"]},
    ):
        wrong(api.post("/experiments/bare/ask", json=body), 422, "invalid_input")
    assert api.get("/experiments/bare").json()["pulls"] == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1e999", "`covariates['age']` must be a finite number; got inf."),
        ("[1]", "must be a number, a text, true, false or null"),
        ('"' + "x" * 20_000 + '"', "A row of `covariates` is longer than 10,000 characters."),
    ],
)
def test_a_refused_covariate_is_named_with_its_fault(
    api: httpx.Client, value: str, message: str
) -> None:
    api.post("/experiments", json=BODY | {"name": "faults", "forecaster": "default"})
    sent = api.post(
        "/experiments/faults/ask",
        content=f'{{"covariates": [{{"age": {value}}}]}}',
        headers={"Content-Type": "application/json"},
    )
    wrong(sent, 422, "invalid_input")
    assert message in sent.json()["error"]["message"]
