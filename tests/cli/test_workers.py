"""Who makes the runs: a cluster that is not there, or not like us, is refused in a sentence."""

from __future__ import annotations

import logging
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster
from own_policies import POLICY, refused, run, write_module

from bestarm.errors import BestArmError, InvalidInputError, MissingDependencyError
from bestarm.simulation import executors
from bestarm.simulation.provenance import installed


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with (
        # A worker that dies is not given the same work three times over.
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=1, processes=True, threads_per_worker=2, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_PATIENCE", 0.5)


@pytest.mark.parametrize(("given", "kind"), [(None, type(None)), (1, type(None))])
def test_one_worker_is_this_process(given: int | None, kind: type) -> None:
    with executors.open_executor(given) as executor:
        assert isinstance(executor, kind)


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


def test_a_real_process_leaves_quietly() -> None:
    code = (
        "from bestarm.cli import main\nfrom bestarm.simulation import executors\n"
        "executors._PATIENCE = 1\nmain()"
    )
    result = subprocess.run(
        [
            *(sys.executable, "-c", code, "compare", "--method", "uniform:budget=20"),
            *("--runs", "1", "--dask", "127.0.0.1:1"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("bestarm: No Dask scheduler answers at '127.0.0.1:1'.")
    assert result.stderr.count("\n") == 1


def test_without_distributed_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingDependencyError, match=r"pip install 'bestarm\[dask\]'"),
        executors.open_executor(dask="127.0.0.1:1"),
    ):
        pass


def test_the_numbers_of_a_cluster_are_ours_and_so_is_the_code_it_runs(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    helper = write_module("PULLS = 2000")
    name = write_module(
        POLICY + f"import {helper}\nclass X(Once):\n    def __init__(self, problem, *, seed=0):\n"
        f"        super().__init__(problem, seed=seed, pulls={helper}.PULLS)\n"
    )
    arguments = ("--method", f"{name}:X", "--method", "rage", "--runs", "20")
    there = run(*arguments, "--json", "--out", "a.csv", "--dask", cluster.scheduler_address)
    assert there == run(*arguments, "--json", "--out", "b.csv")
    assert (there[0], there[2]) == (0, "")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert '"mean_pulls": 2000.0' in there[1]
    # A worker that keeps what it imported must not keep an old version of it.
    Path(f"{helper}.py").write_text("PULLS = 3000000 // 1000")
    for module in (helper, name):
        monkeypatch.delitem(sys.modules, module)
    code, out, _ = run(*arguments, "--json", "--dask", cluster.scheduler_address)
    assert code == 0
    assert '"mean_pulls": 3000.0' in out


def test_workers_that_are_not_like_us_are_refused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "python_version_tuple", lambda: ("4", "0", "0"))
    installed.cache_clear()
    try:
        with (
            pytest.raises(InvalidInputError, match=r"has Python 3\.\d+, and Python 4\.0 is here"),
            executors.open_executor(dask=cluster.scheduler_address),
        ):
            pass
    finally:
        installed.cache_clear()


def test_a_cluster_s_worker_is_no_scheduler(cluster: LocalCluster) -> None:
    (address,) = cluster.scheduler_info["workers"]
    with pytest.raises(InvalidInputError, match="No Dask"), executors.open_executor(dask=address):
        pass


def test_a_scheduler_without_workers_is_refused() -> None:
    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        with (
            pytest.raises(InvalidInputError, match=f"Start one with `dask worker {address}`"),
            executors.open_executor(dask=address),
        ):
            pass


def test_a_method_that_kills_workers_is_one_sentence_and_loggers_get_their_levels_back(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = logging.getLogger("distributed").level
    name = write_module(POLICY + "class X(Once):\n    def update(self, summary): os._exit(3)\n")
    arguments = ("--method", f"{name}:X", "--no-check", "--runs", "2")
    error = refused(*arguments, "--dask", cluster.scheduler_address)
    assert "several workers at the same piece of work" in error
    assert logging.getLogger("distributed").level == before


def test_errors_of_a_run_pass_as_they_are() -> None:
    with pytest.raises(BestArmError, match="mine"), executors.open_executor(2):
        raise BestArmError("mine", field="x")
