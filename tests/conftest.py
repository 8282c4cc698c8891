"""Databases for tests; and the helpers beside this file are importable from every folder."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import forkserver
from pathlib import Path

import pytest
import shortcuts  # noqa: F401 - for what it does when it is imported
from hypothesis import HealthCheck, settings
from needed import need_found
from postgres import Server, find_programs, server
from terse_workers import make_terse
from time_limits import LONGEST, limited
from workers_started import processes

from bestarm.simulation import executors

# A shell lets what it starts in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Stores in files wait for the disk at every commit. No test loses power, so none needs a disk.
_MEMORY, _ROOM = Path("/dev/shm"), 2 * 2**30
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None  # to be found again

# On a busy machine a property takes long, and holds all the same.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

_LONGEST = ("test_docs.py", "test_browser.py")

# What is imported and collected stays to the end. Looking through all of it for garbage, again and
# again, takes a twentieth of the time of the tests.
gc.disable()


@pytest.hookimpl(trylast=True)  # after it has told that it is ready
def pytest_sessionstart(session: pytest.Session) -> None:
    make_terse(session.config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, so that nobody waits for one of them at the end."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_collection_finish() -> None:
    """Leave what there is by now alone, and look for garbage less often."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Limit the time that a test may take, with what is set up and taken down for it."""
    with limited(LONGEST):
        return (yield)


@pytest.fixture(scope="session")
def pool() -> Iterator[Executor]:
    """Two processes that share nothing with this one but modules."""
    with ProcessPoolExecutor(2, mp_context=processes) as executor:
        yield executor


@pytest.fixture
def quick_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a command that runs in this process start where all is imported already."""
    forkserver.ensure_running()  # here: begun by a command, it would hold Ctrl-C back for all
    monkeypatch.setattr(executors, "get_context", lambda _: processes)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of studies without pictures, which take longer than all the runs."""
    monkeypatch.setattr("bestarm.studies.report.draw_section", lambda *_: [])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server of our own, one for each process that runs tests."""
    programs = need_found(find_programs(), "PostgreSQL's server", package="postgresql")
    with server(programs) as running:
        yield running


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """A new database on it."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file that is not there yet."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A new database: a test that takes it is run on each kind."""
    url = request.getfixturevalue(f"{request.param}_url")
    assert isinstance(url, str)
    return url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder, which is the current one; no store is named in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BESTARM_STORE", raising=False)
    return tmp_path
