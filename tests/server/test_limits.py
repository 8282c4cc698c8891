"""Too much, or for somebody else: refused in the one shape."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest
from databases import wait_until
from served import HEAD, JSON, Served, answer, create, get, in_thread, receipt, wrong

from bestarm.server.api import requests
from bestarm.server.guard import Limits
from bestarm.server.tokens import Role

TYPE = "Content-Type: application/json"
BODY = b'{"outcomes": []}'


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('limits') / 'store.db'}"


@pytest.fixture(scope="module")
def served(url: str) -> Iterator[Served]:
    limits = Limits(body=20_000, batch=50)
    with in_thread(url, limits=limits) as running, running.client() as client:
        create(client)
        yield running


def test_a_body_that_is_too_large_is_refused_with_or_without_its_length(served: Served) -> None:
    # Far more than sockets buffer: the answer must not be lost with the connection.
    with served.client() as client:
        for content in (b" " * 30_000_000, (b" " * 10_000 for _ in range(3000))):
            huge = client.post("/experiments/offer/tell", content=content, headers=JSON)
            assert huge.status_code == 413
            assert huge.json()["kind"] == "too_large"
            assert client.get("/experiments").status_code == 200
        pieces = iter([b'{"outco', b'mes": []}'])  # in pieces, but small
        told = client.post("/experiments/offer/tell", content=pieces, headers=JSON)
        assert told.json() == receipt()


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 99999999999999999999999", TYPE],
        ["Content-Length: -1", TYPE],
        ["Content-Length: x", TYPE],
        ["Content-Length: 1", "Content-Length: 2", TYPE],
        ["Transfer-Encoding: gzip", TYPE],
        ["Ho st: x"],
        ["Content-Length : 0"],
    ],
    ids=lambda lines: lines[0],
)
def test_a_head_that_is_not_http_is_refused(served: Served, lines: list[str]) -> None:
    raw = served.raw(served.post(*lines, "Connection: close") + b" ")
    assert raw.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"hello\r\n\r\n",
    ],
    ids=["TLS", "non-ASCII", "proxy", "words"],
)
def test_what_is_not_a_request_is_refused(served: Served, sent: bytes) -> None:
    assert served.raw(sent).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"X: " + b"a" * 40_000 + b"\r\n\r\n",
        HEAD + b"X: " + b"a" * 16_400 + b"\r\n\r\n",
        HEAD + b"".join(b"X%d: y\r\n" % i for i in range(2500)) + b"\r\n",
        b"GET /" + b"a" * 40_000 + HEAD[4:] + b"\r\n",
        HEAD + b"\r\n" + HEAD + b"X: " + b"a" * 40_000 + b"\r\n\r\n",
    ],
    ids=["whole", "just", "many", "whole path", "pipelined"],
)
def test_a_head_over_16_kb_is_refused_and_the_connection_closed(
    served: Served, sent: bytes
) -> None:
    *_, last = re.split(rb"(?=HTTP/1\.1 \d)", served.raw(sent))
    status, error = answer(last)
    assert (status, error["kind"]) == (431, "head_too_large")
    assert b"connection: close" in last.lower()


def test_a_head_of_15_kb_is_read(served: Served) -> None:
    raw = served.raw(HEAD + b"X: " + b"a" * 15_000 + b"\r\nConnection: close\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("swapped", [False, True])
def test_a_body_that_can_be_read_two_ways_is_refused(served: Served, swapped: bool) -> None:
    """One who goes by the length sees a second request where the other sees the body's end."""
    smuggled = b"GET /api/v1/experiments/offer HTTP/1.1\r\nHost: localhost\r\n\r\n"
    lines = [f"Content-Length: {5 + len(smuggled)}", "Transfer-Encoding: chunked"]
    raw = served.raw(
        served.post(*(lines[::-1] if swapped else lines), TYPE) + b"0\r\n\r\n" + smuggled
    )
    assert raw.count(b"HTTP/1.1 ") == 1  # and then the connection was closed
    assert raw.startswith(b"HTTP/1.1 400 ")


def test_a_body_that_cannot_be_read_is_refused(served: Served) -> None:
    raw = served.raw(served.post(TYPE, "Transfer-Encoding: chunked") + b"words\r\n")
    assert raw.startswith(b"HTTP/1.1 400 ")
    assert raw.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"Content-Type": "text/plain"}, "Content-Type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "Content-Type"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, "Content-Type"),
        ({"Content-Type": "application/jsonp"}, "Content-Type"),
        ({"Content-Type": ""}, "Content-Type"),
        (JSON | {"Content-Encoding": "gzip"}, "Content-Encoding"),
    ],
)
def test_only_json_as_it_is_is_read(served: Served, headers: dict[str, str], field: str) -> None:
    body = b'{"count": 1}'
    content = gzip.compress(body) if field == "Content-Encoding" else body
    with served.client() as client:
        refused = client.post("/experiments/offer/ask", content=content, headers=headers)
        good = {"Content-Type": "Application/JSON; charset=utf-8"}
        given = client.post("/experiments/offer/ask", content=body, headers=good)
    error = refused.json()
    found = refused.status_code, error["kind"], error["field"]
    assert found == (415, "unsupported_media_type", field)
    assert given.status_code == 200


def test_a_batch_has_an_end(served: Served) -> None:
    with served.client() as client:
        for path, body in (
            ("ask", {"count": 51}),
            ("ask", {"count": 10**30}),
            ("tell", {"outcomes": [{"id": i, "reward": 0} for i in range(51)]}),
            ("fail", {"ids": list(range(51))}),
        ):
            response = client.post(f"/experiments/offer/{path}", json=body)
            assert response.status_code == 422, path
            assert response.json()["kind"] == "invalid_input"


