"""A server on a port of its own: in a thread of the test, in a forked process or in a new one."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from select import select
from threading import Thread
from typing import Any
from urllib.parse import quote

import httpx
import uvicorn
from forked_commands import ForkedCommand

from bestarm.live.store import Store
from bestarm.server.guard import Limits
from bestarm.server.serving import listen, uvicorn_config
from bestarm.server.tokens import Role, create_token

__all__ = [
    "ARMS",
    "HANG_TIMEOUT",
    "HEAD",
    "JSON",
    "PATIENT",
    "PROBLEM",
    "Served",
    "answer",
    "create",
    "forked",
    "get",
    "in_thread",
    "outcomes",
    "post",
    "wrong",
]

ARMS: dict[str, Any] = {"source": [[1, 0], [0, 1]], "policy_options": {"bounds": [0, 1]}, "seed": 1}


def receipt(**counted: int) -> dict[str, int]:
    """What telling outcomes is answered with; what is not named is 0."""
    names = ("recorded", "repeated", "late", "held", "values", "served")
    return dict.fromkeys(names, 0) | counted


# Tests are one caller that asks a lot, and a plan may have to compile first.
PATIENT = Limits(planning=480)
HANG_TIMEOUT = 120  # seconds after which what was awaited is thought never to come
JSON = {"Content-Type": "application/json"}
PROBLEM = {"type", "title", "status", "detail", "kind", "field", "value", "remedy"}
HEAD = b"GET /api/v1/experiments HTTP/1.1\r\nHost: localhost\r\n"  # to be sent by hand
# Nothing here is encrypted, and to read the certificates of all the world takes long.
_UNENCRYPTED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_BESTARM = [sys.executable, "-c", "from bestarm.cli import main; main()"]


@dataclass
class Served:
    """A server that runs, and clients for it."""

    url: str
    port: int
    tokens: dict[Role, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | ForkedCommand | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, role: Role | None = Role.MANAGE, **options: Any) -> httpx.Client:
        """A client that holds a token of this role, or none."""
        headers = {} if role is None else {"Authorization": f"Bearer {self.token(role)}"}
        return httpx.Client(
            base_url=f"{self.base}/api/v1",
            headers=headers,
            timeout=HANG_TIMEOUT,
            verify=_UNENCRYPTED,
            **options,
        )

    def token(self, role: Role) -> str:
        if role not in self.tokens:
            store = Store(self.url)
            self.tokens[role] = create_token(store, f"may {role.word}", role)
            store.close()
        return self.tokens[role]

    def connect(self) -> socket.socket:
        """A connection to it, for what no client would send."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANG_TIMEOUT)

    def post(self, *lines: str, path: str = "/experiments/offer/tell") -> bytes:
        """The head of a request as it goes over the wire, with these lines in it."""
        token = f"Authorization: Bearer {self.token(Role.TELL)}"
        head = [f"POST /api/v1{path} HTTP/1.1", "Host: localhost", token]
        return "\r\n".join([*head, *lines, "", ""]).encode()

    def raw(self, sent: bytes, *, drip: bytes = b"") -> bytes:
        """What is answered to these bytes, followed by more and more until there is an answer."""
        answer, latest = b"", time.monotonic() + HANG_TIMEOUT
        with self.connect() as connection, suppress(ConnectionError):  # closed on what came late
            connection.sendall(sent)
            while drip and not select([connection], [], [], 0.05)[0]:
                assert time.monotonic() < latest, "no answer, although it takes too long"
                connection.sendall(drip)
            while piece := connection.recv(65536):
                answer += piece
        return answer


def answer(raw: bytes) -> tuple[int, dict[str, Any]]:
    """Status and error of an answer as it came over the wire."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower(), raw
    error: dict[str, Any] = json.loads(body)
    assert set(error) == PROBLEM
    return int(head.split(b" ", 2)[1]), error


def wrong(response: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The error of a response, which must be of the one shape."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    error: dict[str, Any] = response.json()
    assert set(error) == PROBLEM
    assert (error["type"], error["status"], error["kind"]) == ("about:blank", status, kind)
    assert error["title"]
    assert error["detail"].endswith((".", "?", "…"))
    assert error["field"]
    assert error["remedy"].endswith((".", "?", "…", "bestarm.db"))
    return error


def create(client: httpx.Client, name: str = "offer", **body: Any) -> str:
    """The path of a new experiment."""
    made = client.post("/experiments", json={"name": name, **(body or ARMS)})
    assert made.status_code == 201, made.text
    return f"/experiments/{quote(name, safe='')}"


def outcomes(rewards: Mapping[int, float]) -> dict[str, Any]:
    """The body of a tell."""
    return {"outcomes": [{"id": id_, "reward": reward} for id_, reward in rewards.items()]}


def get(address: str, **options: Any) -> httpx.Response:
    """What is answered without a client."""
    return httpx.get(address, timeout=HANG_TIMEOUT, verify=_UNENCRYPTED, **options)


def post(address: str, **options: Any) -> httpx.Response:
    """What is answered to something sent without a client."""
    return httpx.post(address, timeout=HANG_TIMEOUT, verify=_UNENCRYPTED, **options)


@contextmanager
def in_thread(url: str, **settings: Any) -> Iterator[Served]:
    """A server in a thread; settings are those of `create_app`."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn_config(url, **{"limits": PATIENT, **settings}))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        served = Served(url, port)
        get(f"{served.base}/api/v1/experiments")  # answered once it has started
        yield served
    finally:
        server.handle_exit(signal.SIGTERM, None)
        thread.join(HANG_TIMEOUT)
        assert not thread.is_alive(), "the server did not stop"


@contextmanager
def forked(
    url: str, *options: str, port: int = 0, stderr: Any = None, fresh: bool = False
) -> Iterator[Served]:
    """`bestarm serve` where all is imported already; if `fresh`, as a user starts it, which takes
    seconds. It ends when the test is over, or is killed."""
    arguments = ("serve", "--store", url, "--port", str(port), *options)
    process: subprocess.Popen[str] | ForkedCommand
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        errors = (stderr or nowhere).fileno()
        if fresh:
            env = os.environ | {"PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(
                [*_BESTARM, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True, env=env
            )
        else:
            process = ForkedCommand(*arguments, stderr=errors)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://" in line, line
        served = Served(url, int(re.findall(r"http://.*?:(\d+)/", line)[0]), process=process)
        get(f"{served.base}/api/v1/experiments")  # it listens before it writes the line
        yield served
    finally:
        process.kill()
        process.communicate()
