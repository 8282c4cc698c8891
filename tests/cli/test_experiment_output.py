"""What the commands print, where printing is not as it should be: full, odd, or of another code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import data, run
from forked_commands import PassedFile
from workers_started import HANG_TIMEOUT, processes

from bestarm import Experiment, Problem
from bestarm.cli import main
from bestarm.cli.output import printable

pytestmark = pytest.mark.usefixtures("folder")

ODD = "tea\x1b[2J\nnow\u202eback"
SHOWN = "tea\\x1b[2J\\nnow\\u202eback"
URL = "sqlite:///bestarm.db"


def make(label: str = "tea", **given: Any) -> None:
    problem = Problem([[1, 0], [0, 1]], source_labels=[label, "δ-coffee"])
    options = {"bounds": [0, 1], "max_pulls": 40}
    Experiment.create(URL, "drinks", problem, policy_options=options, **{"seed": 0} | given).close()


def print_to(out: int | None, encoding: str, arguments: tuple[str, ...]) -> None:
    """`bestarm` in a process of its own, where all is imported already."""
    os.dup2(os.open("stderr.txt", os.O_WRONLY | os.O_CREAT), 2)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if out is None:
        os.close(1)
        sys.stdout = None  # as Python starts where output is closed
    else:
        os.dup2(out, 1)
        sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.argv = ["bestarm", *arguments]
    try:
        main()
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()  # as Python does at exit


def started(*arguments: str, out: int | None, encoding: str = "utf-8") -> tuple[int | None, str]:
    """How a command ends that prints into this descriptor, and what it says beside."""
    passed = None if out is None else PassedFile(out)
    process = processes.Process(target=print_to, args=(passed, encoding, arguments))
    process.start()
    process.join(HANG_TIMEOUT)
    message = Path("stderr.txt").read_text(encoding="utf-8")
    Path("stderr.txt").unlink()
    return process.exitcode, message


def into_nowhere(*arguments: str) -> str:
    """The message of a command whose output is a disk that is full."""
    with Path("/dev/full").open("wb") as full:
        code, message = started(*arguments, out=full.fileno())
    assert code == 2
    assert message.startswith("bestarm: ")
    assert message.count("\n") == 1, message
    assert "no space left" in message.lower()
    return message


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full")


@needs_full
@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_what_was_given_out_and_could_not_be_printed_can_be_found(json_too: list[str]) -> None:
    make()
    message = into_nowhere("experiment", "ask", "drinks", "3", *json_too)
    assert "Assignments 0 to 2 were made" in message
    assert "experiment export drinks" in message
    run("experiment", "export", "drinks", "--out", "all.csv")
    assert len(Path("all.csv").read_text(encoding="utf-8").splitlines()) == 4
    named = ("experiment", "ask", "drinks", "2", "--request-id", "a visit", *json_too)
    assert "--request-id 'a visit'" in into_nowhere(*named)
    shown, _ = run(*named)
    assert "3" in shown
    with Experiment.open(URL, "drinks") as experiment:
        assert experiment.status().pulls == 5


def test_nothing_is_given_out_where_output_is_closed() -> None:
    make()
    code, message = started("experiment", "ask", "drinks", "3", out=None)
    assert (code, message.count("\n")) == (2, 1), message
    assert message.startswith("bestarm: Nothing was assigned")
    with Experiment.open(URL, "drinks") as experiment:
        assert experiment.status().pulls == 0


@needs_full
@pytest.mark.parametrize(
    "command",
    [
        ["experiment", "tell", "drinks", "0", "1"],
        ["experiment", "status", "drinks"],
        ["doctor", "--store", URL],
        ["design", "arms.csv"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_full_disk_is_one_sentence(command: list[str]) -> None:
    make()
    Path("arms.csv").write_text("tea,1,0\ncoffee,0,1\nwater,0.5,0.5\n", encoding="utf-8")
    with Experiment.open(URL, "drinks") as experiment:
        experiment.ask()
        into_nowhere(*command)
        assert len(experiment.outcomes()) == (command[1] == "tell")


def test_whoever_reads_no_further_is_told_what_was_given_out() -> None:
    make()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        code, message = started("experiment", "ask", "drinks", out=writing)
    finally:
        os.close(writing)
    assert code == 2
    assert "were made but could not be printed" in message
    assert "Traceback" not in message


def test_labels_cannot_move_the_cursor() -> None:
    make(ODD, description="a\x1b]0;owned\x07\nb")
    out = [run("experiment", "ask", "drinks", "20")[0]]
    with Experiment.open(URL, "drinks") as experiment:
        experiment.tell_many({n: float(n % 2) for n in range(20)})
        leader = experiment.recommendation().label
        experiment.stop("no\x1b[31mmore\nof it")
    looks = ("status", "recommend", "health", "log", "verify", "replay")
    out += [run("experiment", command, "drinks")[0] for command in looks]
    out += run("experiment", "list")
    whole = "".join(out)
    assert all(each.isprintable() or each == "\n" for each in whole)
    assert SHOWN in whole
    assert "no\\x1b[31mmore\\nof it" in whole
    assert leader in {ODD, "δ-coffee"}
    [served] = data("experiment", "ask", "drinks")["assignments"]
    assert (served["id"], served["label"], served["experiment"]) == (None, leader, False)
    assert ODD in data("experiment", "status", "drinks")["arms"]


def test_labels_of_files_cannot_either() -> None:
    rows = '"tea\x1b[2J\nnow",1,0\ncoffee,0,1\nwater,0.5,0.5\n'
    Path("arms.csv").write_text(rows, encoding="utf-8")
    Path("theta.csv").write_text("0.5,0.25\n", encoding="utf-8")
    out, _ = run("design", "arms.csv")
    out += run("check", "arms.csv", "--theta", "theta.csv")[0]
    assert "\x1b" not in out
    assert out.count("tea\\x1b[2J\\nnow") == 2


def test_what_people_write_is_left_as_it_is() -> None:
    for text in ("naïve 日本語 🙂", "👩\u200d🔬", "deux\u00a0mots", "a\\b"):
        assert printable(text) == text
    assert printable("a\tb\r\x00\x9b\u2028\ud800") == "a\\tb\\r\\x00\\x9b\\u2028\\ud800"


def test_a_console_without_japanese() -> None:
    Path("arms.csv").write_text("δ-tea,1,0\n日本,0,1\n", encoding="utf-8")
    run("experiment", "create", "drinks", "arms.csv", "--bounds", "0", "1")
    for command in (
        ("experiment", "ask", "drinks", "9"),
        ("experiment", "status", "drinks", "--json"),
    ):
        with Path("printed.txt").open("wb") as file:
            assert started(*command, out=file.fileno(), encoding="cp1252") == (0, ""), command
        out = Path("printed.txt").read_bytes()
        assert out.decode("cp1252")
        assert b"\\u65e5" in out, out


def test_a_seed_that_nobody_named_is_another_each_time() -> None:
    Path("arms.csv").write_text("tea,1,0\ncoffee,0,1\n", encoding="utf-8")
    seeds = set()
    for name in ("one", "two", "three"):
        seeds.add(data("experiment", "create", name, "arms.csv", "--bounds", "0", "1")["seed"])
        with Experiment.open(URL, name) as experiment:
            assert str(experiment.seed) in seeds
    assert len(seeds) == 3
    # Texts, which JSON as browsers read it keeps. Three below 2¹⁰⁰ have a chance of 2⁻⁸⁴.
    assert max(map(int, seeds)) > 2**100


def test_a_lease_can_be_changed_until_the_end() -> None:
    make()
    with Experiment.open(URL, "drinks") as experiment:
        for text, seconds, words in (
            ("90m", 5400.0, "90 minutes"),
            ("12h", 43200.0, "12 hours"),
            ("2.5", 2.5, "2.5 seconds"),
            ("none", None, "any time"),
        ):
            shown, _ = run("experiment", "lease", "drinks", text)
            assert experiment.lease == seconds
            assert f"may take {words} from now on" in shown
            again = data("experiment", "lease", "drinks", text)
            assert again == {"experiment": "drinks", "state": "running", "lease": seconds}
        changes = [event for event in experiment.events() if event.kind == "changed"]
        assert [event.data["lease"] for event in changes] == [5400.0, 43200.0, 2.5, None]
        for wrong in ("0", "-3", "soon", "1_0s", ""):
            assert "`lease` must" in run("experiment", "lease", "drinks", "--", wrong, code=2)[1]
        experiment.stop()
        before = len(experiment.events())
        message = run("experiment", "lease", "drinks", "1h", code=2)[1]
        assert "is stopped cannot be given another lease" in message
        assert (experiment.lease, len(experiment.events())) == (None, before)


@pytest.mark.parametrize("number", ["0_1", "1_0", "_1", "1e1_0"])
def test_an_underscore_is_no_part_of_a_number(number: str) -> None:
    make()
    with Experiment.open(URL, "drinks") as experiment:
        experiment.ask(12)
        for outcome in (("0", number), (number, "1")):
            assert "must be a" in run("experiment", "tell", "drinks", *outcome, code=2)[1]
        Path("outcomes.csv").write_text(f"id,reward\n0,{number}\n", encoding="utf-8")
        run("experiment", "tell", "drinks", "--from", "outcomes.csv", code=2)
        run("experiment", "fail", "drinks", number, code=2)
        run("experiment", "ask", "drinks", number, code=2)
        assert experiment.status().answered == 0
        assert experiment.status().pulls == 12
    Path("arms.csv").write_text(f"tea,1,{number}\ncoffee,0,1\n", encoding="utf-8")
    assert number in run("check", "arms.csv", code=2)[1]
    Path("arms.csv").write_text("tea,1,0\ncoffee,0,1\n", encoding="utf-8")
    for command in (
        ("check", "arms.csv", "--noise", number),
        ("plan", "arms.csv", "--gap", number),
        ("plan", "arms.csv", "--gap", "1", "--bounds", "0", number),
        ("experiment", "create", "new", "arms.csv", "--bounds", "0", number),
        ("experiment", "create", "new", "arms.csv", "--seed", number),
        ("experiment", "create", "new", "arms.csv", "--baseline", number),
        ("experiment", "log", "drinks", "--last", number),
    ):
        assert repr(number) in run(*command, code=2)[1].replace("│", "")
    assert len(Experiment.list(URL)) == 1
