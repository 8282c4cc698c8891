"""`bestarm evaluate` from the outside: files, refusals, Ctrl-C, and running it again."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import commands
import pytest
from databases import wait_until
from terminal import start_command
from workers_started import HANG_TIMEOUT, processes

from bestarm import Experiment
from bestarm.cli import main

run = partial(commands.run, "evaluate")
data = partial(commands.data, "evaluate")
QUESTION = ("judge.py", "--options", "short, long", "--items", "items.txt")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "judge.py").write_text(JUDGE, encoding="utf-8")
    lines = "\n".join("?" * number for number in range(1, 81))
    (folder / "items.txt").write_text(f"{lines}\n\n", encoding="utf-8")


JUDGE = """
def judge(option, item):
    print("judging", item)
    return len(item) % 7 / 10 + (option == "short") / 3
"""
# A judge that notes its calls, and waits for a file.
PATIENT = """
import pathlib, time

def judge(option, item):
    with open("calls", "a") as calls:
        calls.write(f"{option},{item}\\n")
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return float(option == "short")
"""


def test_it_says_what_is_best_and_what_was_saved_and_where_to_watch() -> None:
    out, err = run(*QUESTION, "--seed", "1")
    assert out.startswith("'short' is the best of 2 options.")
    assert "of 160 judgements" in out
    assert "Saved:" in out
    assert "judging" not in out  # what the judge prints
    assert "bestarm serve --store sqlite:///bestarm.db" in err
    with Experiment.open("sqlite:///bestarm.db", "judge") as experiment:
        assert experiment.finished
        assert experiment.problem.source_labels == ("short", "long")
        made = experiment.status().pulls
    out, err = run(*QUESTION, "--seed", "1", "--json")
    found = json.loads(out)
    assert "judging ?" not in err  # nothing was judged again
    assert found["recommendation"]["label"] == "short"
    assert found["judgements"] <= made
    assert (found["experiment"], found["all_judgements"]) == ("judge", 160)
    assert [score["label"] for score in found["scores"]] == ["short", "long"]


def test_a_tie_is_called_one_in_words_and_as_json() -> None:
    Path("judge.py").write_text("def judge(option, item):\n    return 0.5\n", encoding="utf-8")
    out, _ = run(*QUESTION, "--seed", "1")
    assert out.startswith("'short' and 'long' tie as the best of 2 options over all 80 items")
    assert "by hand" not in out
    found = data(*QUESTION, "--seed", "1")
    assert found["recommendation"]["tied"] == found["recommendation"]["active"] == ["short", "long"]
    assert [score["possible"] for score in found["scores"]] == [True, True]
    assert found["state"] == "finished"


def test_once_finished_the_same_command_says_that_nothing_was_judged() -> None:
    run(*QUESTION, "--seed", "1")
    out, err = run(*QUESTION, "--seed", "1")
    assert out.startswith("Finished earlier: nothing was judged. To judge everything anew, use ")
    assert "judging 2 options" not in err
    assert data(*QUESTION)["judged_now"] == 0


def test_a_judge_that_was_edited_is_noticed_and_fresh_asks_it_anew() -> None:
    run(*QUESTION, "--seed", "1")
    edited = JUDGE.replace('"short"', '"long"')
    Path("judge.py").write_text(edited, encoding="utf-8")
    out, _ = run(*QUESTION, "--seed", "1")
    assert "'short' is the best of 2 options." in out
    assert "The judge's file has changed since the first scores were recorded." in out
    out, err = run(*QUESTION, "--seed", "1", "--fresh")
    assert out.startswith("'long' is the best of 2 options.")
    assert "has changed" not in out + err
    assert "The scores are those of the experiment 'judge-2'" in err
    found = data(*QUESTION)
    assert (found["experiment"], found["recommendation"]["label"]) == ("judge-2", "long")


def test_a_judge_is_read_as_it_is_however_soon_it_was_edited() -> None:
    """Python keeps compiled code by the size of a file and the second it was written in."""
    for name in ("short", "long"):
        edited = JUDGE.replace('"short"', f'"{name}"'.ljust(7))
        Path("judge.py").write_text(edited, encoding="utf-8")
        os.utime("judge.py", (10**9, 10**9))
        found = data(*QUESTION, "--name", name)
        assert found["recommendation"]["label"] == name


def test_pairs_that_cannot_be_judged_may_have_a_score_on_the_command_line() -> None:
    partly = "def partly(option, item):\n    return judge(option, item) if item[3:] else []\n"
    Path("judge.py").write_text(f"{JUDGE}\n{partly}", encoding="utf-8")
    question = ("judge.py:partly", *QUESTION[1:], "--seed", "1")
    _, err = run(*question, code=2)
    assert "give `on_failure` (`--on-failure`)" in err
    out, _ = run(*question, "--on-failure", "0")
    assert "'short' is the best of 2 options." in out
    assert "could not be judged" in out


def test_options_and_items_can_be_rows_of_files() -> None:
    Path("sub").mkdir()
    Path("sub/levels.py").write_text("LEVELS = {'a': 0.2, 'b': 0.9}\n")
    Path("sub/grader.py").write_text(
        "from levels import LEVELS\n"
        "async def grade(option, item):\n"
        "    return LEVELS[item['kind']] * float(option['rate'])\n"
    )
    Path("options.csv").write_text("name;rate\nlow;0.1\nhigh;1\n")
    rows = [json.dumps({"kind": "ab"[number % 2]}) for number in range(60)]
    Path("items.jsonl").write_text("\n".join(rows))
    files = ("--options", "options.csv", "--items", "items.jsonl")
    found = data("sub/grader.py:grade", *files, "--name", "rates")
    assert (found["recommendation"]["label"], found["experiment"]) == ("high", "rates")


def test_a_cap_is_not_an_error_and_a_larger_one_continues() -> None:
    out, _ = run(*QUESTION, "--price", "0.01", "--max-cost", "0.07")
    assert "7 of 160 judgements (4 %), which cost 0.07." in out
    assert "Stopped at the cost cap of 0.07." in out
    found = data(*QUESTION, "--price", "0.01", "--max-cost", "2")
    assert found["recommendation"]["final"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.py", "a,b", "items.txt"), "'none.py' cannot be read or written: no such file"),
        (("judge.py:grade", "a,b", "items.txt"), "'judge.py' has no function 'grade'."),
        (("broken.py", "a,b", "items.txt"), "'broken.py' raised SyntaxError:"),
        (("raises.py", "a,b", "items.txt"), "raised ZeroDivisionError: division by zero (raises"),
        (("exits.py", "a,b", "items.txt"), "'exits.py' raised SystemExit: 3"),
        (("judge.py", "a", "items.txt"), "`options` must be at least 2; got 1."),
        (("judge.py", "a,a", "items.txt"), "Two options have the name 'a'."),
        (("judge.py", "none.csv", "items.txt"), "'none.csv' cannot be read or written"),
        (("judge.py", "nameless.csv", "items.txt"), "Every option needs a name"),
        (("judge.py", "a,b", "none.txt"), "'none.txt' cannot be read or written"),
        (("judge.py", "a,b", "empty.txt"), "'empty.txt' holds no items."),
        (("judge.py", "a,b", "empty.csv"), "'empty.csv' holds no items."),
        (("judge.py", "a,b", "items.md"), "'items.md' does not end in .txt, .csv or .jsonl."),
        (("judge.py", "a,b", "wrong.jsonl"), "'wrong.jsonl' is not JSON in line 2"),
        (("judge.py", "a,b", "numbers.jsonl"), "`items` must be texts or mappings; number 1 is 3"),
        (("judge.py", "a,b", "uneven.csv"), "'uneven.csv' has 3 fields in line 3, not 2."),
        (("judge.py", "a,b", "unnamed.csv"), "needs a header with a different name"),
        (("judge.py", "a,b", "latin.txt"), "'latin.txt' is not text in UTF-8"),
        (("judge.py", "a,b", "items.txt", "--price", "0"), "`price` must be positive"),
        (("judge.py", "a,b", "items.txt", "--store", "x.db"), "`url` must name a SQLite file"),
        (("fails.py", "a,b", "items.txt", "--retries", "0"), "ValueError: no (fails.py, line 2)"),
        (("none.py:judge", "a,b", "items.txt"), "'none.py' cannot be read or written"),
        (("wrong.py", "a,b", "items.txt"), "the judge returned 'good', which is not a number"),
        (("one.py", "a,b", "items.txt"), "must accept an option and an item, as two positional"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: tuple[str, ...], words: str) -> None:
    texts = {
        "broken.py": "def judge(:\n",
        "raises.py": "\n1 / 0\n",
        "exits.py": "import sys\nsys.exit(3)\n",
        "fails.py": "def judge(option, item):\n    raise ValueError('no')\n",
        "wrong.py": "def judge(option, item):\n    return 'good'\n",
        "one.py": "def judge(item):\n    return 1\n",
        "nameless.csv": "prompt\nAnswer.\nThink.\n",
        "empty.txt": "\n\n",
        "empty.csv": "",
        "items.md": "x\n",
        "wrong.jsonl": '{"a": 1}\n{"a": \n',
        "numbers.jsonl": "3\n",
        "uneven.csv": "a,b\n1,2\n1,2,3\n",
        "unnamed.csv": "a,a\n1,2\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("latin.txt").write_bytes(b"caf\xe9\n")
    judge, options, items, *further = arguments
    out, err = run(judge, "--options", options, "--items", items, *further, code=2)
    assert out == ""
    assert words in err
    assert "Traceback" not in err
    assert ("judging 2 options" in err) == (judge in ("fails.py", "wrong.py"))


def test_another_file_under_the_same_name_is_refused() -> None:
    run(*QUESTION, "--max-cost", "1")
    with Path("items.txt").open("a") as file:
        file.write("one more\n")
    _, err = run(*QUESTION, "--max-cost", "2", code=2)
    assert "'judge' was created with different `items` (80, not 81)." in err


def run_command(*arguments: str) -> None:
    """Run `bestarm` with what it says on stderr in a file."""
    os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    sys.argv = ["bestarm", *arguments]
    main()


@contextmanager
def three_calls_in_flight() -> Iterator[BaseProcess]:
    """An evaluation whose judge waits for a file."""
    Path("judge.py").write_text(PATIENT)
    arguments = ("evaluate", *QUESTION, "--concurrency", "3")
    process = processes.Process(target=run_command, args=arguments)
    process.start()
    try:
        wait_until(lambda: Path("calls").exists() and Path("calls").read_text().count("\n") == 3)
        yield process
        process.join(HANG_TIMEOUT)
        assert process.exitcode == 130
    finally:
        process.kill()
    message = Path("stderr").read_text()
    assert "Traceback" not in message
    assert message.endswith("To continue, run the same command.\n")


def interrupt(process: BaseProcess) -> None:
    os.kill(process.pid or 0, signal.SIGINT)
    wait_until(lambda: "interrupt again to leave them" in Path("stderr").read_text())


def test_ctrl_c_keeps_what_is_in_flight_and_the_same_command_continues() -> None:
    with three_calls_in_flight() as process:
        interrupt(process)
        Path("go").touch()
    calls = Path("calls").read_text().splitlines()
    assert len(calls) == 3
    with Experiment.open("sqlite:///bestarm.db", "judge") as experiment:
        assert len(experiment.outcomes()) == 3
    out, _ = run(*QUESTION)
    assert out.startswith("'short' is the best of 2 options.")
    calls = Path("calls").read_text().splitlines()
    assert len(set(calls)) == len(calls) > 3


def test_a_second_ctrl_c_leaves_calls_in_flight() -> None:
    with three_calls_in_flight() as process:
        interrupt(process)
        interrupt(process)
    with Experiment.open("sqlite:///bestarm.db", "judge") as experiment:
        assert len(experiment.outcomes()) == 0


def test_lines_on_a_terminal_stand_above_the_bar_and_not_within_it() -> None:
    """Each begins on a line of its own: a new one, or the bar's once that is erased."""
    Path("judge.py").write_text(PATIENT)
    with start_command("evaluate", *QUESTION, "--concurrency", "3") as running:
        wait_until(lambda: Path("calls").exists() and Path("calls").read_text().count("\n") == 3)
        os.killpg(running.process.pid, signal.SIGINT)
        running.wait_until_shown("waiting for the calls in flight")
        Path("go").touch()
        running.process.communicate()
        running.join()
        shown = running.shown
    assert running.process.returncode == 130
    coloured = r"\x1b\[[0-9;?]*[a-zA-JL-Z]"  # all but what erases a line
    before = re.sub(coloured, "", shown).split("bestarm: ")
    assert len(before) == 4  # judging …; waiting …; interrupted
    assert [text.endswith(("\n", "\x1b[2K")) for text in before[:-1]] == [True] * 3
    assert before[-1].endswith("\r\n")


