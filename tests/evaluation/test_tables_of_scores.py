"""Results that other tools wrote: read, compared, and refused where they are of a wrong shape.

Files in `results` were written by promptfoo and lm-eval themselves, and that of Every Eval Ever by
the types of its own package. An Inspect log is written in the test.
"""

from __future__ import annotations

import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
from needed import need_module
from workers_started import HANG_TIMEOUT, processes

from bestarm.errors import InvalidInputError
from bestarm.evaluation.tables import ScoreTable, compare_results, read_results

RESULTS = Path(__file__).parent / "results"
run = partial(commands.run, "evaluate")


def test_promptfoo_is_read_with_a_prompt_and_a_provider_as_an_option() -> None:
    table = read_results([RESULTS / "promptfoo.json"])
    assert table.items == ["test 1", "test 2", "test 3"] or len(table.items) == 3
    scores = {
        (item, option): table.scores[row, column]
        for row, item in enumerate(table.items)
        for column, option in enumerate(table.options)
    }
    assert set(table.options) == {"Say {{word}} (echo)", "Shout {{word}}! (echo)"}
    assert scores["test 1", "Say {{word}} (echo)"] == 1
    assert scores["test 1", "Shout {{word}}! (echo)"] == 0
    assert scores["test 3", "Say {{word}} (echo)"] == 0
    assert table.complete


def test_samples_of_lm_eval_are_read_with_a_folder_as_an_option() -> None:
    table = read_results([RESULTS / "lm_eval"])
    assert table.options == ["first", "second"]
    assert table.items == [f"samples_sums {number}" for number in range(6)]
    assert table.scores.mean(axis=0)[0] == pytest.approx(1 / 6)


def test_every_eval_ever_is_read_by_model() -> None:
    table = read_results([RESULTS / "every_eval_ever.jsonl"])
    assert table.options == ["one/large", "one/small"]
    assert table.scores.tolist() == [[1, 0], [1, 1], [0, 0], [1, 0]]


@pytest.mark.filterwarnings("ignore")  # of the packages that Inspect uses
def test_logs_of_inspect_are_read_by_task_and_model(tmp_path: Path) -> None:
    need_module("inspect_ai", extra="inspect")
    from inspect_ai import Task  # noqa: PLC0415 - of a package that may be missing
    from inspect_ai import eval as run_tasks  # noqa: PLC0415
    from inspect_ai.dataset import Sample  # noqa: PLC0415
    from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: PLC0415
    from inspect_ai.scorer import match  # noqa: PLC0415

    def model(text: str) -> Any:
        output = ModelOutput.from_content("mockllm", text)
        output.usage = ModelUsage()
        return get_model("mockllm/model", custom_outputs=[output] * 4, memoize=False)

    samples = [Sample(id=name, input="?", target=name) for name in ("yes", "no", "maybe")]
    for name in ("yes", "no"):
        task = Task(samples, scorer=match(), name=f"says-{name}", model=model(name))
        run_tasks(task, display="none", log_dir=str(tmp_path))
    table = read_results([tmp_path])
    assert sorted(table.options) == ["says-no mockllm/model", "says-yes mockllm/model"]
    assert table.scores[table.items.index("maybe")].tolist() == [0, 0]
    assert table.scores.sum() == 2


def write_table(path: Path, items: int = 300) -> Path:
    rows = [f"q{n},{int(n % 10 < 8)},{int(n % 10 < 3)},{int(n % 10 < 8)}" for n in range(items)]
    path.write_text("\n".join(["item,main,worse,same", *rows]), encoding="utf-8")
    return path


def test_a_table_says_what_is_worse_and_how_much_would_have_been_enough(tmp_path: Path) -> None:
    table = read_results([write_table(tmp_path / "scores.csv")])
    found = compare_results(table, control="main", tolerance=0.1, gate=True, seed=1)
    states = {each.option: each.state for each in found.verdicts}
    assert states == {"worse": "worse", "same": "not worse"}
    assert found.exit_code == 1
    assert found.statuses == ["compared with", "worse", "equivalent"]
    assert "Nothing was judged now: these are results on record." in str(found)
    assert "In a random order drawn now, `evaluate` would have judged " in str(found)
    some = table._replace(scores=np.where(np.arange(300)[:, None] == 7, np.nan, table.scores))
    assert "drawn now" not in str(compare_results(some, control="main"))
    assert "Some pairs have no score" in str(compare_results(some, control="main"))


