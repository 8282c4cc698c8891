"""How long single outcomes take over HTTP, apart from the assignments asked for between them.

    python -m benchmarks.latencies [--seconds 10] [--rounds 5] [--connections 16]
        [--folder FOLDER] [--no-page]

As in `benchmarks.server`, the experiment's policy is the anytime rule, whose phases close as
outcomes come in, a page follows it unless told otherwise, and every request is answered after its
outcomes are on the disk of the folder. There, wrk reports one time for all requests. Here, a client
in this process sends each connection's next request once it has the answer to the last: `tell` with
one outcome, or `ask` for 200 assignments where fewer than 100 are left to half of the connections.
Every round is a new experiment on the same server; its figures are those of one kind of request.
"""

from __future__ import annotations

import argparse
import random
import re
import selectors
import socket
import statistics
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.server import LOT, WARMING, begin, serving
from bestarm.live.store.sql import Store
from bestarm.server.security.tokens import Role, create_token

Times = dict[str, list[float]]
GROUPS = 2  # of connections that share assignments, as wrk's threads do
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_ID = re.compile(rb'"id":(\d+)')


@dataclass
class Group:
    """The assignments that some connections share."""

    ids: deque[int] = field(default_factory=deque)
    asking: bool = False


class Client:
    """One connection, with at most one request under way."""

    def __init__(self, base: str, path: str, token: str, group: Group) -> None:
        place = urlsplit(base)
        self.socket = socket.create_connection((place.hostname, place.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = (
            f"Host: {place.netloc}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\n"
        )
        self._path, self._group = path, group
        self._answer = b""
        self.kind = ""
        self._sent = 0.0

    def send(self) -> None:
        """Send the next request."""
        group = self._group
        if not group.ids or (len(group.ids) < LOT[0] / 2 and not group.asking):
            group.asking, self.kind, body = True, "ask", f'{{"count": {LOT[0]}}}'
        else:
            told = f'{{"id": {group.ids.popleft()}, "reward": {random.random():.3f}}}'
            self.kind, body = "tell", f'{{"outcomes": [{told}]}}'
        line = f"POST {self._path}/{self.kind} HTTP/1.1\r\n"
        self._answer, self._sent = b"", time.perf_counter()
        message = f"{line}{self._head}Content-Length: {len(body)}\r\n\r\n{body}"
        self.socket.sendall(message.encode())

    def receive(self) -> float | None:
        """Read what has come; the seconds since the request, once the answer is whole."""
        self._answer += self.socket.recv(1 << 20)
        head, found, body = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or length is None or len(body) < int(length[1]):
            return None
        took = time.perf_counter() - self._sent
        assert head.startswith(b"HTTP/1.1 200"), self._answer
        if self.kind == "ask":
            self._group.asking = False
            self._group.ids += map(int, _ID.findall(body))
        return took


def measure(path: str, base: str, token: str, *, connections: int, seconds: float) -> Times:
    """The seconds that each request took, by kind."""
    groups = [Group() for _ in range(GROUPS)]
    times: Times = {"tell": [], "ask": []}
    with selectors.DefaultSelector() as selector:
        for number in range(connections):
            client = Client(base, path, token, groups[number % GROUPS])
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.send()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            for key, _ in selector.select():
                if (took := key.data.receive()) is not None:
                    times[key.data.kind].append(took)
                    key.data.send()
        for key in list(selector.get_map().values()):
            key.data.socket.close()
    return times


def main() -> None:
    """Measure rounds, and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--folder", help="for SQLite's file; that of temporary files if left out")
    parser.add_argument("--page", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    rounds: dict[str, list[tuple[float, ...]]] = {"tell": [], "ask": []}
    print("what   requests/s   p50 ms   p90 ms   p99 ms   max ms")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        url = f"sqlite:///{Path(folder) / 'experiments.db'}"
        with serving(url) as (base, _):
            store = Store(url)
            token = create_token(store, "benchmark", Role.MANAGE)
            store.close()
            for number, seconds in enumerate((WARMING, *[given.seconds] * given.rounds)):
                path = begin(base, token, page=given.page)
                call = {"connections": given.connections, "seconds": seconds}
                found = measure(path, base, token, **call)
                for kind, times in found.items() if number else ():
                    cuts = statistics.quantiles(times, n=100, method="inclusive")
                    each = (cuts[49], cuts[89], cuts[98], max(times))
                    row = (len(times) / given.seconds, *(1000 * took for took in each))
                    rounds[kind].append(row)
                    show(kind, row)
    print("medians of the rounds")
    for kind, rows in rounds.items():
        show(kind, tuple(map(statistics.median, zip(*rows, strict=True))))


def show(kind: str, row: tuple[float, ...]) -> None:
    """Print a line of the table."""
    rate, *times = row
    print(f"{kind:5} {rate:11.0f}  " + "  ".join(f"{took:7.1f}" for took in times), flush=True)


if __name__ == "__main__":
    main()
