"""Whoever is killed leaves forecasts that stay; whoever comes next forecasts just the same."""

from __future__ import annotations

from typing import Any

import workers_foreseeing
from foreseen import OPTIONS, PROBLEM, rows_of
from workers_foreseeing import Level, work
from workers_started import PATIENCE, processes

from bestarm.live import Experiment

BEFORE, AFTER = 9, 10  # requests made before anybody is killed, and in all
OPENING = 13  # statements that only read, before the first request


def forecasts_of(experiment: Experiment) -> list[Any]:
    return list(rows_of(experiment)[["forecast", "covariates"]].itertuples(index=False, name=None))


def test_forecasts_stay_whatever_statement_a_worker_is_killed_before(
    sqlite_url: str,
) -> None:
    settings: dict[str, Any] = {"options": OPTIONS, "seed": 1, "forecaster": Level()}
    with Experiment.create(sqlite_url, "killed", PROBLEM, **settings) as experiment:
        work(experiment, 0, BEFORE)
        stored, kills = forecasts_of(experiment), 0
        while True:
            arguments = (sqlite_url, "killed", BEFORE, AFTER, OPENING + kills + 1)
            process = processes.Process(target=workers_foreseeing.work_until, args=arguments)
            process.start()
            process.join(PATIENCE)
            before, stored = stored, forecasts_of(experiment)
            assert stored[: len(before)] == before
            if process.exitcode == 0:
                break
            assert process.exitcode == -9
            kills += 1
        assert kills > 5
        assert experiment.outcomes()["id"].tolist() == list(range(2 * AFTER))
        assert experiment.verify().sound
    settings["forecaster"] = Level()
    with Experiment.create(sqlite_url, "uninterrupted", PROBLEM, **settings) as experiment:
        work(experiment, 0, AFTER)
        assert forecasts_of(experiment) == stored
        assert len({forecast for forecast, _ in stored}) > AFTER
