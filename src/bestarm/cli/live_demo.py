"""`bestarm demo --live`: a server, and simulated people whose mood drifts, to watch."""

from __future__ import annotations

import heapq
import json
import math
import signal
import tempfile
import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socket import socket
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import uvicorn

from bestarm.checks import positive, whole
from bestarm.cli.reporting import console
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.live.store.sql import Store
from bestarm.server.security.tokens import Role, create_token, revoke_token
from bestarm.server.serving import Serving, listen, uvicorn_config

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["LiveDemo", "Population", "run_live"]

OPTIONS = ("Plain", "Friendly", "Formal", "Question", "Surprise")
_BETTER = (0.0, 0.02, -0.06, 0.05, 0.12)  # how much likelier a yes is than the mood of the day
_LEVEL, _WAVE, _PERIOD = 0.42, 0.16, 1200  # the mood: a wave around a level, period in outcomes,
_WALK, _STEP = 0.08, 0.004  # plus a random walk
_PACE = 36.0  # outcomes per second at speed 1
_DELAY = 1.5  # seconds until an outcome comes in, on average, at speed 1
_TICK = 0.25  # seconds between two requests
_MOST = 200  # assignments per request: with more, most outcomes would be outstanding
_FIRST_PORT = 8000
_PATIENCE = 20.0
_OVER = frozenset({"finished", "stopped"})


class Population:
    """People who say yes or no, with a probability that depends on the option and on the day.

    Args:
        seed: their answers depend on it, on the option, and on when they see it.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        rng = np.random.default_rng(seed)
        wandering = np.cumsum(_STEP * rng.standard_normal(200_000))
        # Folded back at ±_WALK, as a walk between two walls is.
        walk = np.abs((wandering + _WALK) % (4 * _WALK) - 2 * _WALK) - _WALK
        waves = _WAVE * np.sin(2 * math.pi * np.arange(len(walk)) / _PERIOD)
        self._mood = _LEVEL + waves + walk

    def chance(self, option: int, when: int) -> float:
        """The probability of a yes to an option at a time."""
        return float(self._mood[when % len(self._mood)]) + _BETTER[option]

    def outcome(self, option: int, when: int) -> float:
        """1 for yes, 0 for no; the same for the same arguments."""
        draw = np.random.default_rng([self._seed, when]).random()
        return float(draw < self.chance(option, when))


@dataclass(frozen=True)
class _Client:
    """An application that knows an address and a token, and nothing else."""

    port: int
    token: str

    def send(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """The server's answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            connection.request(
                method,
                f"/api/v1/{path}",
                body=None if body is None else json.dumps(body),
                headers={
                    "Authorization": f"Bearer {self.token}",
                    "Content-Type": "application/json",
                },
            )
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        except (OSError, HTTPException) as error:
            raise BestArmError(
                f"The demo's server does not answer ({error}).", field="port", value=self.port
            ) from error
        finally:
            connection.close()
        if response.status >= 400:
            wrong = answer["error"]
            raise BestArmError(wrong["message"], field=wrong["field"], remedy=wrong["remedy"])
        return answer


class LiveDemo:
    """An experiment with five options over HTTP, on a population; a server must be running.

    Args:
        port: where the server is, on this machine.
        manage: a token of role manage.
        tell: a token of role tell.
        speed: 1 finds a winner in two or three minutes.
        seed: of the draws and of the population.
    """

    def __init__(self, port: int, *, manage: str, tell: str, speed: float, seed: int) -> None:
        self._client = _Client(port, tell)
        self._population = Population(seed)
        self._speed = speed
        self._delays = np.random.default_rng(seed)
        self._due: list[tuple[float, int, float]] = []
        self._owed = 0.0
        self._before = time.monotonic()
        self.state = "running"
        self.name = self._create(_Client(port, manage), seed)

    @property
    def path(self) -> str:
        """The experiment's page."""
        return f"/experiments/{quote(self.name, safe='')}"

    def _create(self, manager: _Client, seed: int) -> str:
        known = {each["name"] for each in manager.send("GET", "experiments")["experiments"]}
        name = next(
            each
            for each in ("demo", *(f"demo-{i}" for i in range(2, len(known) + 3)))
            if each not in known
        )
        manager.send(
            "POST",
            "experiments",
            {
                "name": name,
                "source": np.eye(len(OPTIONS)).tolist(),
                "source_labels": list(OPTIONS),
                "noise": 0.5,
                "policy": "anytime",
                "options": {"bounds": [0, 1]},
                "seed": seed,
                "description": "Which subject line do more people open? Simulated: their mood "
                "drifts all the time, by more than the lines differ.",
            },
        )
        return name

    def step(self) -> None:
        """Ask for assignments, and tell the outcomes that are due."""
        now = time.monotonic()
        pace = _PACE * self._speed
        # People who came while it was paused do not come back.
        self._owed = min(self._owed + (now - self._before) * pace, max(pace, 1.0), _MOST)
        self._before = now
        if self._owed >= 1 and self.state not in _OVER:
            self._ask(now)
        due: list[dict[str, float]] = []
        while self._due and self._due[0][0] <= now:
            _, number, reward = heapq.heappop(self._due)
            due.append({"id": number, "reward": reward})
        if due:
            self._client.send("POST", f"{self.path[1:]}/tell", {"outcomes": due})

    def _ask(self, now: float) -> None:
        batch = self._client.send("POST", f"{self.path[1:]}/ask", {"count": int(self._owed)})
        self.state = batch["state"]
        self._owed -= len(batch["assignments"])
        for each in batch["assignments"]:
            delay = min(self._delays.exponential(_DELAY), 6.0) / self._speed
            reward = self._population.outcome(each["arm"], each["id"])
            heapq.heappush(self._due, (now + delay, each["id"], reward))

    def verdict(self) -> dict[str, Any]:
        """The current recommendation."""
        return self._client.send("GET", f"{self.path[1:]}/recommendation")


