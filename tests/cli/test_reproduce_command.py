"""`bestarm reproduce` from the outside: its folder, its refusals, its interruption."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import commands
import numpy as np
import pytest
from databases import wait_until
from forked_commands import ForkedCommand

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("folder")

run = partial(commands.run, "reproduce")
refused = partial(commands.refused, "reproduce")


def files(folder: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and "journal" not in path.parts and path.name != ".lock"
    }


@pytest.mark.usefixtures("quick_workers")
def test_the_folder_is_the_same_to_the_byte_with_one_and_two_workers() -> None:
    parts = ("reproduce", "jester-ranking", "--runs", "4", "--seed", "5")
    report = commands.data(*parts, "--workers", "1", "--out", "one")
    assert "synthetic users" in commands.run(*parts, "--workers", "2", "--out", "two")[0]
    assert files("one") == files("two")
    names = set(files("one"))
    assert {"report.html", "runs.csv", "cells.csv", "tables/jester-ranking.tex"} <= names
    assert report["synthetic"] is True
    published = [cell for cell in report["cells"] if cell["published"] is not None]
    assert [cell["published"] for cell in published] == [0.65, 0.58, 0.69, 0.58]
    assert not any(cell["verdict"] for cell in published)  # made-up users are not judged
    assert len(Path("one/runs.csv").read_text().splitlines()) == 1 + 6 * 4


@pytest.mark.usefixtures("no_pictures")
def test_an_interruption_says_how_to_go_on_and_going_on_ends_in_the_same_bytes() -> None:
    options = ("jester-ranking", "--runs", "60", "--workers", "1", "--out")
    process = ForkedCommand("reproduce", *options, "cut")
    wait_for_lines(20, Path("cut/journal/jester-ranking.uniform-3000.csv"), process)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in message
    assert "--out cut --resume" in message
    assert not Path("cut/report.html").exists()
    assert "`resume`" in refused(*options, "cut")
    run(*options, "cut", "--resume")
    run(*options, "whole")
    assert files("cut") == files("whole")


def wait_for_lines(
    count: int, journal: Path, process: ForkedCommand | subprocess.Popen[str]
) -> None:
    """Wait until a journal has more lines than this, while the command runs."""

    def has_them() -> bool:
        assert process.poll() is None, "it finished before that"
        return journal.exists() and journal.read_bytes().count(b"\n") > count

    wait_until(has_them)


def started() -> subprocess.Popen[str]:
    """The command with two workers, which have finished some runs of many."""
    command = [sys.executable, "-c", "from bestarm.cli import main; main()", "reproduce", "jester"]
    command += ["--runs", "5000", "--workers", "2", "--out", "out"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    wait_for_lines(5, Path("out/journal/jester.sp-bai.csv"), process)
    return process


def children(process: subprocess.Popen[str]) -> list[str]:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_killing_the_command_ends_its_workers() -> None:
    with started() as process:
        listed = children(process)
        process.kill()
        process.communicate()
    assert len(listed) >= 2
    wait_until(lambda: not any(map(alive, listed)))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_an_interrupted_command_says_so_once_its_workers_have_ended() -> None:
    with started() as process:
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
def test_a_full_disk_is_a_sentence_and_what_fitted_is_kept() -> None:
    options = ("jester-ranking", "--runs", "100", "--workers", "1", "--out", "out")
    full = ForkedCommand("reproduce", *options, first=fill_disk)
    _, message = full.communicate()
    assert full.returncode == 2, message
    assert "Traceback" not in message
    assert "jester-ranking.deo-3000.csv" in message.splitlines()[-1]
    run(*options, "--resume")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("small",), "Did you mean small-gap?"),
        (("jester", "--runs", "0"), "`runs` must"),
        (("jester", "--workers", "0"), "`workers` must"),
        (("jester", "--data", "absent.csv"), "absent.csv"),
        (("jester", "--data", "one.npz"), "not dataset 2"),
        (("jester", "--data", "other.npz"), "Joke 7 is the best"),
        (("jester", "--out", "file"), "is a file"),
        (("jester", "--out", "/proc/closed/out"), "/proc/closed"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(
    arguments: tuple[str, ...], sentence: str, folder: Path
) -> None:
    (folder / "file").write_text("mine")
    ratings = np.random.default_rng(0).integers(-9000, 9000, (50, 8)).astype(np.int16)
    jokes = np.array([7, 8, 13, 15, 16, 17, 18, 19])
    np.savez(folder / "one.npz", ratings_hundredths=ratings // 10, jokes=jokes)
    ratings[:, 0] = 9500
    np.savez(folder / "other.npz", ratings_thousandths=ratings, jokes=jokes)
    before = sorted(folder.rglob("*"))
    assert sentence in refused(*arguments)
    assert sorted(folder.rglob("*")) == before
