"""`bestarm doctor` and `bestarm warm-up`: is a database safe; compile before the first use."""

from __future__ import annotations

import time

from bestarm.cli.command import command
from bestarm.cli.output import Result, checks_result
from bestarm.defaults import STORE
from bestarm.errors import BestArmError
from bestarm.units import plural


@command
def doctor(*, store: str = STORE) -> Result:
    """Say whether a database is safe to keep an experiment in: exit code 1 on an alarm."""
    from bestarm.cli.database_checks import check_database

    return checks_result(check_database(store))


_SIMULATED = ("anytime", "sp-bai", "rage", "lucb")


@command
def warm_up(*, simulations: bool = False) -> Result:
    """Compile what live experiments need into Numba's cache, for example in a container image.

    Run it as the user that experiments run as: others have another cache.

    Args:
        simulations: Also compile what simulations of the usual methods need.
    """
    from numba.core import event

    from bestarm import compiling
    from bestarm.forecasting import mixture

    folder = mixture.predict.stats.cache_path  # type: ignore[attr-defined]
    if folder is None:
        raise BestArmError(
            "Nothing can be compiled for later: no folder for Numba's cache can be written.",
            field="NUMBA_CACHE_DIR",
            remedy="Set NUMBA_CACHE_DIR to a folder that can be.",
        )
    began = time.monotonic()
    compiling.compile_eagerly()
    with event.install_recorder("numba:compile") as recorder:
        _experiment()
        if simulations:
            _simulate()
    functions = [each.data["dispatcher"].py_func for _, each in recorder.buffer if each.is_start]
    compiled = sum(each.__module__.startswith("bestarm.") for each in functions)
    seconds = time.monotonic() - began
    made = plural(compiled, "function")
    words = f"Compiled {made} in {seconds:.0f} s. They are kept in {folder}."
    return Result({"compiled": compiled, "seconds": seconds, "cache": folder}, [words])


def _experiment() -> None:
    """A few phases of experiments that, together, call every tiered function."""
    import numpy as np

    from bestarm import SPBAI, AnytimeBAI, Experiment, Problem
    from bestarm.forecasting import Mixture

    options = Problem(["a", "b", "c", "d"])
    features = np.vstack([np.eye(3), np.full((1, 3), 0.5)])
    made = (
        Experiment(AnytimeBAI(options, bounds=(0, 1))),
        Experiment(AnytimeBAI(options, bounds=(0, 1), forecasts=True), forecaster="default"),
        Experiment(AnytimeBAI(options, bounds=(0, 1), block=2)),
        Experiment(AnytimeBAI(options, bounds=(0, 1), block=3)),
        Experiment(SPBAI(Problem(features))),
    )
    for experiment in made:
        first = experiment.ask(40)
        experiment.tell_many({each: float(each % 2) for each in first.ids[1:]})
        experiment.tell(first.ids[0], 0.0)  # late, where phases do not wait
        while experiment.phase <= 3 and not experiment.finished:
            batch = experiment.ask(experiment.status().remaining or 1)
            experiment.tell_many({each.id: float(each.id % 2) for each in batch})
    Mixture().follow(0, None, None, features, np.zeros(len(features)))


def _simulate() -> None:
    """A run of each of the usual methods."""
    from bestarm.environments import small_gap
    from bestarm.policies.registry import policies
    from bestarm.simulation import run_once

    for name in _SIMULATED:
        run_once(policies()[name].method, small_gap())
