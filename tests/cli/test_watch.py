"""`bestarm experiment watch`: in a terminal, and in a pipe."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import commands
import pytest
from rich.console import Console

from bestarm import Experiment, Problem
from bestarm.cli.experiment.watch import render
from bestarm.live.watch.overview import overview

run = partial(commands.run, "experiment")
refused = partial(commands.refused, "experiment")
URL = "sqlite:///bestarm.db"
ODD = "new\x1b[2J"
_WATCH = [sys.executable, "-c", "from bestarm.cli import main; main()", "experiment", "watch"]


@pytest.fixture
def experiment(folder: Path) -> Iterator[Experiment]:
    problem = Problem(["old", ODD, "odd"])
    options = {"bounds": [0, 1], "control": "old"}
    with Experiment.create(URL, "shop", problem, policy_options=options, seed=1) as made:
        yield made


def work(experiment: Experiment, batches: int) -> None:
    for _ in range(batches):
        batch = experiment.ask(60)
        experiment.tell_many({each.id: float(each.arm == 1) for each in batch})


def tell_no_difference(experiment: Experiment) -> None:
    experiment.tell_many({each.id: 1.0 for each in experiment.ask(60)})


def lines_of(experiment: Experiment, width: int = 120) -> str:
    screen = Console(record=True, width=width, file=io.StringIO(), markup=False)
    screen.print(render(overview(experiment)))
    return screen.export_text()


def test_what_is_shown(experiment: Experiment) -> None:
    text = lines_of(experiment)
    assert "shop: running" in text
    assert "0 outcomes, 0 outstanding" in text
    work(experiment, 1)
    experiment.ask(3)
    seen, text = overview(experiment), lines_of(experiment)
    assert seen.verdict.replace(ODD, r"new\x1b[2J") in " ".join(text.split())
    assert "60 outcomes, 3 outstanding" in text
    assert re.search(r"Health: all \d+ checks are well\.", text)
    assert "\x1b" not in text
    for option in seen.leaderboard:
        label = option.label.replace("\x1b", r"\x1b")
        [line] = [each for each in text.splitlines() if each.startswith(f"{label} ")]
        assert option.arm is not None
        share = seen.allocation[option.arm].drawn / seen.used
        assert f"{share:.1%}".replace("%", " %") in line
        if option.status == "in":
            assert option.low is not None
            assert option.evidence is not None
            assert seen.unit.interval(option.low, option.high, option.behind) in line
            assert line.endswith(f"{option.evidence:.0%}".replace("%", " %"))
    assert text == lines_of(experiment, width=120)


def test_an_alarm_is_shown(experiment: Experiment) -> None:
    experiment.fail_many(experiment.ask(200).ids)
    assert "Health: alarm: 200 of 200 outcomes are missing" in " ".join(
        lines_of(experiment).split()
    )


def test_once(experiment: Experiment) -> None:
    work(experiment, 1)
    out, err = run("watch", "shop", "--once")
    assert out.startswith("shop: running\n")
    assert err == ""


def test_in_a_pipe_a_line_is_printed_per_change_until_the_end(experiment: Experiment) -> None:
    with subprocess.Popen([*_WATCH, "shop"], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        first = watching.stdout.readline()
        assert "  0 outcomes  running: Ready: 3 options wait" in first
        experiment.pause()
        assert "  0 outcomes  paused: Paused, no winner yet" in watching.stdout.readline()
        experiment.resume()
        assert "  running: " in watching.stdout.readline()
        experiment.stop()
        assert "  stopped: Stopped by hand" in watching.stdout.readline()
        assert watching.stdout.read() == ""
        assert watching.wait(120) == 0


def test_ctrl_c_ends_it_without_a_word(experiment: Experiment) -> None:
    with subprocess.Popen(
        [*_WATCH, "shop"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=120)
        assert (watching.returncode, out, err) == (0, "", "")


def test_in_a_terminal_it_is_shown_until_ctrl_c(experiment: Experiment) -> None:
    tell_no_difference(experiment)
    screen, terminal = pty.openpty()
    shown = b""
    env = os.environ | {"TERM": "xterm", "COLUMNS": "110", "LINES": "40"}
    with subprocess.Popen(
        [*_WATCH, "shop"], stdout=terminal, stderr=subprocess.PIPE, env=env
    ) as watching:
        os.close(terminal)
        while b"checks are well" not in shown:
            shown += os.read(screen, 65536)
        tell_no_difference(experiment)  # it goes on: else watching ends by itself
        while b"120 outcomes" not in shown:
            shown += os.read(screen, 65536)
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=120)
        assert (watching.returncode, err) == (0, b"")
    os.close(screen)
    assert b"behind the leader" in shown


def test_an_unknown_experiment_is_refused(folder: Path) -> None:
    assert "There is no experiment 'none'" in refused("watch", "none")