def test_preferences_are_asked_for_with_compare(folder: Path) -> None:
    (folder / "taste.py").write_text("def prefer(first, second, item):\n    return 'short'\n")
    out, _ = run("taste.py", *QUESTION[1:], "--compare")
    assert out.startswith("'short' beats the other option. The probability that this rule")
    assert "wins over long" in out
    found = data("taste.py", *QUESTION[1:], "--compare")
    assert (found["outcome"], found["wins"][1]) == ("winner", [0, 0])
    (folder / "none.py").write_text("x = 1\n")
    failed = commands.refused("evaluate", "none.py", *QUESTION[1:], "--compare")
    assert "Define prefer(first, second, item) in it" in failed


def test_a_gate_has_an_exit_code_and_files_for_ci() -> None:
    for name, text in (("main", "short"), ("branch", "long")):
        Path(f"{name}.txt").write_text(text, encoding="utf-8")
    judge = 'def judge(option, item):\n    return float(option["text"] == "short")\n'
    Path("judge.py").write_text(judge, encoding="utf-8")
    question = ("judge.py", "--options", "main.txt,branch.txt", "--items", "items.txt", "--gate")
    files = ("--out", "junit.xml", "--out", "new/summary.md", "--out", "report.html")
    out, err = run(*question, "--control", "main", *files, code=1)
    assert out.startswith("'branch' is worse than 'main', the control.")
    assert '<failure message="worse: lead -1' in Path("junit.xml").read_text(encoding="utf-8")
    assert Path("new/summary.md").read_text(encoding="utf-8").startswith("❌ 'branch' is worse")
    assert "<h2>Where main and branch differ (" in Path("report.html").read_text(encoding="utf-8")
    out, _ = run(*question, "--control", "branch", "--json")
    found = json.loads(out)
    assert (found["exit_code"], found["verdicts"][0]["state"]) == (0, "not worse")
    assert found["experiment"] == "judge-2"
    price = "main=0.5,branch=0.25"
    out, _ = run(*question, "--control", "branch", "--price", price, "--max-cost", "3", code=3)
    assert "Stopped at the cost cap of 3." in out
    _, err = run(*question, "--control", "main", "--price", "main=x", code=2)
    assert "`price` has 'main=x', which is not a price." in err
    _, err = run(*question, "--control", "main", "--out", "report.pdf", code=2)
    assert "ends in .html, .md or .xml" in err


def test_a_plan_says_what_it_will_take_and_needs_no_judge() -> None:
    question = ("--options", "short,long", "--items", "items.txt", "--plan")
    out, _ = run(*question, "--price", "short=0.5,long=0.25")
    assert out.startswith("2 options on 80 items: judging everything takes 160 judgements, which ")
    assert "cost 60." in out
    found = data(*question, "--gate", "--control", "short", "--noise", "0.3")
    assert [each["lead"] for each in found["efforts"]] == [0.1, 0.02, 0.0, -0.02, -0.1]
    assert not Path("bestarm.db").exists()
    refused = commands.refused("evaluate", *question, "--noise", "3")
    assert "`noise` must be at most 1" in refused
