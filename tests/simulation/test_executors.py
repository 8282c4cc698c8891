"""Executors: workers come and go and the numbers stay; wrong clusters are refused in a sentence."""

from __future__ import annotations

import importlib
import os
import platform
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from databases import wait_until
from simulation_policies import Tallied

from bestarm.environments import small_gap
from bestarm.errors import BestArmError, InvalidInputError, MissingDependencyError
from bestarm.simulation import Outcome, executors, simulate
from bestarm.simulation.executors import installed_versions

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


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(1, allowed_failures=0) as cluster:
        yield cluster


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_CONNECT_TIMEOUT", 0.5)


@pytest.mark.parametrize("workers", [None, 1])
def test_one_worker_is_this_process(workers: int | None) -> None:
    with executors.open_executor(workers) as executor:
        assert executor is None


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "address", ["", "nowhere", "http://there:1", "there:port", "tls://127.0.0.1:1", "127.0.0.1:1"]
)
def test_an_address_that_does_not_answer_is_one_sentence(
    address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidInputError) as raised, executors.open_executor(dask=address):
        pass
    assert str(raised.value).startswith(f"No Dask scheduler answers at {address!r}. Give")
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("impatient")
def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(InvalidInputError, match="No Dask"),
            executors.open_executor(dask=address),
        ):
            pass


def test_without_distributed_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingDependencyError, match=r"pip install 'bestarmid\[dask\]'"),
        executors.open_executor(dask="127.0.0.1:1"),
    ):
        pass


def test_workers_that_are_not_like_us_are_refused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "python_version_tuple", lambda: ("4", "0", "0"))
    installed_versions.cache_clear()
    try:
        with (
            pytest.raises(InvalidInputError, match=r"has Python 3\.\d+, and Python 4\.0 is here"),
            executors.open_executor(dask=cluster.scheduler_address),
        ):
            pass
    finally:
        installed_versions.cache_clear()


def test_a_cluster_s_worker_is_no_scheduler(cluster: LocalCluster) -> None:
    (address,) = cluster.scheduler_info["workers"]
    with pytest.raises(InvalidInputError, match="No Dask"), executors.open_executor(dask=address):
        pass


def test_a_scheduler_without_workers_is_refused() -> None:
    from distributed import LocalCluster  # noqa: PLC0415

    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        with (
            pytest.raises(InvalidInputError, match=f"Start one with `dask worker {address}`"),
            executors.open_executor(dask=address),
        ):
            pass


def test_workers_import_the_packages_of_this_folder_also_workers_that_come_later(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_pack").mkdir()
    (tmp_path / "own_pack" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "own_pack" / "near.py").write_text("LEVEL = 7\n", encoding="utf-8")
    text = "from .near import LEVEL\n\ndef level():\n    return LEVEL\n"
    (tmp_path / "own_pack" / "deep.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    deep = importlib.import_module("own_pack.deep")
    try:
        with executors.open_executor(dask=cluster.scheduler_address) as executor:
            assert executor is not None
            assert executor.submit(deep.level).result(60) == 7
            (known,) = cluster.scheduler_info["workers"]
            cluster.scale(2)
            wait_until(lambda: len(cluster.scheduler_info["workers"]) == 2)
            (late,) = set(cluster.scheduler_info["workers"]) - {known}
            client = executor._client  # type: ignore[attr-defined]
            assert client.submit(deep.level, workers=[late], pure=False).result(60) == 7
    finally:
        cluster.scale(1)
        for name in ("own_pack", "own_pack.near", "own_pack.deep"):
            del sys.modules[name]


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
