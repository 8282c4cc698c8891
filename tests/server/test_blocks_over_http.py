"""Rounds of several options over HTTP: asked for, asked for again, shown."""

from __future__ import annotations

import httpx
from served import Served, wrong

from bestarm.live import Experiment
from bestarm.server.guard import Limits

pytest_plugins = ("api_fixtures",)

BODY = {
    "name": "taste",
    "source_labels": ["tea", "coffee", "water"],
    "options": {"bounds": [0, 1], "block": 3},
    "seed": 3,
}


def test_rounds_are_those_of_the_library_and_are_given_again_whatever_their_size_is_by_then(
    api: httpx.Client, served: Served
) -> None:
    """An option that drops out leaves the rounds; requests from before keep theirs."""
    assert api.post("/experiments", json=BODY).status_code == 201
    sent: dict[str, dict[str, object]] = {}
    sizes = set[int]()
    while api.get("/experiments/taste").json()["state"] == "running":
        key = str(len(sent))
        batch = api.post(
            "/experiments/taste/ask", json={"count": 5}, headers={"Idempotency-Key": key}
        ).json()
        sent[key] = batch
        rounds = [each["round"] for each in batch["assignments"]]
        assert rounds == sorted(rounds)
        assert len(set(rounds)) == 5
        sizes.add(len(rounds) // 5)
        # Coffee and tea are close, water is not.
        chance = {"tea": 55, "coffee": 80, "water": 5}
        outcomes = [
            {"id": each["id"], "reward": float(each["round"] * 37 % 100 < chance[each["label"]])}
            for each in batch["assignments"]
        ]
        assert api.post("/experiments/taste/tell", json={"outcomes": outcomes}).status_code == 200
    assert sizes == {2, 3}
    for key, batch in sent.items():
        header = {"Idempotency-Key": key}
        again = api.post("/experiments/taste/ask", json={"count": 5}, headers=header).json()
        assert again["assignments"] == batch["assignments"]
        other = api.post("/experiments/taste/ask", json={"count": 6}, headers=header)
        wrong(other, 409, "conflicting_request")
    message, status = (
        api.get(f"/experiments/taste{part}").json() for part in ("/recommendation", "")
    )
    with Experiment.open(served.url, "taste") as beside:
        answer = beside.recommendation()
        assert (message["label"], message["rounds"]) == ("coffee", answer.rounds)
        assert status["rounds"] == answer.rounds
        assert beside.verify().findings == ()


def test_a_request_gets_no_more_assignments_for_asking_in_rounds(api: httpx.Client) -> None:
    assert api.post("/experiments", json=BODY | {"name": "many"}).status_code == 201
    most = Limits().batch // 3
    refused = wrong(
        api.post("/experiments/many/ask", json={"count": most + 1}), 422, "invalid_input"
    )
    assert refused["field"] == "count"
    assert api.get("/experiments/many").json()["pulls"] == 0


def test_forecasts_do_not_go_with_blocks(api: httpx.Client) -> None:
    refused = wrong(
        api.post("/experiments", json=BODY | {"name": "else", "forecaster": "default"}),
        422,
        "invalid_input",
    )
    assert refused["field"] == "forecasts"
