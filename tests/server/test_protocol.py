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


@pytest.mark.parametrize("split", [0, 40, -len(BODY), -3])
def test_another_protocol_is_not_taken_up(served: Served, split: int) -> None:
    """Some clients propose HTTP/2 with their first request; its body is that of the request."""
    proposal = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AA"]
    sent = request(served, JSON, *proposal, f"Content-Length: {len(BODY)}") + BODY
    with served.connect() as connection:
        connection.sendall(sent[:split])
        if split:
            assert served.raw(CLOSING).startswith(b"HTTP/1.1 200 ")  # it has read that part
        connection.sendall(sent[split:] + CLOSING)
        raw = b""
        while piece := connection.recv(65536):
            raw += piece
    assert raw.count(b"HTTP/1.1 ") == raw.count(b"HTTP/1.1 200 ") == 2
    assert b'{"recorded":0,"repeated":0,"late":0}' in raw


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_another_protocol_is_not_taken_up_by_one_who_closes(served: Served, protocol: str) -> None:
    proposal = ["Connection: Upgrade, close", f"Upgrade: {protocol}"]
    sent = request(served, JSON, *proposal, f"Content-Length: {len(BODY)}") + BODY
    with served.connect() as connection:
        connection.sendall(sent)
        raw = b""
        while piece := connection.recv(65536):
            raw += piece
    assert raw.count(b"HTTP/1.1 ") == raw.count(b"HTTP/1.1 200 ") == 1
    assert raw.endswith(b'{"recorded":0,"repeated":0,"late":0}')


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Host: localhost\r\n\r\n",
        HEAD + b"Host: evil.example\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["host twice", "two hosts", "encoded twice", "proxy"],
)
def test_what_proxies_read_in_different_ways_is_refused(served: Served, sent: bytes) -> None:
    raw = served.raw(sent)  # to its end: the connection is closed
    status, error = answer(raw)
    assert (status, error["kind"]) == (400, "bad_request")


def test_what_comes_before_something_unreadable_is_answered(served: Served) -> None:
    raw = served.raw(HEAD + b"\r\n" + b"hello\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 200 ")
    assert raw.count(b"HTTP/1.1 ") == 1


def test_a_body_that_cannot_be_read_is_refused(served: Served) -> None:
    raw = served.raw(request(served, JSON, "Transfer-Encoding: chunked") + b"words\r\n")
    assert raw.count(b"HTTP/1.1 ") == 1
    status, error = answer(raw)
    assert (status, error["kind"]) == (400, "bad_request")
