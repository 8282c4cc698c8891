"""Requests that can be read in more than one way, as they go over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sent_by_hand import HEAD, answer, request
from served import ARMS, Served, in_thread


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path_factory.mktemp('protocol') / 'store.db'}"
    with in_thread(url) as running, running.client() as client:
        client.post("/experiments", json={"name": "offer", **ARMS})
        yield running


CLOSING = HEAD + b"Connection: close\r\n\r\n"
JSON = "Content-Type: application/json"
BODY = b'{"outcomes": []}'


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_another_protocol_is_refused_and_the_connection_closed(
    served: Served, protocol: str
) -> None:
    """What follows the head of such a request would be read as another request."""
    proposal = ["Connection: Upgrade", f"Upgrade: {protocol}"]
    sent = request(served, JSON, *proposal, f"Content-Length: {len(BODY)}")
    raw = served.raw(sent + BODY + CLOSING)
    assert raw.count(b"HTTP/1.1 4") == raw.count(b"HTTP/1.1 400 ") == 1
    assert b"HTTP/1.1 200 " not in raw
    status, error = answer(raw)
    assert (status, error["field"]) == (400, "Upgrade")


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Host: localhost\r\n\r\n",
        HEAD + b"Host: evil.example\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=["host twice", "two hosts", "encoded twice"],
)
def test_what_proxies_read_in_different_ways_is_refused(served: Served, sent: bytes) -> None:
    raw = served.raw(sent)  # to its end: the connection is closed
    status, error = answer(raw)
    assert (status, error["kind"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "sent",
    [b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"hello\r\n\r\n"],
    ids=["proxy", "words"],
)
def test_what_is_not_a_request_is_refused(served: Served, sent: bytes) -> None:
    assert served.raw(sent).startswith(b"HTTP/1.1 400 ")


def test_a_body_that_cannot_be_read_is_refused(served: Served) -> None:
    raw = served.raw(request(served, JSON, "Transfer-Encoding: chunked") + b"words\r\n")
    assert raw.startswith(b"HTTP/1.1 400 ")
    assert raw.count(b"HTTP/1.1 ") == 1
