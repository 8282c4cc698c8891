"""A SQLite file that is removed or replaced in use: nothing is acknowledged into nowhere."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Thread

import pytest
from databases import wait_until
from recorded import told
from sqlalchemy import PoolProxiedConnection, QueuePool
from workers_store import begin

from bestarm import Experiment
from bestarm.errors import StoreUnavailableError
from bestarm.live.store import Store
from bestarm.live.store.session import SqliteSession


def calls(experiment: Experiment) -> dict[str, Callable[[], object]]:
    """Everything that reads or writes."""
    return {
        "tell": lambda: experiment.tell(3, 0.5),
        "tell again": lambda: experiment.tell(0, 0.5),
        "tell_many": lambda: experiment.tell_many({4: 0.5, 5: 0.5}),
        "ask": experiment.ask,
        "fail": lambda: experiment.fail(6),
        "expire": experiment.expire,
        "pause": experiment.pause,
        "stop": experiment.stop,
        "change_lease": lambda: experiment.change_lease(5.0),
        "status": experiment.status,
        "recommendation": experiment.recommendation,
        "health": experiment.health,
        "verify": experiment.verify,
        "replay": experiment.replay,
        "events": experiment.events,
        "outcomes": experiment.outcomes,
    }


def assert_refused(experiment: Experiment, words: str) -> None:
    for name, call in calls(experiment).items():
        with pytest.raises(StoreUnavailableError, match=words) as caught:
            call()
        assert caught.value.remedy, name


def start(experiment: Experiment) -> None:
    experiment.ask(10)
    experiment.tell(0, 0.5)


def remove_logs(path: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def test_a_file_that_was_removed_takes_no_outcomes(sqlite_url: str, tmp_path: Path) -> None:
    with begin(sqlite_url) as experiment:
        start(experiment)
        (tmp_path / "store.db").unlink()
        assert_refused(experiment, "is gone")
    assert not (tmp_path / "store.db").exists()


def test_a_file_that_is_put_back_goes_on(sqlite_url: str, tmp_path: Path) -> None:
    path, away = tmp_path / "store.db", tmp_path / "away.db"
    with begin(sqlite_url) as experiment:
        start(experiment)
        path.rename(away)
        assert_refused(experiment, "is gone")
        away.rename(path)
        assert experiment.tell(1, 0.25).recorded == 1
        assert told(experiment) == {0: 0.5, 1: 0.25}
        assert experiment.verify().sound


@pytest.mark.parametrize("kind", ["another experiment", "a backup", "an empty file"])
def test_a_file_that_was_replaced_is_not_taken_for_the_first(
    sqlite_url: str, tmp_path: Path, kind: str
) -> None:
    path, other = tmp_path / "store.db", tmp_path / "other.db"
    with begin(sqlite_url) as experiment:
        experiment.ask(5)
        if kind == "another experiment":
            begin(f"sqlite:///{other}", "other").close()
        elif kind == "a backup":
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(other)) as copy:
                source.backup(copy)
        else:
            other.touch()
        start(experiment)
        os.replace(other, path)
        assert_refused(experiment, "was replaced by another:")
        assert_refused(experiment, "was replaced by another")  # nor the second time
    remove_logs(path)  # as after a restore
    if kind == "a backup":
        with Experiment.open(sqlite_url, "offer") as again:
            assert again.status().pulls == 5
            assert again.tell(0, 0.75).recorded == 1


def test_another_store_uses_the_file_that_is_there_now(sqlite_url: str, tmp_path: Path) -> None:
    store, other = Store(sqlite_url), tmp_path / "other.db"
    first = begin(store)
    start(first)
    begin(f"sqlite:///{other}").close()
    os.replace(other, tmp_path / "store.db")
    remove_logs(tmp_path / "store.db")
    with pytest.raises(StoreUnavailableError, match="was replaced"):
        first.status()
    with pytest.raises(StoreUnavailableError, match="was replaced"):
        Experiment.open(store, "offer")
    store.close()
    with Experiment.open(sqlite_url, "offer") as again:
        assert again.status().pulls == 0
        assert list(again.ask(2).ids) == [0, 1]
    with pytest.raises(StoreUnavailableError, match="was replaced"):
        first.tell(1, 0.5)


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
def test_a_log_that_was_removed_takes_no_outcomes(
    sqlite_url: str, tmp_path: Path, ending: str
) -> None:
    """Another process would begin a new log, and never see what this one writes to the old."""
    with begin(sqlite_url) as experiment:
        start(experiment)
        (tmp_path / f"store.db{ending}").unlink()
        with pytest.raises(
            StoreUnavailableError, match=r"\(-wal\) or its index \(-shm\) was removed"
        ):
            experiment.tell(1, 0.5)
        assert_refused(experiment, "log .* was removed")
    # What was acknowledged before was still in the log, and is not lost either.
    with Experiment.open(sqlite_url, "offer") as again:
        assert told(again) == {0: 0.5}
        assert again.status().pulls == 10
        assert again.tell(1, 0.5).recorded == 1
        assert again.verify().sound


def test_a_log_that_is_removed_before_anything_was_written_takes_no_outcomes(
    sqlite_url: str, tmp_path: Path
) -> None:
    with begin(sqlite_url) as first:
        first.ask(3)
        with Experiment.open(sqlite_url, "offer") as experiment:
            experiment.status()  # it has only read
            for name in ("store.db-wal", "store.db-shm"):
                (tmp_path / name).unlink()
            with pytest.raises(StoreUnavailableError, match="log"):
                experiment.tell(0, 0.5)


def test_a_file_that_goes_while_one_writes_is_noticed_before_one_is_told(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(sqlite_url) as experiment:
        start(experiment)
        commit = SqliteSession.commit

        def removed(self: SqliteSession) -> None:
            (tmp_path / "store.db").unlink()
            commit(self)

        monkeypatch.setattr(SqliteSession, "commit", removed)
        with pytest.raises(StoreUnavailableError, match="is gone"):
            experiment.tell(1, 0.5)


def test_the_log_of_others_may_come_and_go(sqlite_url: str, tmp_path: Path) -> None:
    """SQLite itself removes it when the last one closes the file."""
    store = Store(sqlite_url)
    begin(store).ask(3)
    assert (tmp_path / "store.db-wal").exists()
    store.close()
    assert not (tmp_path / "store.db-wal").exists()
    with Experiment.open(sqlite_url, "offer") as between:
        between.tell(0, 0.5)
        again = Experiment.open(store, "offer")
        again.tell(1, 0.5)
    assert again.tell(2, 0.5).recorded == 1
    store.close()


def test_the_log_may_go_with_the_only_connection_that_used_it(
    sqlite_url: str, tmp_path: Path
) -> None:
    """A copy that does not write ahead yet: connections that only read it hold no log."""
    begin(sqlite_url).close()
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    store = Store(f"sqlite:///{copy}")
    experiment, pool = Experiment.open(store, "offer"), store._engine.pool
    assert isinstance(pool, QueuePool)
    with ThreadPoolExecutor(1) as thread:
        with ExitStack() as readers:
            for _ in range(pool.size()):
                readers.enter_context(store.snapshot())
            asked = thread.submit(experiment.ask, 3)  # on a connection that the pool does not keep
            wait_until(lambda: pool.checkedout() > pool.size())
        assert asked.result().ids == range(3)
    assert experiment.tell(0, 0.5).recorded == 1
    assert told(experiment) == {0: 0.5}
    store.close()


def test_a_store_that_is_closed_amid_a_transaction(sqlite_url: str, tmp_path: Path) -> None:
    """The connection that was in use is closed with the transaction, and its log may go."""
    store = Store(sqlite_url)
    experiment = begin(store)
    experiment.ask(3)
    with store.snapshot():
        store.close()
    assert not (tmp_path / "store.db-wal").exists()
    assert experiment.tell(0, 0.5).recorded == 1
    store.close()


def test_a_store_that_is_closed_as_a_transaction_ends(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(sqlite_url)
    experiment = begin(store)
    with closing(store._engine.raw_connection()) as borrowed:
        kind, release = type(borrowed), type(borrowed).close

    def release_amid_close(connection: PoolProxiedConnection) -> None:
        monkeypatch.undo()
        threads.append(Thread(target=store.close))
        threads[0].start()
        threads[0].join(0.5)  # it may have to wait
        release(connection)

    threads: list[Thread] = []
    monkeypatch.setattr(kind, "close", release_amid_close)
    experiment.ask(3)
    threads[0].join()
    gc.collect()
    assert not (tmp_path / "store.db-wal").exists()
    assert experiment.tell(0, 0.5).recorded == 1
    store.close()


def test_a_folder_that_the_process_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is relative to where the process was when the store was named."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with begin("sqlite:///store.db") as experiment:
        monkeypatch.chdir(tmp_path / "two")
        experiment.ask(3)
        assert experiment.tell(0, 0.5).recorded == 1
    assert (tmp_path / "one" / "store.db").exists()
    assert not (tmp_path / "two" / "store.db").exists()


def test_a_link_to_the_file_may_be_used(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "store.db").symlink_to(tmp_path / "disk" / "real.db")
    with begin(sqlite_url) as experiment:
        start(experiment)
        assert experiment.tell(1, 0.5).recorded == 1
        shutil.move(tmp_path / "disk" / "real.db", tmp_path / "disk" / "moved.db")
        assert_refused(experiment, "is gone")
