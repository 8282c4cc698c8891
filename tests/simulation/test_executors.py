"""Executors: workers come and go and the numbers stay; wrong clusters are refused in a sentence."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from simulation_policies import Tallied

from bestarm.environments import small_gap
from bestarm.errors import BestArmError
from bestarm.simulation import Outcome, executors, simulate

if TYPE_CHECKING:
    from distributed import LocalCluster

RUNS = 400


@contextmanager
def local_cluster(workers: int, *, allowed_failures: int) -> Iterator[LocalCluster]:
    """A cluster whose workers begin where all is imported already.

    Work whose worker died is given to another one so many times.
    """
    import dask  # noqa: PLC0415
    from distributed import LocalCluster  # noqa: PLC0415

    forkserver.ensure_running()
    config = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.scheduler.allowed-failures": allowed_failures,
    }
    with (
        dask.config.set(config),
        LocalCluster(
            n_workers=workers, processes=True, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


@pytest.mark.parametrize("workers", [None, 1])
def test_one_worker_is_this_process(workers: int | None) -> None:
    with executors.open_executor(workers) as executor:
        assert executor is None


@pytest.mark.usefixtures("quick_workers")
def test_errors_of_a_run_pass_as_they_are() -> None:
    with pytest.raises(BestArmError, match="mine"), executors.open_executor(2):
        raise BestArmError("mine", field="x")


def test_a_worker_killed_half_way_changes_nothing(tmp_path: Path) -> None:
    from distributed import Client  # noqa: PLC0415

    tally = tmp_path / "tally"
    method = partial(Tallied, tally=str(tally))
    with (
        local_cluster(2, allowed_failures=3) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        workers = client.run(os.getpid)
        assert len(set(workers.values())) == 2
        done_at_the_kill: list[int] = []

        def progress(done: int, _total: int) -> None:
            if done >= RUNS // 2 and not done_at_the_kill:
                done_at_the_kill.append(done)
                os.kill(next(iter(workers.values())), signal.SIGKILL)

        results = simulate(
            method,
            small_gap(3, 0.5),
            runs=RUNS,
            seed=5,
            executor=client.get_executor(pure=False),
            progress=progress,
        )
        made = len(tally.read_bytes())
        assert done_at_the_kill[0] < RUNS
        assert next(iter(workers)) not in client.scheduler_info()["workers"]
    assert (results.runs, results.interrupted) == (RUNS, False)
    # Runs that were on their way are made again, not those that had come back.
    assert RUNS <= made < RUNS + RUNS // 8
    serial = simulate(method, small_gap(3, 0.5), runs=RUNS, seed=5)
    for name in ("index", *Outcome._fields[1:]):
        np.testing.assert_array_equal(getattr(results, name), getattr(serial, name), err_msg=name)
