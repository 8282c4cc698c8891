"""`bestarm demo --live`: a server, and simulated people whose mood drifts, to watch."""

from __future__ import annotations

import heapq
import math
import signal
import tempfile
import time
import webbrowser
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from socket import socket
from threading import Thread
from urllib.parse import quote

import numpy as np
import typer
import uvicorn

from bestarm.checks import positive, whole
from bestarm.errors import InvalidInputError
from bestarm.live import Experiment
from bestarm.live.store import Store
from bestarm.server.serving import listen, uvicorn_config
from bestarm.server.tokens import Role, create_token, revoke_token

OPTIONS = ("Plain", "Friendly", "Formal", "Question", "Surprise")
_BETTER = (0.0, 0.02, -0.06, 0.05, 0.12)  # how much likelier a yes is than the mood of the day
_LEVEL = 0.42  # of the mood, around which it moves in waves:
_WAVES = ((0.16, 1200), (0.08, 370))  # their heights, and their periods in outcomes
_PACE = 36.0  # outcomes per second at speed 1
_DELAY = 1.5  # seconds until an outcome comes in, on average, at speed 1
_TICK = 0.25  # seconds between two batches
_MOST = 200  # assignments per batch: with more, most outcomes would be outstanding
_FIRST_PORT = 8000
_HANG_TIMEOUT = 20.0  # seconds that the server is given to stop


def chance(option: int, when: int) -> float:
    """The probability of a yes to an option at a time."""
    mood = sum(height * math.sin(2 * math.pi * when / period) for height, period in _WAVES)
    return _LEVEL + mood + _BETTER[option]


def outcome(seed: int, option: int, when: int) -> float:
    """1 for yes, 0 for no; the same for the same arguments."""
    return float(np.random.default_rng([seed, when]).random() < chance(option, when))


class LiveDemo:
    """An experiment with five options on people who say yes or no.

    At speed 1 it finds a winner in two or three minutes.
    """

    def __init__(self, store: Store, *, speed: float, seed: int) -> None:
        self._speed, self._seed = speed, seed
        self._delays = np.random.default_rng(seed)
        self._due: list[tuple[float, int, float]] = []
        self._owed = 0.0
        self._before = time.monotonic()
        self.over = False
        known = {each.name for each in Experiment.list(store, archived=True)}
        names = ("demo", *(f"demo-{i}" for i in range(2, len(known) + 3)))
        self.experiment = Experiment.create(
            store,
            next(name for name in names if name not in known),
            OPTIONS,
            bounds=(0, 1),
            seed=int.from_bytes(sha256(f"bestarm demo {seed}".encode()).digest()),
            description="Which subject line do more people open? Simulated: their mood drifts all "
            "the time, by more than the lines differ.",
        )

    def step(self) -> None:
        """Ask for assignments, and tell the outcomes that are due."""
        now = time.monotonic()
        pace = _PACE * self._speed
        # People who came while it was paused do not come back.
        self._owed = min(self._owed + (now - self._before) * pace, max(pace, 1.0), _MOST)
        self._before = now
        if self._owed >= 1 and not self.over:
            batch = self.experiment.ask(int(self._owed))
            self.over = batch.finished
            self._owed -= len(batch)
            for each in () if self.over else batch:
                delay = min(self._delays.exponential(_DELAY), 6.0) / self._speed
                reward = outcome(self._seed, each.arm, each.id)
                heapq.heappush(self._due, (now + delay, each.id, reward))
        due: list[tuple[int, float]] = []
        while self._due and self._due[0][0] <= now:
            due.append(heapq.heappop(self._due)[1:])
        if due:
            self.experiment.tell_many(due)


def run_live(
    *,
    port: int | None,
    url: str | None,
    speed: float,
    seconds: float | None,
    open_page: bool,
    seed: int,
) -> None:
    """Serve an experiment on simulated people until stopped."""
    positive(speed, "speed")
    whole(seed, "seed", least=0)
    if seconds is not None:
        positive(seconds, "seconds")
    with ExitStack() as ending:
        # SIGTERM ends it in order, as Ctrl-C does.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        ending.callback(signal.signal, signal.SIGTERM, before)
        if url is None:
            folder = tempfile.TemporaryDirectory(prefix="bestarm-demo-")
            url = f"sqlite:///{Path(ending.enter_context(folder)) / 'demo.db'}"
        try:
            listener = ending.enter_context(_listen(port))
            store = Store(url)
            ending.callback(store.close)
            store.prepare()
            token = create_token(store, "demo", Role.MANAGE)
            ending.callback(revoke_token, store, int(token.split("-")[1]))
            server = uvicorn.Server(uvicorn_config(url))
            thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            ending.callback(thread.join, _HANG_TIMEOUT)
            ending.callback(server.handle_exit, signal.SIGTERM, None)
            demo = LiveDemo(store, speed=speed, seed=seed)
            host = f"http://127.0.0.1:{listener.getsockname()[1]}"
            address = f"{host}/experiments/{quote(demo.experiment.name)}"
            typer.echo(_invitation(address, token, speed))
            if open_page:
                webbrowser.open(address)
            _watch(demo, math.inf if seconds is None else time.monotonic() + seconds)
        except KeyboardInterrupt:
            typer.echo()
        typer.echo("Stopping; the demo's token is revoked.")


def _watch(demo: LiveDemo, latest: float) -> None:
    """Continue until the time is up, and print the winner when there is one."""
    announced = False
    while time.monotonic() < latest:
        started = time.monotonic()
        demo.step()
        if demo.over and not announced:
            announced = True
            typer.echo(f"{demo.experiment.recommendation().statement}")
            typer.echo("The page stays up until Ctrl-C.")
        time.sleep(max(0.0, min(_TICK - (time.monotonic() - started), latest - time.monotonic())))


def _invitation(address: str, token: str, speed: float) -> str:
    minutes = "two or three minutes" if speed == 1 else f"some {150 / speed:,.3g} seconds"
    return f"""\
Watch it at {address} (Ctrl-C stops it).

Five subject lines are tried on simulated people. {OPTIONS[-1]!r} is the best, by 7 points, but
people's mood drifts by more than that all the time. Finding the winner takes {minutes}. Look at:
  the baseline: raw outcomes move up and down together, differences settle
  the leaderboard: options are ruled out one after another
  the health checks and the event log
To pause or stop it there, use this token (role: manage) until the demo ends: {token}
"""


def _listen(port: int | None) -> socket:
    if port is not None:
        return listen("127.0.0.1", port)
    try:
        return listen("127.0.0.1", _FIRST_PORT)
    except InvalidInputError:  # somebody else's
        return listen("127.0.0.1", 0)
