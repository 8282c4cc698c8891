"""Guardrails over HTTP and on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from served import create, receipt, wrong

from bestarm import Experiment, Problem
from bestarm.live.watch.overview import overview
from bestarm.server.pages.panels import panels

pytest_plugins = ("api_fixtures",)

SHOP: dict[str, Any] = {
    "options": ["old", "new", "bold"],
    "policy_options": {"bounds": [0, 1], "control": "old"},
    "guardrails": {"refund": {"bounds": [0, 1], "worse_by": 0.05}},
    "seed": 3,
}


def test_guardrails_are_declared_told_and_shown(api: httpx.Client) -> None:
    place = create(api, **SHOP)
    for _ in range(12):
        given = api.post(f"{place}/ask", json={"count": 20}).json()["assignments"]
        told = [
            {"id": each["id"], "reward": each["id"] % 2, "guardrails": {"refund": each["arm"] == 2}}
            for each in given
        ]
        receipt = api.post(f"{place}/tell", json={"outcomes": told}).json()
        assert receipt["values"] == len(told)
    rows = api.get(f"{place}/guardrails").json()["guardrails"]
    states = {row["label"]: row["state"] for row in rows}
    assert states["bold"] == "retired"
    assert "old" not in states
    assert rows[1]["guardrail"]["action"] == "retire"
    kinds = [event["kind"] for event in api.get(f"{place}/events?limit=1000").json()["events"]]
    assert kinds.count("guardrail") == kinds.count("retired") == 1
    header = api.get(f"{place}/export").text.partition("\n")[0]
    assert header.split(",")[-1] == "refund"
    checks = api.get(f"{place}/health").json()["checks"]
    assert [each["level"] for each in checks if each["name"] == "guardrails"] == ["warning"]


def test_a_value_is_told_without_a_reward(api: httpx.Client) -> None:
    place = create(api, "alone", **SHOP)
    api.post(f"{place}/ask", json={"count": 2})
    alone = {"outcomes": [{"id": 0, "guardrails": {"refund": 1}}, {"id": 1, "reward": 1}]}
    expected = receipt(recorded=1, values=1)
    assert api.post(f"{place}/tell", json=alone).json() == expected
    neither = api.post(f"{place}/tell", json={"outcomes": [{"id": 0}]})
    assert wrong(neither, 422, "invalid_input")["detail"] == "`outcomes.0.reward` is missing."
    for value, message in ((1.5, "`refund` must lie between 0 and 1; got 1.5."), ("x", "")):
        told = {"outcomes": [{"id": 1, "guardrails": {"refund": value}}]}
        assert wrong(api.post(f"{place}/tell", json=told), 422, "invalid_input")[
            "detail"
        ].startswith(message)
    other = {"outcomes": [{"id": 0, "guardrails": {"refund": 0}}]}
    assert api.post(f"{place}/tell", json=other).status_code == 409


def test_the_page_has_a_panel_where_there_are_guardrails(tmp_path: Path) -> None:
    options = {"bounds": [0, 1], "control": "old"}
    problem = Problem(["old", "new", "bold"])
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Experiment.create(url, "plain", problem, policy_options=options) as plain:
        assert "guardrails" not in panels(overview(plain))
    rails = SHOP["guardrails"]
    with Experiment.create(url, "shop", problem, policy_options=options, guardrails=rails) as shop:
        assert "guardrails" not in panels(overview(shop))  # code comes first
        shop.fail(shop.ask()[0].id, "a robot")
        assert "not known yet" in panels(overview(shop))["guardrails"]
        for _ in range(10):
            for each in shop.ask(20):
                shop.tell(each.id, each.id % 2, refund=each.arm == 2)
        shown = panels(overview(shop))
        rows = {row.label: row.state for row in overview(shop).guardrails}
        assert rows["bold"] == "retired"
        assert "higher by more than the margin is retired" in shown["guardrails"]
        assert shown["guardrails"].count('data-target="') == 2
        assert "worse than the control in refund by more than 0.05" in shown["events"]
