"""Commands with `--dask`: the same numbers as here, from the code that is here."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING

import commands
import pytest
from own_policies import POLICY, refused, run, write_module

if TYPE_CHECKING:
    from distributed import LocalCluster

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    import dask  # noqa: PLC0415
    from distributed import LocalCluster  # noqa: PLC0415

    forkserver.ensure_running()
    with (
        # Workers begin where all is imported already.
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        # One that dies is not given the same work three times over.
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=1, processes=True, threads_per_worker=2, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


def test_a_real_process_leaves_quietly() -> None:
    code = (
        "from bestarm.cli import main\nfrom bestarm.simulation import executors\n"
        "executors._CONNECT_TIMEOUT = 1\nmain()"
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


def test_the_numbers_of_a_cluster_are_ours_and_so_is_the_code_it_runs(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = write_module("PULLS = 2000")
    name = write_module(
        POLICY + f"import {helper}\nclass X(Once):\n    def __init__(self, problem, *, seed=0):\n"
        f"        super().__init__(problem, seed=seed, pulls={helper}.PULLS)\n"
    )
    arguments = ("--method", f"{name}:X", "--method", "rage", "--runs", "20")
    there = run(*arguments, "--json", "--out", "a.csv", "--dask", cluster.scheduler_address)
    assert there == run(*arguments, "--json", "--out", "b.csv")
    assert there[1] == ""
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert '"mean_pulls": 2000.0' in there[0]
    # A worker that keeps what it imported must not keep an old version of it.
    Path(f"{helper}.py").write_text("PULLS = 3000000 // 1000")
    for module in (helper, name):
        monkeypatch.delitem(sys.modules, module)
    out, _ = run(*arguments, "--json", "--dask", cluster.scheduler_address)
    assert '"mean_pulls": 3000.0' in out


SLOW = """
from bestarm.policies import LUCB, Uniform


class Slow(LUCB):
    def __init__(self, problem, *, seed, max_pulls=30_000):
        super().__init__(problem, sigma=50.0, max_pulls=max_pulls)


class Spend(Uniform):
    def __init__(self, problem, *, seed, budget):
        super().__init__(problem, budget=budget, seed=seed)
"""


@pytest.mark.usefixtures("no_pictures")
def test_a_leaderboard_does_not_depend_on_where_it_is_run(cluster: LocalCluster) -> None:
    name = write_module(SLOW)
    arguments = (
        *("leaderboard", "--only", "lucb", "--instance", "six-means", "--drift", "none"),
        *("--method", f"{name}:Slow", "--method", f"{name}:Slow:max_pulls=70"),
        *("--method", f"{name}:Spend", "--method", f"{name}:Spend:budget=80"),
    )
    there = ("--dask", cluster.scheduler_address)

    def made(out: str, *further: str) -> dict[str, list[bytes]]:
        """The lines of all files; runs may finish in any order."""
        commands.run(*arguments, "--out", out, *further)
        return {
            str(path.relative_to(out)): sorted(path.read_bytes().splitlines())
            for path in Path(out).rglob("*")
            if path.is_file()
        }

    here = made("here", "--runs", "3", "--workers", "1")
    assert made("there", "--runs", "3", *there) == here
    cells = b"".join(here["cells.csv"]).decode()
    assert cells.count(",20000.0,") == 1  # the column's cap
    assert cells.count(",500.0,") == 1  # and its budget
    # Each goes on with the other's runs.
    more = made("here", "--runs", "5", "--resume", *there)
    assert made("there", "--runs", "5", "--resume", "--workers", "1") == more
    for file, lines in here.items():
        if file.startswith("journal"):
            assert set(lines) < set(more[file])


def test_a_method_that_kills_workers_is_one_sentence_and_loggers_get_their_levels_back(
    cluster: LocalCluster,
) -> None:
    before = logging.getLogger("distributed").level
    name = write_module(POLICY + "class X(Once):\n    def update(self, summary): os._exit(3)\n")
    arguments = ("--method", f"{name}:X", "--no-check", "--runs", "2")
    error = refused(*arguments, "--dask", cluster.scheduler_address)
    assert "several workers at the same batch of runs" in error
    assert logging.getLogger("distributed").level == before
