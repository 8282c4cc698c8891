"""What goes wrong with a database: one sentence, nothing acknowledged lost, and work resumes."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeVar

import psycopg
import pytest
from databases import end_connections, on_begin, read_on_begin
from postgres import Server
from recorded import told
from workers_started import HANG_TIMEOUT, processes
from workers_store import begin, other_writer, run_processes, stop_amid_transaction, together

from bestarm.errors import BestArmError, StoreError, StoreUnavailableError, UnknownExperimentError
from bestarm.live import Experiment
from bestarm.live.store import session
from bestarm.live.watch.overview import overview

T = TypeVar("T")


def one_sentence(error: BestArmError) -> bool:
    """Whether an error is one line, with a remedy."""
    return "\n" not in str(error) and error.message.endswith(".") and error.remedy.endswith(".")


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users could reach, as pytest's own cannot be."""
    made = Path(tempfile.mkdtemp(prefix="bestarm-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        made.chmod(0o755)
        shutil.rmtree(made)


# A disk that is full


@contextmanager
def no_more_pages(experiment: Experiment, path: Path) -> Iterator[None]:
    """SQLite itself refuses to let the file grow."""
    most = 1  # which SQLite takes for what there is

    with on_begin(lambda raw: raw.execute(f"PRAGMA max_page_count={most}")):
        yield
        most = 10**9
        experiment.status()  # on the same connection


@contextmanager
def no_larger_files(experiment: Experiment, path: Path) -> Iterator[None]:
    """The system refuses to let any file of ours grow beyond what this one has."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def full_disk(experiment: Experiment, path: Path) -> Iterator[None]:
    """A file takes all the space there is on its disk."""
    filler = path.parent / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(2**12))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of four megabytes."""
    place = folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("Only root may make a small disk; other tests refuse to write in other ways.")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("full", [no_more_pages, no_larger_files, full_disk])
def test_a_full_disk_loses_nothing_and_is_survived(
    full: Callable[[Experiment, Path], AbstractContextManager[None]], folder: Path
) -> None:
    if full is full_disk:
        with small_disk(folder) as place:
            fill_up(place / "store.db", full)
    else:
        fill_up(folder / "store.db", full)


def fill_up(path: Path, full: Callable[[Experiment, Path], AbstractContextManager[None]]) -> None:
    experiment = begin(f"sqlite:///{path}")
    ids = experiment.ask(20_000).ids
    acknowledged: dict[int, float] = {}
    failures: list[StoreUnavailableError] = []
    with full(experiment, path):
        for start in range(0, 20_000, 500):
            part = {each: float(each) for each in ids[start : start + 500]}
            try:
                experiment.tell_many(part)
            except StoreUnavailableError as error:
                failures.append(error)
            else:
                acknowledged |= part
        assert failures
        assert all(one_sentence(error) and "disk" in str(error) for error in failures)
        assert told(experiment) == acknowledged  # it can still be read
        assert experiment.status().answered == len(acknowledged)
    for start in range(0, 20_000, 500):
        part = {each: float(each) for each in ids[start : start + 500]}
        receipt = experiment.tell_many(part)
        assert receipt.repeated == (500 if start in acknowledged else 0)
    assert told(experiment) == {each: float(each) for each in ids}
    assert experiment.verify().sound
    experiment.close()
    assert sound(path)


# Files that cannot be written to, or are none of ours


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be somebody to whom permissions apply."""
    root = os.geteuid() == 0
    if root:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
            os.setegid(0)


def test_a_file_that_may_not_be_written_to(folder: Path) -> None:
    path = folder / "store.db"
    experiment = begin(f"sqlite:///{path}")
    ids = experiment.ask(3).ids
    experiment.tell(ids[0], 1.0)
    experiment.close()
    before = path.read_bytes()
    path.chmod(0o444)
    folder.chmod(0o555)
    with unprivileged():
        for call in (lambda: experiment.tell(ids[1], 2.0), lambda: experiment.ask(1)):
            with pytest.raises(StoreUnavailableError) as caught:
                call()
            assert one_sentence(caught.value)
            assert "writ" in caught.value.remedy
    assert path.read_bytes() == before
    path.chmod(0o666)
    folder.chmod(0o777)
    with unprivileged():
        experiment.tell(ids[1], 2.0)
        assert told(experiment) == {0: 1.0, 1: 2.0}
        assert experiment.verify().sound
        experiment.close()
    assert sound(path)


def test_a_file_opened_for_reading_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with begin(f"sqlite:///{path}") as writer:
        writer.tell(writer.ask(3).ids[0], 1.0)
        with Experiment.open(f"sqlite:///file:{path}?mode=ro&uri=true", "offer") as reader:
            assert reader.status() == writer.status()
            assert str(reader.recommendation()) == str(writer.recommendation())
            with pytest.raises(StoreUnavailableError, match="readonly database") as caught:
                reader.tell(1, 2.0)
            assert one_sentence(caught.value)
            writer.tell(1, 2.0)
            assert told(reader) == {0: 1.0, 1: 2.0}


def sealed(folder: Path) -> str:
    """The URL of an experiment in a folder where nobody may write."""
    url = f"sqlite:///{folder / 'store #1.db'}"
    with begin(url) as experiment:
        experiment.tell(experiment.ask(3).ids[0], 1.0)
        assert overview(experiment).head.outcomes == len(told(experiment))  # all is imported
    folder.chmod(0o555)
    return url


def test_all_that_reads_works_where_nobody_may_write(folder: Path) -> None:
    url = sealed(folder)
    before = (folder / "store #1.db").read_bytes()
    with unprivileged():
        assert [each.name for each in Experiment.list(url)] == ["offer"]
        with Experiment.open(url, "offer") as reader:
            assert (reader.status().pulls, reader.status().answered) == (3, 1)
            assert told(reader) == {0: 1.0}
            assert reader.verify().sound
            assert len(reader.health()) > 5
            assert overview(reader).head.outcomes == 1
            with pytest.raises(StoreUnavailableError) as caught:
                reader.tell(1, 2.0)
    assert "Make the file and its folder writable." in caught.value.remedy
    assert [each.name for each in folder.iterdir()] == ["store #1.db"]
    assert (folder / "store #1.db").read_bytes() == before


def test_what_is_read_without_a_log_is_not_believed_if_somebody_writes(folder: Path) -> None:
    url = sealed(folder)
    with open(folder / "store #1.db", "ab", buffering=0) as file, unprivileged():
        reader = Experiment.open(url, "offer")
        meanwhile = pytest.raises(StoreUnavailableError, match="written to while it was read")
        with meanwhile, reader.read():
            file.write(b"more")
        assert reader.status().answered == 1


def test_a_folder_that_may_not_be_written_to(folder: Path) -> None:
    with begin(f"sqlite:///{folder / 'other.db'}") as other:  # what is imported late is imported
        other.ask(1)
    folder.chmod(0o555)
    with unprivileged(), pytest.raises(StoreUnavailableError) as caught:
        begin(f"sqlite:///{folder / 'store.db'}")
    assert one_sentence(caught.value)
    assert "folder" in caught.value.remedy
    assert not (folder / "store.db").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'nowhere' / 'store.db'}"
    with pytest.raises(StoreUnavailableError) as caught:
        begin(url)
    assert one_sentence(caught.value)
    assert "folder" in caught.value.remedy
    with pytest.raises(UnknownExperimentError):
        Experiment.open(url, "offer")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("id,reward\n" + "0,1.5\n" * 1000)
    before = path.read_bytes()
    url = f"sqlite:///{path}"
    for call in (begin, Experiment.open):
        with pytest.raises(StoreError, match="not a database") as caught:
            call(url, "offer")
        assert one_sentence(caught.value)
    assert path.read_bytes() == before


def test_a_file_that_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with begin(f"sqlite:///{path}") as experiment:
        ids = experiment.ask(5000).ids
        experiment.tell_many([(each, float(each)) for each in ids])
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(4096 * page)
            file.write(bytes(range(256)) * 8)
    with pytest.raises(StoreError, match="malformed") as caught:
        Experiment.open(f"sqlite:///{path}", "offer").outcomes()
    assert one_sentence(caught.value)


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE things (name TEXT)")
        other.execute("INSERT INTO things VALUES ('mine')")
    with begin(f"sqlite:///{path}") as experiment:
        experiment.tell(experiment.ask(1).ids[0], 1.0)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM things").fetchall() == [("mine",)]


# Many at once


def test_who_finds_the_file_locked_waits(sqlite_url: str) -> None:
    with begin(sqlite_url) as experiment:
        ids = experiment.ask(3).ids
        waiting = threading.Thread(target=lambda: experiment.tell(ids[0], 1.0))
        with other_writer(sqlite_url):
            waiting.start()
            waiting.join(0.3)
            assert waiting.is_alive()
            assert told(experiment) == {}  # reading waits for nobody
        waiting.join(HANG_TIMEOUT)
        assert told(experiment) == {0: 1.0}


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="Processes cannot be stopped here.")
def test_a_process_that_is_stopped_in_its_transaction_holds_up_nobody_for_good(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(store_url) as experiment:
        experiment.ask(3)
        writing = processes.Event()
        stopped = processes.Process(target=stop_amid_transaction, args=(store_url, writing))
        stopped.start()
        try:
            assert writing.wait(HANG_TIMEOUT)
            monkeypatch.setattr(session, "BUSY_TIMEOUT", 0.3)
            with pytest.raises(StoreUnavailableError, match="lock") as caught:
                experiment.tell(0, 1.0)
            assert one_sentence(caught.value)
            assert "other program" in caught.value.remedy
            assert told(experiment) == {}  # reading waits for nobody
        finally:
            stopped.kill()
            stopped.join(HANG_TIMEOUT)
        monkeypatch.undo()
        assert experiment.tell(0, 1.0).recorded
        assert told(experiment) == {0: 1.0}


def test_a_server_waits_for_nobody_for_good(postgres_url: str) -> None:
    for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
        with read_on_begin(f"SHOW {name}") as seen:
            begin(postgres_url, name).close()
        assert set(seen) == {"1min"}


def test_eight_processes_begin_ask_and_tell_at_once(store_url: str, tmp_path: Path) -> None:
    start = processes.Barrier(8)
    run_processes(together, [(store_url, tmp_path, number, start, 15) for number in range(8)])
    ids = [int(each) for path in tmp_path.glob("ids *") for each in path.read_text().split()]
    with Experiment.open(store_url, "offer") as experiment:
        assert sorted(ids) == list(range(experiment.status().pulls))
        assert told(experiment) == {each: float(each) for each in ids}
        assert experiment.verify().sound


# A server that goes away and comes back


def test_a_server_that_goes_away_and_comes_back(postgres: Server, postgres_url: str) -> None:
    with begin(postgres_url) as experiment:
        ids = experiment.ask(10, request_id="first").ids
        experiment.tell(ids[0], 1.0)
        postgres.stop(at_once=True)
        try:
            for call in (
                lambda: experiment.tell(ids[1], 2.0),
                lambda: experiment.ask(10, request_id="second"),
                experiment.status,
                experiment.recommendation,
                lambda: Experiment.open(postgres_url, "offer"),
                lambda: begin(postgres_url, "other"),
            ):
                with pytest.raises(StoreUnavailableError) as caught:
                    call()
                assert one_sentence(caught.value)
        finally:
            postgres.start()
        assert experiment.tell(ids[1], 2.0).recorded
        assert experiment.ask(10, request_id="first").ids == ids
        assert experiment.ask(10, request_id="second").ids == range(10, 20)
        assert told(experiment) == {0: 1.0, 1: 2.0}
        assert experiment.verify().sound


def test_a_server_that_fails_while_outcomes_are_told(postgres: Server, postgres_url: str) -> None:
    experiment = begin(postgres_url)
    acknowledged: dict[int, float] = {}
    errors: list[BaseException] = []
    over = threading.Event()

    def work() -> None:
        random = Random(1)
        try:
            for request in count():
                if over.is_set():
                    return
                size = random.choice([1, 20, 300])
                batch = again(partial(experiment.ask, size, request_id=f"{request}"))
                outcomes = {each: float(each) for each in batch.ids}
                again(partial(experiment.tell_many, outcomes))
                acknowledged.update(outcomes)
        except BaseException as error:
            errors.append(error)

    def again(call: Callable[[], T]) -> T:
        while True:
            try:
                return call()
            except StoreUnavailableError as error:
                failures.append(error)
                time.sleep(0.02)

    def await_more(of: Sized) -> None:
        """Wait until there are more than now, or the worker has ended."""
        before, latest = len(of), time.monotonic() + HANG_TIMEOUT
        while len(of) <= before and worker.is_alive():
            assert time.monotonic() < latest
            time.sleep(0.005)

    failures: list[StoreUnavailableError] = []
    worker = threading.Thread(target=work)
    worker.start()
    random = Random(2)
    try:
        for _ in range(3):
            await_more(acknowledged)
            over.wait(random.uniform(0, 0.2))
            postgres.stop(at_once=True)
            await_more(failures)
            postgres.start()
        await_more(acknowledged)
    finally:
        over.set()
        worker.join(HANG_TIMEOUT)
    assert not errors
    assert len(failures) >= 3
    assert all(map(one_sentence, failures))
    assert told(experiment) == acknowledged
    assert experiment.status().pulls == len(acknowledged)
    assert experiment.verify().sound
    experiment.close()


def test_a_server_that_lets_nobody_write(postgres_url: str) -> None:
    def settle(value: str) -> None:
        options = "-c default_transaction_read_only=off"
        with psycopg.connect(postgres_url, autocommit=True, options=options) as connection:
            name = connection.info.dbname
            connection.execute(
                f"ALTER DATABASE {name} SET default_transaction_read_only = {value}".encode()
            )
        end_connections(postgres_url)

    with begin(postgres_url) as experiment:
        ids = experiment.ask(3).ids
        settle("on")
        with pytest.raises(StoreUnavailableError, match="read-only") as caught:
            experiment.tell(ids[0], 1.0)
        assert one_sentence(caught.value)
        assert experiment.status().given == 3
        settle("off")
        experiment.tell(ids[0], 1.0)
        assert told(experiment) == {0: 1.0}