@pytest.mark.parametrize(
    ("path", "field", "item"),
    [("tell", "outcomes", {}), ("fail", "ids", "no id"), ("ask", "unit", None), ("ask", "x", 1)],
)
def test_the_items_of_a_body_are_counted_before_anything_is_made_of_them(
    served: Served, path: str, field: str, item: object
) -> None:
    with served.client() as client:
        refused = client.post(f"/experiments/offer/{path}", json={field: [item] * 51})
    error = wrong(refused, 422, "invalid_input")
    assert (error["field"], error["value"]) == (field, 51)
    assert error["detail"] == f"`{field}` comes to 51; one request may bring 50 at most."


def test_large_bodies_are_read_one_after_the_other(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes thirty times its size meanwhile."""
    reading, most, together = list[int](), list[int](), Event()

    def read(body: bytes) -> Any:
        reading.append(len(body))
        most.append(len(reading))
        if len(reading) > 1:
            together.set()
        together.wait(0.3)  # for another one, which must not come
        reading.pop()
        return json.loads(body)

    monkeypatch.setattr(requests, "read_json", read)
    with in_thread(url) as large, large.client(Role.TELL) as client, ThreadPoolExecutor() as pool:
        body = BODY + b" " * 200_000

        def tell(_: int) -> int:
            path = "/experiments/offer/tell"
            return client.post(path, content=body, headers=JSON).status_code

        assert list(pool.map(tell, range(4))) == [200] * 4
    assert most == [1] * 4


def test_the_form_to_sign_in_is_refused_before_all_of_it_has_come(served: Served) -> None:
    form = "Content-Type: application/x-www-form-urlencoded"
    head = f"POST /login HTTP/1.1\r\nHost: localhost\r\n{form}\r\nContent-Length: 19000\r\n\r\n"
    with served.connect() as connection:
        connection.sendall(head.encode() + b"x" * 11_000)  # and no more
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_slow_callers_do_not_keep_others_waiting(served: Served) -> None:
    with ExitStack() as slow, served.client() as client:
        for _ in range(30):
            slow.enter_context(served.connect()).sendall(b"GET /")
        assert client.get("/experiments").status_code == 200


def test_more_connections_than_the_limit_are_refused_until_others_close(url: str) -> None:
    with in_thread(url, limits=Limits(connections=5)) as served:
        address = f"{served.base}/api/v1/experiments"
        with ExitStack() as held:
            for _ in range(5):
                held.enter_context(served.connect())
            wait_until(lambda: get(address).status_code == 503)
        wait_until(lambda: get(address).status_code == 200)


@pytest.mark.parametrize(
    ("host", "fits"),
    [
        ("localhost:8000", True),
        ("LOCALHOST", True),
        ("127.0.0.1:9", True),
        ("127.255.255.254", True),
        ("[::1]:8000", True),
        ("[::1]", True),
        ("bestarm.localhost", False),
        ("xlocalhost", False),
        ("localhost.evil.org", False),
        ("localhost.", False),
        ("[localhost]", False),
        ("localhost]", False),
        ("localhost:80:80", False),
        ("localhost:evil", False),
        ("[::2]", False),
        ("128.0.0.1", False),
        ("127.0.0.1.evil.example", False),
        ("0.0.0.0", False),
        ("localhost@evil.example", False),
        ("", False),
    ],
)
def test_a_local_server_answers_for_no_other_name(served: Served, host: str, fits: bool) -> None:
    """A page elsewhere can have its own name lead here, and then be of the same site."""
    raw = served.raw(
        f"GET /api/v1/experiments HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    )
    assert (raw.split(b" ")[1] == b"200") == fits
    if not fits:
        assert answer(raw)[0] == 421


def test_names_that_are_allowed(url: str) -> None:
    def status(served: Served, host: str) -> int:
        headers = {"Host": host, "Authorization": f"Bearer {served.token(Role.VIEW)}"}
        return get(f"{served.base}/api/v1/experiments", headers=headers).status_code

    with in_thread(url, local=False, hosts=("Offers.example",)) as served:
        assert status(served, "offers.example") == 200
        assert status(served, "offers.EXAMPLE:443") == 200
        assert status(served, "localhost") == 200
        assert status(served, "evil.example") == 421
    with in_thread(url, local=False) as served:
        assert status(served, "whatever.example") == 200


def test_pages_of_other_sites_can_change_nothing(served: Served) -> None:
    """Not even with the visitor's token: browsers say where a request is from."""
    with served.client() as client:
        for site in ("cross-site", "same-site"):
            headers = {"Sec-Fetch-Site": site, "Origin": "https://evil.example"}
            refused = client.post("/experiments/offer/pause", headers=headers)
            assert refused.status_code == 403
            assert refused.json()["kind"] == "cross_site"
            assert not any(name.startswith("access-control") for name in refused.headers)
        assert client.get("/experiments/offer").json()["state"] == "running"
        own = client.post("/experiments/offer/resume", headers={"Sec-Fetch-Site": "same-origin"})
        assert own.status_code == 200


def test_every_answer_carries_what_protects_a_browser(served: Served) -> None:
    with served.client() as client:
        answers = [
            client.get("/experiments"),
            client.get("/nothing"),
            client.get("/experiments", headers={"Host": "evil.example"}),
            client.post("/experiments", content=b"x" * 30_000, headers=JSON),
        ]
    assert [each.status_code for each in answers] == [200, 404, 421, 413]
    for each in answers:
        assert "default-src 'none'" in each.headers["content-security-policy"]
        assert "script-src 'self'" in each.headers["content-security-policy"]
        assert each.headers["x-content-type-options"] == "nosniff"
        assert each.headers["x-frame-options"] == "DENY"
        assert "server" not in each.headers
