"""Each role can do exactly its part, on every route there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from served import ARMS, HANG_TIMEOUT, Served, get, in_thread, post
from starlette.routing import BaseRoute

from bestarm.live.store import Store
from bestarm.server import create_app
from bestarm.server.api.requests import COOKIE, role_needed
from bestarm.server.pages.routes import PUBLIC
from bestarm.server.tokens import Role, create_view_session

Call = Callable[..., httpx.Response]
# Bodies that the API takes; a route with another needs its own here.
BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/experiments": {"name": "another", **ARMS},
    "/api/v1/experiments/{name}/ask": {"count": 1},
    "/api/v1/experiments/{name}/tell": {"outcomes": []},
    "/api/v1/experiments/{name}/fail": {"ids": []},
    "/api/v1/experiments/{name}/lease": {"lease": 60},
    "/api/v1/experiments/{name}/add": {"option": "video"},
    "/api/v1/experiments/{name}/retire": {"option": "video", "reason": "refunds"},
    "/api/v1/experiments/{name}/erase": {"unit": "visitor-81"},
    "/api/v1/experiments/{name}/stop": {"reason": "enough"},
    "/api/v1/plan": {"runs": 0},  # refused, once it may be asked
}


def walk(routes: list[BaseRoute]) -> Iterator[BaseRoute]:
    for route in routes:
        inner = getattr(route, "original_router", None)  # of a router that was included
        if inner is None:
            yield route
        else:
            yield from walk(inner.routes)


def guarded(app: FastAPI) -> list[tuple[str, str, Role]]:
    """Method, path and role of every route that is not public; a route without a role fails."""
    found = []
    for route in walk(app.routes):
        path = getattr(route, "path", "")
        if path in PUBLIC:
            continue
        assert isinstance(route, APIRoute), f"{route} can be reached without a role"
        role = role_needed(route)
        assert role is not None, (
            f"{path} names no role: give it `dependencies=[Depends(RequireRole(…))]`"
        )
        found += [(method, path, role) for method in sorted(route.methods or ())]
    return found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('roles') / 'store.db'}"


@pytest.fixture(scope="module")
def routes(url: str) -> list[tuple[str, str, Role]]:
    return guarded(create_app(url))


@pytest.fixture(scope="module", params=["local", "elsewhere"])
def served(url: str, request: pytest.FixtureRequest) -> Iterator[Served]:
    with in_thread(url, local=request.param == "local") as running:
        with running.client() as client:
            client.post("/experiments", json={"name": "offer", **ARMS})  # or it is there
        yield running


@pytest.fixture(scope="module")
def call(served: Served) -> Iterator[Call]:
    with httpx.Client(base_url=served.base, timeout=HANG_TIMEOUT) as client:

        def send(method: str, path: str, **options: Any) -> httpx.Response:
            client.cookies.clear()
            body = BODIES.get(path) if method == "POST" else None
            address = path.replace("{name}", "offer")
            return client.request(method, address, json=body, **options)

        yield send


def test_the_table_of_roles(routes: list[tuple[str, str, Role]]) -> None:
    api = {(m, p.removeprefix("/api/v1")): role for m, p, role in routes if p.startswith("/api/")}
    experiment = "/experiments/{name}"
    telling = {("POST", f"{experiment}/{what}") for what in ("ask", "tell", "fail")}
    telling.add(("GET", f"{experiment}/served"))
    verbs = ("pause", "resume", "lease", "describe", "erase", "add", "retire", "stop")
    managing = {("POST", f"{experiment}/{what}") for what in verbs}
    managing |= {("POST", "/experiments"), ("DELETE", experiment)}
    for route, role in api.items():
        if route in managing:
            assert role is Role.MANAGE, route
        elif route in telling or route == ("POST", "/plan"):
            assert role is Role.TELL, route
        else:
            assert route[0] == "GET", route
            assert role is Role.VIEW, route
    assert telling | managing <= set(api)
    assert len(api) >= 14


def test_each_role_can_do_its_part_and_no_more(
    served: Served, call: Call, routes: list[tuple[str, str, Role]]
) -> None:
    for method, path, role in routes:
        for mine in Role:
            headers = {"Authorization": f"Bearer {served.token(mine)}"}
            response = call(method, path, headers=headers)
            if mine >= role:
                assert response.status_code not in {401, 403}, (method, path, mine)
                assert response.status_code < 500, (method, path, mine)
            else:
                assert response.status_code == 403, (method, path, mine)


@pytest.mark.parametrize("written", ["{}", "Token {}", "{} Bearer"])
def test_a_token_without_the_word_bearer_is_refused_as_such(served: Served, written: str) -> None:
    token = served.token(Role.MANAGE)
    path = f"{served.base}/api/v1/experiments"
    headers = {"Authorization": written.format(token)}
    refused = post(path, json={"name": "another", **ARMS}, headers=headers)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    error = refused.json()
    assert error["detail"] == "The header Authorization does not have the form `Bearer TOKEN`."
    assert error["remedy"] == "Write the word Bearer and a space before the token."
    assert token not in refused.text


def test_without_a_valid_token_one_may_look_from_here_and_do_nothing_from_elsewhere(
    served: Served,
    call: Call,
    routes: list[tuple[str, str, Role]],
    request: pytest.FixtureRequest,
) -> None:
    local = "local" in request.node.name
    number, secret = served.token(Role.MANAGE).split("-", 2)[1:]
    wrong = [
        "Bearer x",
        "Bearer bestarm-1-",
        f"Bearer bestarm-{number}-{secret[:-1]}",
        f"Bearer bestarm-{number}-{secret}x",
        f"Bearer bestarm-{int(number) + 1}-{secret}",
        f"Bearer bestarm-999999999-{secret}",
        f"Bearer bestarm-{'9' * 30}-{secret}",
        f"Bearer bestarm-{number}'-{secret}",
    ]
    for method, path, role in routes:
        looking = local and role is Role.VIEW
        bare = call(method, path)
        if looking:
            assert bare.status_code not in {401, 403}, path
        elif path.startswith("/api/"):
            expected = (403, "forbidden") if local else (401, "unauthorized")
            assert (bare.status_code, bare.json()["kind"]) == expected, path
            assert ("www-authenticate" in bare.headers) == (not local)
        else:
            assert bare.status_code in {303, 401, 403}, path  # a page asks for a token
        # A token that is wrong is not the same as none, even where none is needed.
        if path.startswith("/api/"):
            for text in wrong[:2] if path != "/api/v1/experiments" else wrong:
                refused = call(method, path, headers={"Authorization": text})
                assert refused.status_code == 401, (path, text)
                assert refused.json()["kind"] == "unauthorized"


def test_a_session_in_the_cookie_or_a_token_in_the_address_changes_nothing(
    served: Served, call: Call, routes: list[tuple[str, str, Role]]
) -> None:
    token, store = served.token(Role.MANAGE), Store(served.url)
    made = create_view_session(store, token)
    store.close()
    for method, path, role in routes:
        kept = call(method, path, headers={"Cookie": f"{COOKIE}={made}"})
        if role is Role.VIEW:
            assert kept.status_code not in {401, 403}, path
        else:
            assert kept.status_code == 403, path
            asked = call(method, path, params={"token": token, "access_token": token})
            assert asked.status_code in {401, 403}, path


def test_a_proxy_on_this_machine_does_not_let_the_world_look(call: Call) -> None:
    for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        response = call("GET", "/api/v1/experiments", headers={header: "203.0.113.7"})
        assert response.status_code == 401, header


def test_nothing_is_said_about_experiments_to_those_who_may_not_look(url: str) -> None:
    with in_thread(url, local=False) as served:
        known = get(f"{served.base}/api/v1/experiments/offer")
        unknown = get(f"{served.base}/api/v1/experiments/nobody")
        assert known.content == unknown.content
        body = b"\xff" * 100_000  # not read: the answer is the same as to a good body
        headers = {"Content-Type": "application/json"}
        bad = post(f"{served.base}/api/v1/experiments/offer/tell", content=body, headers=headers)
        assert bad.status_code == 401


def test_a_route_without_a_role_would_be_noticed(url: str) -> None:
    app = create_app(url)
    app.add_api_route("/api/v1/open", lambda: None)
    with pytest.raises(AssertionError, match="/api/v1/open names no role"):
        guarded(app)
