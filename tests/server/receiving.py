"""A receiver of notifications, on a port of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

__all__ = ["SECRET", "Receiver", "receiving", "verified"]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # the example of Standard Webhooks
_PAGE = Path(__file__).parents[2] / "docs" / "self-host.md"


def verified(headers: dict[str, str], body: bytes, secret: str = SECRET) -> dict[str, Any]:
    """A notification as a receiver reads it, by the lines of the documentation."""
    [lines] = re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text(encoding="utf-8"), re.M | re.S)
    names: dict[str, Any] = {}
    exec(lines, names)
    found: dict[str, Any] = names["verified"](secret, headers, body)
    return found


@dataclass
class Receiver:
    """What arrived, in order; `answer` says with which status it is answered."""

    port: int = 0
    answer: Callable[[dict[str, Any]], int] = lambda _: 200
    arrived: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?to=me"

    @property
    def notifications(self) -> list[dict[str, Any]]:
        return [verified(*each) for each in self.arrived]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that runs."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/hook?to=me"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.arrived.append((headers, body))
            status = receiver.answer(verified(headers, body))
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
