"""A receiver of notifications, on a port of its own."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

__all__ = ["SECRET", "Receiver", "answering_with", "receiving", "verified"]

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
    path: str = "/hook?to=me"
    answer: Callable[[dict[str, Any]], int] = lambda _: 200
    arrived: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    @property
    def notifications(self) -> list[dict[str, Any]]:
        return [verified(*each) for each in self.arrived]


@contextmanager
def receiving(path: str = "/hook?to=me") -> Iterator[Receiver]:
    """A receiver that runs."""
    receiver = Receiver(path=path)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == receiver.path
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


@contextmanager
def answering_with(parts: Iterable[bytes], pause: float) -> Iterator[str]:
    """The address of a receiver that answers one request with these parts, one after another."""
    stop = Event()

    def answer() -> None:
        with suppress(OSError), listener.accept()[0] as connection:  # until nobody is there
            for part in parts:
                connection.sendall(part)
                if stop.wait(pause):
                    break

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            stop.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # if nobody came
            thread.join()
