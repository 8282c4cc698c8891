"""How much code of ours a call passes: distinct functions and files, counted by a profiler.

    python -m benchmarks.walks [--list WALK]

Every walk is made several times before it is counted, so that nothing is imported or opened in it.
Functions are those with a name: no comprehensions, lambdas or bodies of modules and classes. A move
is a call from one of our files into another one; "in live" counts functions of `live/`. `--list`
prints the functions of one walk by file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import bestarm
from bestarm import Experiment
from bestarm.live.store import Store
from bestarm.server.app import create_app
from bestarm.server.tokens import Role, create_token

OURS = str(Path(bestarm.__file__).parent)
OPTIONS = ["old", "new", "video"]
BEFORE = 3  # walks before the one that is counted


class Walk:
    """The functions of ours that are called while it is counted."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.moves = 0
        self._counting = False

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call, as a profile function of `sys` or `threading`."""
        code = frame.f_code
        if not self._counting or event != "call" or not code.co_filename.startswith(OURS):
            return
        if code.co_name.startswith("<"):
            return
        self.calls[code] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(OURS):
            caller = caller.f_back
        self.moves += caller is not None and caller.f_code.co_filename != code.co_filename

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is called in any thread."""
        self._counting = True
        try:
            yield
        finally:
            self._counting = False

    def by_file(self) -> dict[str, list[str]]:
        """The names of the functions, by file, in order of name."""
        found: dict[str, list[str]] = {}
        for code in self.calls:
            name = code.co_filename.removeprefix(OURS).lstrip("/")
            found.setdefault(name, []).append(getattr(code, "co_qualname", code.co_name))
        return {name: sorted(found[name]) for name in sorted(found)}

    def __str__(self) -> str:
        files = {code.co_filename for code in self.calls}
        live = [code for code in self.calls if code.co_filename.startswith(f"{OURS}/live/")]
        numbers = len(self.calls), len(files), self.moves, len(live)
        return "{:>9} {:>6} {:>6} {:>8}".format(*numbers)


def tell_in_library(walk: Walk, url: str) -> None:
    """One outcome, which closes no phase."""
    with Experiment.create(url, "tell", OPTIONS, bounds=(0, 1)) as experiment:
        ids = list(experiment.ask(BEFORE + 1).ids)
        for number in ids[:-1]:
            experiment.tell(number, 1)
        with walk.counted():
            experiment.tell(ids[-1], 0)


def ask_in_library(walk: Walk, url: str) -> None:
    """One assignment."""
    with Experiment.create(url, "ask", OPTIONS, bounds=(0, 1)) as experiment:
        for _ in range(BEFORE):
            experiment.ask()
        with walk.counted():
            experiment.ask()


def close_a_phase(walk: Walk, url: str) -> None:
    """The outcome that closes a phase, with the plan that follows."""
    with Experiment.create(url, "close", OPTIONS, bounds=(0, 1)) as experiment:
        for _ in range(BEFORE):
            _close(experiment)
        _close(experiment, walk)


def _close(experiment: Experiment, walk: Walk | None = None) -> None:
    ids = list(experiment.ask(experiment.status().remaining).ids)
    for number in ids[:-1]:
        experiment.tell(number, number % 2)
    before = experiment.phase
    with contextlib.nullcontext() if walk is None else walk.counted():
        experiment.tell(ids[-1], 1)
    assert experiment.phase == before + 1


def ask_on_the_command_line(walk: Walk, url: str) -> None:
    """`bestarm experiment ask NAME`."""
    from bestarm.cli import main  # noqa: PLC0415

    Experiment.create(url, "line", OPTIONS, bounds=(0, 1)).close()
    before = sys.argv
    try:
        for turn in range(BEFORE + 1):
            sys.argv = ["bestarm", "experiment", "ask", "line", "--store", url]
            counting = walk.counted() if turn == BEFORE else contextlib.nullcontext()
            silent = contextlib.redirect_stdout(io.StringIO())
            with silent, contextlib.suppress(SystemExit), counting:
                main()
    finally:
        sys.argv = before


def tell_over_http(walk: Walk, url: str) -> None:
    """One outcome, from the head of its request to the body of the answer."""
    experiment = Experiment.create(url, "http", OPTIONS, bounds=(0, 1))
    ids = list(experiment.ask(BEFORE + 1).ids)
    token = create_token(Store(url), "walks", Role.TELL)
    experiment.close()
    asyncio.run(_tell_over_http(walk, url, ids, token))


async def _tell_over_http(walk: Walk, url: str, ids: list[int], token: str) -> None:
    app = create_app(url)

    async def post(number: int) -> int:
        body = b'{"outcomes": [{"id": %d, "reward": 1}]}' % number
        head = {
            "host": "127.0.0.1:8000",
            "content-type": "application/json",
            "content-length": str(len(body)),
            "authorization": f"Bearer {token}",
        }
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/api/v1/experiments/http/tell",
            "raw_path": b"/api/v1/experiments/http/tell",
            "root_path": "",
            "query_string": b"",
            "headers": [(key.encode(), value.encode()) for key, value in head.items()],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 8000),
            "state": {},
        }
        sent = [{"type": "http.request", "body": body, "more_body": False}]
        status = list[int]()

        async def receive() -> dict[str, object]:
            return sent.pop() if sent else await asyncio.Event().wait()  # type: ignore[return-value]

        async def send(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                status.append(int(str(message["status"])))

        await app(scope, receive, send)  # type: ignore[arg-type]
        return status[0]

    async with app.router.lifespan_context(app):
        for number in ids[:-1]:
            assert await post(number) == 200
        await asyncio.sleep(1.0)  # the first round of maintenance
        with walk.counted():
            assert await post(ids[-1]) == 200


WALKS: dict[str, Callable[[Walk, str], None]] = {
    "tell, library": tell_in_library,
    "ask, library": ask_in_library,
    "a closing phase": close_a_phase,
    "tell, HTTP": tell_over_http,
    "ask, command line": ask_on_the_command_line,
}


def main() -> None:
    """Count every walk."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--list", choices=WALKS, help="print the functions of this walk")
    wanted = options.parse_args().list
    print(f"{'walk':<20} functions  files  moves  in live")
    for name, take in WALKS.items():
        walk = Walk()
        threading.setprofile(walk.profile)
        sys.setprofile(walk.profile)
        try:
            with tempfile.TemporaryDirectory() as folder:
                take(walk, f"sqlite:///{folder}/store.db")
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        print(f"{name:<20} {walk}")
        if name == wanted:
            for file, functions in walk.by_file().items():
                print(f"    {file}: {', '.join(functions)}")


if __name__ == "__main__":
    main()
