"""How many connections there may be, and whose give way."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from sent_by_hand import HEAD, answer, request
from served import ARMS, PATIENCE, Served, get, in_thread

from bestarm.server.security.limits import Limits


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('connections') / 'store.db'}"


@contextmanager
def opened(served: Served) -> Iterator[Callable[..., socket.socket]]:
    """Makes connections from an address of this machine, with something sent over them."""
    with ExitStack() as stack:

        def connect(send: bytes = b"", *, source: str = "127.0.0.1") -> socket.socket:
            made = socket.create_connection(
                ("127.0.0.1", served.port), timeout=PATIENCE, source_address=(source, 0)
            )
            stack.enter_context(made)
            made.sendall(send)
            return made

        yield connect


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side closes, or resets what it did not read to its end."""
    raw = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            raw += piece
    return raw


ASKING = HEAD + b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def crowded(url: str) -> Iterator[Served]:
    """A server that takes few connections, and has time for slow ones."""
    limits = Limits(
        rate=1e6, burst=1_000_000, seconds=300.0, connections=40, connections_per_address=25
    )
    with in_thread(url, limits=limits) as running, running.client() as client:
        client.post("/experiments", json={"name": "offer", **ARMS})
        yield running


def busy(served: Served) -> bytes:
    """A request whose body is not there yet: it cannot be closed as idle."""
    head = ["Content-Type: application/json", "Content-Length: 500", "Expect: 100-continue"]
    return request(served, *head)


def await_begun(connection: socket.socket) -> socket.socket:
    """Until a request is being answered: its body is asked for."""
    assert connection.recv(65536).startswith(b"HTTP/1.1 100")
    return connection


@pytest.mark.parametrize("sent", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: loc"])
def test_idle_connections_of_one_address_keep_nobody_out(crowded: Served, sent: bytes) -> None:
    with opened(crowded) as connect:
        idle = [connect(sent) for _ in range(120)]
        for source in ("127.0.0.1", "127.0.0.2"):
            assert received(connect(ASKING, source=source)).startswith(b"HTTP/1.1 200 ")
        # The oldest were closed, one for each that came when there was no room.
        assert received(idle[0]) == b""


def test_a_connection_that_was_used_and_idles_gives_way_too(crowded: Served) -> None:
    with opened(crowded) as connect:
        kept = []
        for _ in range(40):
            kept.append(connect(HEAD + b"\r\n", source="127.0.0.3"))
            assert kept[-1].recv(65536).startswith(b"HTTP/1.1 200 ")
        assert received(connect(ASKING)).startswith(b"HTTP/1.1 200 ")


def test_one_address_has_a_part_of_all_connections(crowded: Served) -> None:
    with opened(crowded) as connect:
        for _ in range(25):
            await_begun(connect(busy(crowded)))
        status, error = answer(received(connect(ASKING)))
        assert (status, error["kind"]) == (503, "too_many_connections")
        assert "this address" in error["message"]
        assert received(connect(ASKING, source="127.0.0.2")).startswith(b"HTTP/1.1 200 ")


def test_connections_have_an_end(crowded: Served) -> None:
    with opened(crowded) as connect:
        for number in range(40):
            await_begun(connect(busy(crowded), source=f"127.0.0.{2 + number // 20}"))
        status, error = answer(received(connect(ASKING)))
        assert (status, error["kind"]) == (503, "too_many_connections")
    latest = time.monotonic() + PATIENCE
    found = 503
    while found == 503 and time.monotonic() < latest:
        found = get(f"{crowded.base}/api/v1/experiments").status_code
    assert found == 200