def run_live(
    *,
    port: int | None,
    store: str | None,
    speed: float,
    seconds: float | None,
    open_page: bool,
    seed: int,
) -> None:
    """Serve an experiment on the population until stopped."""
    positive(speed, "speed")
    whole(seed, "seed", least=0)
    if seconds is not None:
        positive(seconds, "seconds")
    screen = console()
    with ExitStack() as ending:
        ending.enter_context(_stoppable())
        if store is None:
            folder = tempfile.TemporaryDirectory(prefix="bestarm-demo-")
            store = f"sqlite:///{Path(ending.enter_context(folder)) / 'demo.db'}"
        try:
            served = ending.enter_context(_served(store, port))
            demo = LiveDemo(
                served.port, manage=served.manage, tell=served.tell, speed=speed, seed=seed
            )
            address = f"http://127.0.0.1:{served.port}{demo.path}"
            for line in _invitation(address, served.manage, speed):
                screen.print(line, soft_wrap=True)
            if open_page:
                webbrowser.open(address)
            _watch(demo, screen, math.inf if seconds is None else time.monotonic() + seconds)
        except KeyboardInterrupt:
            screen.print()
        screen.print("Stopping; the demo's tokens are revoked.")


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM ends it in order, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _watch(demo: LiveDemo, screen: Console, latest: float) -> None:
    """Continue until the time is up, and print the winner when there is one."""
    over = False
    while time.monotonic() < latest:
        started = time.monotonic()
        demo.step()
        if demo.state in _OVER and not over:
            over = True
            found = demo.verdict()
            screen.print(found["statement"], soft_wrap=True)
            screen.print("The page stays up until Ctrl-C.")
        time.sleep(max(0.0, min(_TICK - (time.monotonic() - started), latest - time.monotonic())))


def _invitation(address: str, token: str, speed: float) -> Iterator[str]:
    minutes = "two or three minutes" if speed == 1 else f"some {150 / speed:,.3g} seconds"
    yield f"Watch it at {address} (Ctrl-C stops it)."
    yield ""
    yield (
        f"Five subject lines are tried on simulated people. {OPTIONS[-1]!r} is the best, by 7 "
        "points, but people's mood drifts by more than that all the time. Finding the winner takes "
        f"{minutes}. Look at:"
    )
    yield "  the baseline: raw outcomes move up and down together, differences settle"
    yield "  the leaderboard: options are ruled out one after another"
    yield "  the health checks and the event log"
    yield f"To pause or stop it there, use this token (role: manage) until the demo ends: {token}"
    yield ""


@dataclass(frozen=True)
class _Served:
    port: int
    manage: str
    tell: str


@contextmanager
def _served(url: str, port: int | None) -> Iterator[_Served]:
    """A server in a thread, with tokens that are revoked when it ends."""
    with ExitStack() as ending:
        listener = ending.enter_context(_listen(port))
        store = Store(url)
        ending.callback(store.close)
        store.prepare()
        manage, tell = (_temporary_token(store, role, ending) for role in (Role.MANAGE, Role.TELL))
        server = uvicorn.Server(uvicorn_config(Serving(url)))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            latest = time.monotonic() + _PATIENCE
            while not server.started:
                if not thread.is_alive() or time.monotonic() > latest:
                    raise BestArmError("The server does not start.", field="port", value=port)
                time.sleep(0.02)
            yield _Served(listener.getsockname()[1], manage, tell)
        finally:
            server.should_exit = True
            thread.join(_PATIENCE)


def _temporary_token(store: Store, role: Role, ending: ExitStack) -> str:
    """A token that is revoked at the end."""
    token = create_token(store, "demo", role)
    ending.callback(revoke_token, store, int(token.split("-")[1]))
    return token


def _listen(port: int | None) -> socket:
    if port is not None:
        try:
            return listen("127.0.0.1", whole(port, "port", least=0, below=65536))
        except OSError as error:
            raise InvalidInputError(
                f"Port {port} cannot be listened on: {error.strerror}.",
                field="port",
                value=port,
                remedy="Give another one, or none.",
            ) from None
    try:
        return listen("127.0.0.1", _FIRST_PORT)
    except OSError:  # somebody else's
        return listen("127.0.0.1", 0)
