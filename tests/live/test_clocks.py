"""Which times are taken, and whose clock counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pytest
from clocks import Clock
from databases import run_sql, wait_until
from workers_started import HANG_TIMEOUT, processes

from bestarm import Experiment, Problem
from bestarm.errors import ClockError
from bestarm.live import inputs
from bestarm.policies import AnytimeBAI

PROBLEM = Problem(np.eye(3))
OPTIONS = {"bounds": [0, 1]}
TODAY = datetime(2026, 5, 4, tzinfo=UTC).timestamp()
DAY = 86400.0


def create(url: str, clock: Clock | None, **given: Any) -> Experiment:
    made = {"policy_options": OPTIONS, "seed": 1, **given}
    return Experiment.create(url, "offer", PROBLEM, clock=clock, **made)


def in_memory(clock: Clock) -> Experiment:
    return Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=1, clock=clock)


def calls(experiment: Experiment) -> list[Callable[[], object]]:
    return [
        experiment.ask,
        lambda: experiment.tell(1, 0.5),
        lambda: experiment.tell(1, 7.0),  # outside the bounds
        lambda: experiment.tell_many({1: 0.5, 2: 0.5}),
        lambda: experiment.fail(1),
        experiment.expire,
        experiment.pause,
        experiment.stop,
        lambda: experiment.change_lease(5.0),
        experiment.health,
    ]


WRONG = {
    "milliseconds": (TODAY * 1e3, "milliseconds"),
    "microseconds": (TODAY * 1e6, "microseconds"),
    "nanoseconds": (TODAY * 1e9, "nanoseconds"),
    "not a number": (float("nan"), "seconds since 1970"),
    "infinite": (float("inf"), "seconds since 1970"),
    "nothing": (None, "seconds since 1970"),
    "a date": (datetime.now(), "seconds since 1970"),
    "before 2000": (0.0, "real times"),
    "seconds since the machine started": (5_000.0, "real times"),
    "after 2200": (datetime(2200, 1, 2, tzinfo=UTC).timestamp(), "seconds since 1970"),
}


@pytest.mark.parametrize(("now", "words"), WRONG.values(), ids=WRONG)
def test_real_times_alone_are_times(now: object, words: str) -> None:
    with pytest.raises(ClockError, match=words):
        inputs.read_time(now, stored=True)


def test_a_stored_experiment_takes_real_times_alone(store_url: str) -> None:
    now, words = WRONG["seconds since the machine started"]
    with pytest.raises(ClockError, match="clock"):
        create(store_url, Clock(now))
    assert Experiment.list(store_url) == []
    clock = Clock(TODAY)
    with create(store_url, clock, lease=100.0) as experiment:
        experiment.ask(5)
        experiment.tell(0, 0.5)
        before = experiment.revision, experiment.events()
        clock.now = now
        for call in calls(experiment):
            with pytest.raises(ClockError, match=words):
                call()
        clock.now = TODAY + 1
        assert (experiment.revision, experiment.events()) == before
        assert experiment.tell(1, 0.5).late == 0
        assert experiment.verify().sound
        assert {check.name: check.level for check in experiment.health()}["clock"] == "ok"


def test_the_bounds_are_what_they_say() -> None:
    assert datetime(2000, 1, 1, tzinfo=UTC).timestamp() == inputs.EARLIEST
    assert datetime(2200, 1, 1, tzinfo=UTC).timestamp() == inputs.LATEST


@pytest.mark.parametrize("now", [0.0, 17, -3.5, 1e6, TODAY])
def test_an_experiment_in_memory_may_run_in_simulated_time(now: float) -> None:
    clock = Clock(now)
    experiment = in_memory(clock)
    experiment.ask(3)
    clock.now = now + 1e9  # what is simulated may leap
    assert experiment.tell(0, 0.5).recorded == 1
    assert experiment.verify().sound


@pytest.mark.parametrize(
    "now", [TODAY * 1e3, TODAY * 1e6, float("nan"), float("inf"), None, "noon", True, -1e12]
)
def test_simulated_times_are_numbers_in_seconds(now: object) -> None:
    with pytest.raises(ClockError, match="clock"):
        inputs.read_time(now, stored=False)


def test_a_clock_that_leaps_by_years_gives_nothing_up(store_url: str) -> None:
    clock = Clock(TODAY)
    with create(store_url, clock, lease=3600.0) as experiment:
        ids = experiment.ask(5).ids
        clock.now = TODAY + 3 * 365 * DAY
        for call in (
            experiment.ask,
            lambda: experiment.tell(ids[0], 0.5),
            lambda: experiment.tell_many([(ids[0], 0.5)]),
            lambda: experiment.fail(ids[0]),
            experiment.expire,
        ):
            with pytest.raises(ClockError, match=r"1095 days.*pause"):
                call()
        clock.now = TODAY + 60
        assert experiment.tell(ids[0], 0.5).late == 0
        assert experiment.status().lost == 0
        assert {check.name: check.level for check in experiment.health()}["clock"] == "ok"


def test_an_experiment_that_nobody_touched_for_years_can_go_on(store_url: str) -> None:
    """Whoever runs it says so, by pausing and resuming it."""
    clock = Clock(TODAY)
    with create(store_url, clock, lease=3600.0) as experiment:
        ids = experiment.ask(5).ids
        clock.now = TODAY + 3 * 365 * DAY
        experiment.pause()
        experiment.resume()
        assert experiment.tell(ids[0], 0.5).late == 1
        assert experiment.status().lost == 5
        assert len(experiment.ask(2)) == 2


def test_where_nothing_can_be_given_up_years_may_pass(store_url: str) -> None:
    """Without a lease; within the lease; and after the end, when outcomes are late in any case."""
    clock = Clock(TODAY)
    with create(store_url, clock) as experiment:
        experiment.ask(5)
        clock.now += 3 * 365 * DAY
        assert experiment.tell(0, 0.5).late == 0
        experiment.change_lease(5 * 365 * DAY)
        experiment.tell_many(dict.fromkeys(range(1, 4), 0.5))
        number = experiment.ask(1).ids[0]
        clock.now += 3 * 365 * DAY
        assert experiment.tell(number, 0.5).late == 0
        experiment.change_lease(3600.0)
        experiment.stop()
        clock.now += 3 * 365 * DAY
        assert experiment.tell(4, 0.5).late == 1


# Whose clock


def on_host(url: str, ahead: float, number: int) -> int:
    """Tell an outcome from a machine whose clock is so many seconds ahead: 1 if it was late."""
    with ProcessPoolExecutor(1, mp_context=processes) as host:
        return host.submit(_tell, url, ahead, number).result(HANG_TIMEOUT)


def _tell(url: str, ahead: float, number: int) -> int:
    real = time.time
    time.__dict__["time"] = lambda: real() + ahead
    with Experiment.open(url, "offer") as offer:
        late = offer.tell(number, 0.5).late
        offer.ask(1)
    return late


def test_on_postgresql_hosts_whose_clocks_differ_lose_nothing(postgres_url: str) -> None:
    with create(postgres_url, None, lease=DAY) as experiment:
        for ahead in (2 * DAY, -2 * DAY):
            number = experiment.ask(1).ids[0]
            assert on_host(postgres_url, ahead, number) == 0
        assert experiment.status().late == experiment.status().lost == 0
        levels = {check.name: check.level for check in experiment.health()}
        assert levels["clock"] == levels["overdue"] == "ok"
        at = [event.at for event in experiment.events()]
        assert max(at) - min(at) < DAY
        assert experiment.verify().sound


def test_every_time_on_record_is_the_database_s(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    (before,) = run_sql(postgres_url, "SELECT extract(epoch FROM clock_timestamp())")[0]
    monkeypatch.setattr(time, "time", lambda: real() + 1e7)
    with create(postgres_url, None, lease=300.0) as experiment:
        experiment.ask(30)
        experiment.tell_many(dict.fromkeys(range(24), 0.5))
        experiment.fail(25)
        experiment.pause()
        experiment.health()
        events = experiment.events()
    (after,) = run_sql(postgres_url, "SELECT extract(epoch FROM clock_timestamp())")[0]
    times = [float(before), *(event.at for event in events), float(after)]
    assert times == sorted(times)
    (listed,) = Experiment.list(postgres_url)
    assert listed.created == events[0].at


def test_leases_end_by_the_database_s_clock(postgres_url: str) -> None:
    with create(postgres_url, None, lease=0.001) as experiment:
        ids = experiment.ask(3).ids
        run_sql(postgres_url, "SELECT pg_sleep(0.01)")
        assert experiment.tell(ids[0], 0.5).late == 1
        assert experiment.status().lost == 3


def test_whoever_waited_for_the_lock_has_the_time_after_it(postgres_url: str) -> None:
    """Else times on record would go back while many write, though no clock did."""
    now = "SELECT extract(epoch FROM clock_timestamp())"
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with create(postgres_url, None) as experiment, ThreadPoolExecutor(1) as threads:
        with psycopg.connect(postgres_url) as holder:
            holder.execute("SELECT id FROM bestarm_experiments FOR UPDATE")
            asked = threads.submit(experiment.ask, 1)
            wait_until(lambda: run_sql(postgres_url, waiting) == [(1,)])
            (released,) = run_sql(postgres_url, now)[0]
        asked.result(60)
        assert experiment._head().oldest >= float(released)


def test_a_clock_that_fails_as_a_phase_closes_counts_no_outcome_twice() -> None:
    """The policy is in memory and cannot be made again: it is told once."""
    times: list[float] = []
    experiment = in_memory(Clock(TODAY))
    experiment.engine._clock = lambda: times.pop() if times else TODAY
    ids = experiment.ask(PROBLEM.arms * 20).ids
    times[:] = [np.nan, TODAY]  # the second is for the step
    with pytest.raises(ClockError, match="clock"):
        experiment.tell_many(dict.fromkeys(ids, 0.5))
    assert not times
    experiment.ask()
    assert experiment.phase > 1
    assert experiment.recommendation().pulls == len(ids)
