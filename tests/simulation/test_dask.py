"""A cluster's workers come and go; the numbers stay."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from simulation_policies import Tallied

from bestarm.environments import small_gap
from bestarm.simulation import simulate

if TYPE_CHECKING:
    from distributed import Client

RUNS = 400


@pytest.fixture
def client() -> Iterator[Client]:
    import dask  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    forkserver.ensure_running()
    with (
        # Workers begin where all is imported already.
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        LocalCluster(
            n_workers=2, processes=True, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_a_worker_killed_half_way_changes_nothing(client: Client, tmp_path: Path) -> None:
    tally = tmp_path / "tally"
    method = partial(Tallied, tally=str(tally))
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
    for name in ("index", "pulls", "correct", "final", "target", "plans", "rounds"):
        np.testing.assert_array_equal(getattr(results, name), getattr(serial, name), err_msg=name)
