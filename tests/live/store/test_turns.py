"""The line of processes that write to a SQLite file: nobody waits for one that does nothing."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import workers_turns
from kept import told
from workers_faults import begin
from workers_started import PATIENCE, processes

from bestarm.live import Experiment
from bestarm.live.store.sql import connections, turns
from bestarm.live.store.sql.turns import Turn, _Line


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / ".store.db.line")


@pytest.fixture(autouse=True)
def endless_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever waits for one that does nothing never returns."""
    monkeypatch.setattr(connections, "PATIENCE", 1e6)


@contextmanager
def other(target: Callable[..., None], *arguments: Any) -> Iterator[int]:
    """Another process, once it is ready; it is killed in the end."""
    ready = processes.Event()
    process = processes.Process(target=target, args=(*arguments, ready))
    process.start()
    try:
        assert ready.wait(PATIENCE)
        assert process.pid is not None
        yield process.pid
    finally:
        process.kill()
        process.join()


def line_of(experiment: Experiment) -> _Line:
    ledger: Any = experiment._ledger
    line: _Line = ledger.store._pool.turn._line
    assert line._open()
    return line


def assert_tells(experiment: Experiment) -> None:
    """Tell an outcome within the time of a test."""
    line = line_of(experiment)
    (number,) = experiment.ask(1).ids
    line._until = 1e-9  # its own time is over, so that it goes to the end of the line
    assert not line.is_free()
    line._until = 1e-9
    later = threading.Thread(target=experiment.tell, args=(number, 1.0), daemon=True)
    later.start()
    later.join(PATIENCE)
    assert not later.is_alive()
    assert told(experiment)[number] == 1.0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("place", [workers_turns.is_first, workers_turns.has_the_time])
def test_nobody_waits_for_a_process_that_was_killed_or_hangs(
    sqlite_url: str, path: str, place: Callable[..., None], end: signal.Signals
) -> None:
    with begin(sqlite_url) as experiment, other(place, path) as process:
        os.kill(process, end)
        assert_tells(experiment)
        assert_tells(experiment)


def test_nobody_waits_for_a_process_that_goes_idle(sqlite_url: str, path: str) -> None:
    with begin(sqlite_url) as experiment:
        idle = _Line(path)
        with idle.first():
            idle.begin_slice()
        assert_tells(experiment)


def test_those_who_write_in_turn_let_others_in(sqlite_url: str, path: str) -> None:
    """A process that never stops has to let the next one in when its time is over."""
    with begin(sqlite_url) as experiment, other(workers_turns.has_the_time, path):
        assert_tells(experiment)


def test_nothing_in_the_line_can_hold_anybody_up(sqlite_url: str, path: str) -> None:
    with begin(sqlite_url) as experiment:
        for said in (b"", b"short", b"\xff" * 24, turns._SAID.pack(1, 1e300, 1e300)):
            Path(path).write_bytes(said)
            assert_tells(experiment)


def test_a_line_that_cannot_be_made_is_done_without(sqlite_url: str, path: str) -> None:
    with begin(sqlite_url) as experiment:
        Path(path).mkdir()
        ledger: Any = experiment._ledger
        assert not ledger.store._pool.turn._line._open()
        with Experiment.open(sqlite_url, "offer") as another:
            ids = experiment.ask(2).ids
            with experiment._ledger.writing():
                later = threading.Thread(target=another.tell, args=(ids[0], 1.0))
                later.start()
            later.join(PATIENCE)
            assert told(experiment) == {0: 1.0}


def test_a_line_in_which_nothing_can_be_locked_is_done_without(
    sqlite_url: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with begin(sqlite_url) as experiment:
        monkeypatch.setattr("bestarm.live.store.sql.turns.fcntl.lockf", refuse)
        assert_tells(experiment)


def test_a_forked_process_holds_no_place_of_its_parent(sqlite_url: str, path: str) -> None:
    with begin(sqlite_url) as experiment, other(_forks_in_line, path) as process:
        forked = int(Path(f"{path}-forked").read_text())
        try:
            os.kill(process, signal.SIGKILL)
            assert_tells(experiment)
        finally:
            os.kill(forked, signal.SIGKILL)


def _forks_in_line(path: str, ready: Any) -> None:
    line = _Line(path)
    with line.first():
        if not os.fork():
            assert line._file is None
            Path(f"{path}-forked").write_text(str(os.getpid()))
            ready.set()
        signal.pause()


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(turns, "time", clock)
    return clock


def test_a_process_writes_for_a_while_and_then_lets_others_in(path: str, clock: Clock) -> None:
    one, two = Turn(path), Turn(path)
    began = list[str]()
    assert two._line._open()
    with one._line.first():
        one._line.begin_slice()
    while clock.now < 1000.0 + turns._SLICE:
        held: list[Any] = []
        one.take(held)
        one.begin(lambda: began.append("one"))
        assert not two._line.is_free()
        clock.now += turns._IDLE * 0.4
        one.give(held)
    two.take([])
    two.begin(lambda: began.append("two"))
    assert began.count("one") > 5
    assert began[-1] == "two"
    assert not one._line.is_free()


def test_who_does_what_others_wait_for_passes_the_line(path: str, clock: Clock) -> None:
    one, two = _Line(path), Turn(path)
    assert two._line._open()
    with one.first():
        one.begin_slice()
    with two.hurry():
        two.begin(lambda: None)
        assert clock.now == 1000.0
    two.begin(lambda: None)
    assert clock.now > 1000.0


def test_who_hurries_leaves_its_time_to_others(path: str, clock: Clock) -> None:
    one, two = Turn(path), _Line(path)
    assert two._open()
    with one._line.first():
        one._line.begin_slice()
    assert not two.is_free()
    with one.hurry():
        assert two.is_free()


def test_processes_that_meet_lose_nothing(sqlite_url: str) -> None:
    with begin(sqlite_url) as experiment:
        experiment.ask(600)
        ready = processes.Event()
        every = [
            processes.Process(
                target=workers_turns.tells_in_between, args=(sqlite_url, first, 150, ready)
            )
            for first in range(0, 600, 150)
        ]
        for process in every:
            process.start()
        for process in every:
            process.join(PATIENCE)
            assert process.exitcode == 0
        assert told(experiment) == {number: float(number) for number in range(600)}
        assert experiment.verify().sound
