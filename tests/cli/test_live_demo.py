"""`bestarm demo --live` finds its winner, shows it over HTTP, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import socket
import tempfile
import time
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pytest
from commands import refused, run
from databases import wait_until
from forked_commands import ForkedCommand

from bestarm.cli.live_demo import OPTIONS, LiveDemo, chance, outcome
from bestarm.live import Experiment
from bestarm.live.store import Store
from bestarm.server.tokens import list_tokens


def test_people_differ_less_by_option_than_by_the_day() -> None:
    chances = np.array([[chance(a, t) for a in range(5)] for t in range(0, 200_000, 37)])
    assert chances.min() > 0.05
    assert chances.max() < 0.95
    assert (chances.argmax(axis=1) == len(OPTIONS) - 1).all()
    best, second = np.sort(chances, axis=1)[:, :-3:-1].T
    assert best - second == pytest.approx(0.07)
    assert np.ptp(chances[:, 0]) > 4 * 0.07
    message = np.array([outcome(0, 4, t) for t in range(4000)])
    expected = np.array([chance(4, t) for t in range(4000)])
    assert set(message) == {0.0, 1.0}
    assert abs(np.mean(message - expected)) < 4 * 0.5 / np.sqrt(4000)
    assert message[:50].tolist() == [outcome(0, 4, t) for t in range(50)]


def test_a_winner_is_found_beside_earlier_demos(sqlite_url: str) -> None:
    latest = time.monotonic() + 120
    with closing(Store(sqlite_url)) as store:
        demo = LiveDemo(store, speed=150, seed=0)
        while not demo.over:
            demo.step()
            assert time.monotonic() < latest
        again = LiveDemo(store, speed=1, seed=0)
        assert (demo.experiment.name, again.experiment.name) == ("demo", "demo-2")
        found = demo.experiment.recommendation()
        assert (found.label, found.final) == ("Surprise", True)


def test_the_command_says_where_to_look_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[httpx.Response] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(httpx.get(address)))
    before = set(Path(tempfile.gettempdir()).glob("bestarm-demo-*"))
    options = ("--seconds", "1", "--speed", "30", "--port", "0", "--open")
    out, _ = run("demo", "--live", *options)
    address = re.search(r"http://127\.0\.0\.1:\d+/experiments/demo", out)
    assert address is not None
    (page,) = opened
    assert (str(page.url), page.status_code) == (address[0], 200)
    assert "token is revoked" in out
    assert set(Path(tempfile.gettempdir()).glob("bestarm-demo-*")) <= before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_in_order(number: signal.Signals, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    command = ["demo", "--live", "--port", "0", "--speed", "5", "--store", url]
    process = ForkedCommand(*command)
    try:
        assert "Watch it at" in process.stdout.readline()
        with closing(Store(url)) as store:
            wait_until(lambda: Experiment.open(store, "demo").status().given > 0)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")
    assert "Stopping" in out
    store = Store(url)
    assert all(token.revoked is not None for token in list_tokens(store))
    assert [each.name for each in Experiment.list(store)] == ["demo"]
    store.close()


def test_bad_options_are_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, words in (
            (["--port", port], f"Cannot listen on 127.0.0.1 port {port}"),
            (["--port", "70000"], "`port` must be a whole number"),
            (["--speed", "0"], "`speed` must be positive"),
            (["--seconds", "-1"], "`seconds` must be positive"),
            (["--store", "postgresql://"], ""),
        ):
            assert words in refused("demo", "--live", *options)
