"""Alarms and stalls in the log: each once, when it begins, whoever looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clocks import Clock

from bestarm import Experiment, Problem
from bestarm.live.audit import health
from bestarm.live.values import Check
from bestarm.live.watch.overview import Watch

DAY = 86_400.0
START = 1_800_000_000.0


class Pair:
    """Two processes that look at one experiment, with a clock of ours."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.clock, self.url = Clock(), f"sqlite:///{path / 'store.db'}"
        self.alarms: list[str] = []
        problem, known = Problem(["a", "b"]), {"clock": self.clock, **settings}
        self.first = Experiment.create(self.url, "shop", problem, bounds=(0, 1), **known)
        self.second = Experiment.open(self.url, "shop", clock=self.clock)
        monkeypatch.setattr(health, "examine", lambda *_, **__: tuple(self._checks()))

    def _checks(self) -> Iterator[Check]:
        for name in ("missing", "overdue"):
            level = "alarm" if name in self.alarms else "warning"
            yield Check(name, level, f"Much is {name}.", "Look.")

    def look(self) -> list[str]:
        """What the log says of alarms and stalls after both have looked, twice."""
        watches = [Watch(self.first), Watch(self.second)]
        for watch in watches * 2:
            watch.health(over=True)
            watch.record_alarms()
        kinds = {"alarm", "cleared", "stalled"}
        every = [each for each in self.first.events() if each.kind in kinds]
        return [f"{each.kind} {each.data.get('check', '')}".strip() for each in every]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    made = Pair(tmp_path, monkeypatch)
    yield made
    made.first.close()
    made.second.close()


def test_an_alarm_is_logged_when_it_begins_and_when_it_ends(pair: Pair) -> None:
    assert pair.look() == []
    pair.alarms = ["overdue"]
    assert pair.look() == ["alarm overdue"]
    event = pair.first.events()[-1]
    assert event.data == {"check": "overdue", "finding": "Much is overdue.", "action": "Look."}
    pair.alarms = ["overdue", "missing"]
    assert pair.look() == ["alarm overdue", "alarm missing"]
    pair.alarms = ["missing"]
    assert pair.look() == ["alarm overdue", "alarm missing", "cleared overdue"]
    pair.alarms = ["missing", "overdue"]
    assert pair.look()[-1] == "alarm overdue"
    assert len(pair.look()) == 4
    assert pair.first.verify().sound
    pair.first.replay()


def test_after_the_end_nothing_is_logged(pair: Pair) -> None:
    pair.first.stop()
    pair.alarms = ["missing"]
    pair.clock.now += 10 * DAY
    assert pair.look() == []


def test_an_experiment_stalls_a_day_after_the_last_outcome(pair: Pair) -> None:
    pair.clock.now += 5 * DAY
    assert pair.look() == []  # nobody has begun
    pair.first.ask(4)
    pair.clock.now += DAY - 1
    assert pair.look() == []
    pair.clock.now += 1
    assert pair.look() == ["stalled"]
    assert pair.first.events()[-1].data == {"since": START + 5 * DAY, "outstanding": 4}
    pair.clock.now += 3 * DAY
    assert pair.look() == ["stalled"]  # once
    pair.first.tell(0, 1)
    pair.clock.now += DAY - 1
    assert pair.look() == ["stalled"]
    pair.clock.now += 1
    assert pair.look() == ["stalled", "stalled"]
    assert pair.first.events()[-1].data["outstanding"] == 3


def test_a_pause_is_not_a_stall(pair: Pair) -> None:
    pair.first.ask(4)
    pair.first.pause()
    pair.clock.now += 3 * DAY
    assert pair.look() == []
    pair.first.resume()
    assert pair.look() == []
    pair.clock.now += DAY
    assert pair.look() == ["stalled"]


@pytest.mark.parametrize("settings", [{"lease": "3d"}, {"window": "3d", "otherwise": 0}])
def test_a_stall_takes_twice_as_long_as_an_outcome_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    pair = Pair(tmp_path, monkeypatch, **settings)
    pair.first.ask(4)
    pair.clock.now += 6 * DAY - 1
    assert pair.look() == []
    pair.clock.now += 1
    assert pair.look() == ["stalled"]
    pair.first.close()
    pair.second.close()


def test_where_nobody_tells_zeros_assignments_are_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path, monkeypatch, window="1h", otherwise=0)
    for _ in range(5):
        pair.first.ask(4)
        pair.clock.now += DAY - 1
        assert pair.look() == []
    pair.clock.now += 1
    assert pair.look() == ["stalled"]
    pair.first.close()
    pair.second.close()
