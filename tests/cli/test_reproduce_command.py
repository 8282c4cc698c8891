"""`bestarm reproduce` from the outside: its folder, its refusals, its interruption."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from forked_commands import ForkedCommand
from typer.testing import CliRunner, Result

from bestarm.cli.app import app

pytest.importorskip("matplotlib")


def reproduce(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "journal" not in path.parts and path.name != ".lock"
    }


@pytest.mark.usefixtures("quick_workers")
def test_the_folder_is_the_same_to_the_byte_with_one_and_two_workers(tmp_path: Path) -> None:
    parts = ("jester-ranking", "--runs", 4, "--seed", 5)
    one = reproduce(*parts, "--workers", 1, "--out", tmp_path / "one", "--json")
    assert one.exit_code == 0, one.output
    two = reproduce(*parts, "--workers", 2, "--out", tmp_path / "two")
    assert two.exit_code == 0, two.output
    assert "synthetic users" in two.output
    assert files(tmp_path / "one") == files(tmp_path / "two")
    names = set(files(tmp_path / "one"))
    assert {"report.html", "runs.csv", "cells.csv", "tables/jester-ranking.tex"} <= names
    report = json.loads(one.stdout)
    assert report["synthetic"] is True
    published = [cell for cell in report["cells"] if cell["published"] is not None]
    assert [cell["published"] for cell in published] == [0.65, 0.58, 0.69, 0.58]
    assert all(cell["verdict"] for cell in published)
    runs = (tmp_path / "one" / "runs.csv").read_text().splitlines()
    assert len(runs) == 1 + 6 * 4


@pytest.mark.usefixtures("no_pictures")
def test_an_interruption_says_how_to_go_on_and_going_on_ends_in_the_same_bytes(
    tmp_path: Path,
) -> None:
    out = tmp_path / "cut"
    options = ("--runs", "60", "--workers", "1", "--out", str(out))
    process = ForkedCommand("reproduce", "jester-ranking", *options)
    journal = out / "journal" / "jester-ranking.uniform-3000.csv"
    deadline = time.monotonic() + 120
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 20):
        assert process.poll() is None, "it finished before it could be interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in message
    assert f"--out {out} --resume" in message
    assert not (out / "report.html").exists()
    again = reproduce("jester-ranking", "--runs", 60, "--workers", 1, "--out", out)
    assert again.exit_code == 2
    assert "`resume`" in again.stderr
    again = reproduce("jester-ranking", "--runs", 60, "--workers", 1, "--out", out, "--resume")
    assert again.exit_code == 0, again.output
    whole = reproduce("jester-ranking", "--runs", 60, "--workers", 1, "--out", tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    assert files(out) == files(tmp_path / "whole")


def started(folder: Path) -> subprocess.Popen[str]:
    """The command with two workers, which have finished some runs of many."""
    command = [sys.executable, "-c", "from bestarm.cli import main; main()", "reproduce", "jester"]
    command += ["--runs", "5000", "--workers", "2", "--out", str(folder / "out")]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    journal = folder / "out" / "journal" / "jester.sp-bai.csv"
    deadline = time.monotonic() + 120
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 5):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def children(process: subprocess.Popen[str]) -> list[str]:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_killing_the_command_ends_its_workers(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        listed = children(process)
        process.kill()
        process.communicate()
    assert len(listed) >= 2
    deadline = time.monotonic() + 120
    while any(alive(pid) for pid in listed):
        assert time.monotonic() < deadline, "workers outlive the command"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_an_interrupted_command_says_so_once_its_workers_have_ended(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert process.stderr is not None
        workers = [
            pid
            for pid in children(process)
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        process.send_signal(signal.SIGINT)
        line = next((each for each in process.stderr if "interrupted;" in each), "")
        left = [pid for pid in workers if alive(pid)]
        process.communicate()
    assert line
    assert len(workers) == 2
    assert not left
    assert process.returncode == 130


def fill_disk() -> None:
    """Let no file be longer than a kilobyte; and leave no module behind that was cut there."""
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


@pytest.mark.usefixtures("no_pictures")
def test_a_full_disk_is_a_sentence_and_what_fitted_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--runs", "100", "--workers", "1", "--out", str(out))
    full = ForkedCommand("reproduce", "jester-ranking", *options, first=fill_disk)
    _, message = full.communicate()
    assert full.returncode == 2, message
    assert "Traceback" not in message
    assert "jester-ranking.deo-3000.csv" in message.splitlines()[-1]
    again = reproduce("jester-ranking", "--runs", 100, "--workers", 1, "--out", out, "--resume")
    assert again.exit_code == 0, again.output


def unanswered() -> str:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("small",), "Did you mean small-gap?"),
        (("jester", "--runs", "0"), "`runs` must"),
        (("jester", "--workers", "0"), "`workers` must"),
        (("jester", "--data", "{tmp}/absent.csv"), "absent.csv"),
        (("jester", "--data", "{tmp}/one.npz"), "not dataset 2"),
        (("jester", "--data", "{tmp}/other.npz"), "Joke 7 is the best"),
        (("jester", "--out", "{tmp}/file"), "is a file"),
        (("jester", "--dask", "{dask}"), "answers at"),
        (("jester", "--dask", "{dask}", "--workers", "2"), "exclude each other"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    ratings = np.random.default_rng(0).integers(-9000, 9000, (50, 8)).astype(np.int16)
    jokes = np.array([7, 8, 13, 15, 16, 17, 18, 19])
    np.savez(tmp_path / "one.npz", ratings_hundredths=ratings // 10, jokes=jokes)
    ratings[:, 0] = 9500
    np.savez(tmp_path / "other.npz", ratings_thousandths=ratings, jokes=jokes)
    if "{dask}" in arguments:
        pytest.importorskip("distributed", reason="pip install 'bestarm[dask]' to run this")
    before = sorted(tmp_path.rglob("*"))
    filled = [word.format(tmp=tmp_path, dask=unanswered()) for word in arguments]
    if "--out" not in filled:
        filled += ["--out", str(tmp_path / "out")]
    result = reproduce(*filled)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert result.stderr.startswith("bestarm: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_made_is_named() -> None:
    result = reproduce("jester-ranking", "--runs", 1, "--out", "/proc/closed/out")
    assert result.exit_code == 2
    assert "/proc/closed" in result.stderr
    assert result.stderr.count("\n") == 1
