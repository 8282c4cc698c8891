"""After the end, over HTTP: the option that is served, what is told of it, and how it is cached."""

from __future__ import annotations

import httpx
import pytest
from served import Served, create, outcomes, wrong

from bestarm.server.tokens import Role

pytest_plugins = ("api_fixtures",)


@pytest.fixture
def over(api: httpx.Client, request: pytest.FixtureRequest) -> str:
    """A stopped experiment with a control."""
    options = {"bounds": [0, 1], "control": "old"}
    path = create(api, request.node.name, options=["new", "old"], policy_options=options)
    api.post(f"{path}/ask", json={"count": 4})
    api.post(f"{path}/stop")
    return path


def test_a_program_needs_no_branch_for_the_end(api: httpx.Client, over: str) -> None:
    before = api.get(over).json(), api.get(f"{over}/events").json()
    given = api.post(f"{over}/ask", json={"count": 2}).json()
    assert given["state"] == "stopped"
    for each in given["assignments"]:
        assert (each["id"], each["label"], each["arm"]) == (None, "old", 1)
        assert each["experiment"] is False
    told = [{"id": each["id"], "reward": 1} for each in given["assignments"]]
    receipt = api.post(f"{over}/tell", json={"outcomes": told}).json()
    assert (receipt["recorded"], receipt["late"], receipt["served"]) == (0, 0, 2)
    failed = api.post(f"{over}/fail", json={"ids": [each["id"] for each in given["assignments"]]})
    assert failed.status_code == 200
    assert (api.get(over).json(), api.get(f"{over}/events").json()) == before
    mixed = api.post(f"{over}/tell", json={"outcomes": [*told, {"id": 0, "reward": 1}]}).json()
    assert (mixed["recorded"], mixed["late"], mixed["served"]) == (1, 1, 2)


def test_what_is_served_can_be_cached(api: httpx.Client, over: str) -> None:
    served = api.get(f"{over}/served")
    assert served.json() == {"label": "old", "arm": 1, "state": "stopped", "experiment": False}
    assert served.headers["cache-control"] == "private, max-age=3600"
    again = api.get(f"{over}/served", headers={"If-None-Match": served.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == served.headers["cache-control"]
    other = api.get(f"{over}/served", headers={"If-None-Match": '"another"'})
    assert other.json() == served.json()


def test_before_the_end_nothing_is_served(api: httpx.Client, experiment: str) -> None:
    for state in ("running", "paused"):
        if state == "paused":
            api.post(f"{experiment}/pause")
        answer = api.get(f"{experiment}/served")
        error = wrong(answer, 409, "not_over")
        assert (error["field"], error["value"]) == ("state", state)
        assert "max-age" not in answer.headers["cache-control"]
    assert api.post(f"{experiment}/ask", json={}).json()["assignments"] == []
    error = wrong(
        api.post(f"{experiment}/tell", json={"outcomes": [{"id": None, "reward": 1}]}),
        422,
        "invalid_input",
    )
    assert error["field"] == "id"


def test_who_may_not_ask_learns_nothing(served: Served, over: str) -> None:
    with served.client(Role.VIEW) as viewer:
        wrong(viewer.get(f"{over}/served"), 403, "forbidden")
        wrong(viewer.post(f"{over}/ask", json={}), 403, "forbidden")
        wrong(viewer.post(f"{over}/tell", json=outcomes({})), 403, "forbidden")