def test_bounds_on_leads_over_the_highest_pay_for_finding_it() -> None:
    scores = np.tile([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]], (40, 1))
    table = ScoreTable([f"q{row}" for row in range(120)], ["best", "one", "other"], scores, 1)
    highest, named = (compare_results(table, control=each, seed=0) for each in (None, "best"))
    for over_highest, over_named in zip(highest.scores[1:], named.scores[1:], strict=True):
        assert over_highest.lead is not None
        assert over_named.lead is not None
        assert over_highest.lead.high > over_named.lead.high
    two = ScoreTable(table.items, table.options[:2], scores[:, :2], 1)
    # Of two options, one pair has two ends either way.
    first, second = (compare_results(two, control=each, seed=0) for each in (None, "best"))
    assert first.scores[1].lead == second.scores[1].lead


def test_results_are_compared_on_the_command_line(folder: Path) -> None:
    file = str(write_table(folder / "scores.csv"))
    out, _ = run("--from", file, "--control", "main", "--gate", "--out", "junit.xml", code=1)
    assert "'worse' is worse than 'main', the control." in out
    assert '<failure message="worse' in Path("junit.xml").read_text(encoding="utf-8")
    out, _ = run("--from", file)
    assert "has the highest mean of 3 options, which 300 items do not show." in out
    _, err = run("--items", "items.txt", code=2)
    assert "JUDGE.py is missing." in err


def compare_until_killed(file: str) -> None:
    """Compare results, and be killed once half of a file is written."""

    def write_half(path: Path, text: str, **_: object) -> None:
        path.write_bytes(text[: len(text) // 2].encode())
        os.kill(os.getpid(), signal.SIGKILL)

    Path.write_text = write_half  # type: ignore[assignment, method-assign]
    run("--from", file, "--out", "junit.xml")


def test_a_comparison_that_is_killed_leaves_files_whole_and_comes_out_the_same(
    folder: Path,
) -> None:
    """Nothing is stored but the files that were asked for."""
    file = str(write_table(folder / "scores.csv"))
    command = ("--from", file, "--seed", "1", "--out", "junit.xml")
    first, _ = run(*command)
    written = Path("junit.xml").read_bytes()
    process = processes.Process(target=compare_until_killed, args=(file,))
    process.start()
    process.join(HANG_TIMEOUT)
    assert process.exitcode == -signal.SIGKILL
    assert Path("junit.xml").read_bytes() == written
    again, _ = run(*command)
    assert (again, Path("junit.xml").read_bytes()) == (first, written)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "item\nq1\n", "has no columns of scores"),
        ("a.csv", "item,one,two\nq1,1\n", r"has 2 entries in the row of \['q1'\]"),
        ("a.csv", "item,one,two\nq1,1,good\n", "has 'good' on item 'q1', which is not a score"),
        ("a.csv", "item,one,two\nq1,1,nan\n", "has the score nan on item 'q1'"),
        ("a.csv", "item,one,two\nq1,1,0\nq1,0,0\n", "has a second score of 'one' on item 'q1'"),
        ("a.csv", "item,one\nq1,1\n", "There are scores of 1 options, and two are needed"),
        ("a.json", "{}", "is not a result of promptfoo"),
        ("a.json", "[", "is not a result of promptfoo"),
        ("a.jsonl", '{"a": 1}\n', "has no score in line 1"),
        ("a.jsonl", "{\n", "has no score in line 1"),
        ("a.jsonl", '{"metrics": ["a", "b"], "doc_id": 0}\n', "has the scores a, b"),
        ("a.xlsx", "x", "is of a kind that is not known"),
        ("folder/a.txt", "x", "has no results in it"),
    ],
)
def test_files_of_a_wrong_shape_are_refused(
    name: str, content: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=words):
        read_results([file.parent if "/" in name else file])


def test_bounds_must_hold_all_scores(tmp_path: Path) -> None:
    shutil.copy(RESULTS / "every_eval_ever.jsonl", tmp_path / "a.jsonl")
    table = read_results([tmp_path])
    with pytest.raises(InvalidInputError, match=r"Scores lie from 0 to 1, outside the bounds"):
        compare_results(table, bounds=(0, 0.5))
