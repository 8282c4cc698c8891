"""The worked example of `docs/evaluate.md`: what it says, keeps, and cannot judge."""

from __future__ import annotations

import shutil
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import commands
import pytest

from bestarm import evaluate

EXAMPLES = Path(__file__).parents[2] / "examples"
QUESTION = ("judge.py", "--options", "prompts.jsonl", "--items", "questions.csv", "--seed", "2")
ONE_BY_ONE = ("--concurrency", "1")
run, data = partial(commands.run, "evaluate"), partial(commands.data, "evaluate")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    for name in ("judge.py", "prompts.jsonl", "questions.csv"):
        shutil.copy(EXAMPLES / name, folder)


@pytest.fixture
def example(folder: Path) -> ModuleType:
    spec = spec_from_file_location("example", folder / "judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kept() -> dict[str, int]:
    """When each reply on disk was written."""
    return {path.name: path.stat().st_mtime_ns for path in Path("model-cache").iterdir()}


def test_it_finds_the_best_prompt_and_asks_the_model_nothing_twice() -> None:
    found = data(*QUESTION, "--on-failure", "0", *ONE_BY_ONE, "--out", "report.html")
    assert found["recommendation"]["label"] == "steps"
    assert found["recommendation"]["final"]
    assert found["judgements"] < 400
    assert "answer of steps" in Path("report.html").read_text(encoding="utf-8")
    before = kept()
    # An answer and a grade each; some pairs have equal answers, and few grades are of no use.
    assert found["judgements"] < len(before) <= 2 * found["judgements"]
    again = data(*QUESTION, "--on-failure", "0", *ONE_BY_ONE, "--fresh")
    assert again["judged_now"] == found["judgements"]
    assert kept() == before


def test_an_answer_that_cannot_be_judged_ends_it_unless_it_has_a_score() -> None:
    for kind in ([], ["--compare"]):
        name = ("--name", f"x{len(kind)}", *kind)
        _, failed = run(*QUESTION, *ONE_BY_ONE, *name, code=2)
        assert "the judge returned" in failed
        assert "everything judged so far is kept" in failed
        found = data(*QUESTION, *ONE_BY_ONE, *name, "--on-failure", "0")
        assert found["unjudged"] > 0
        assert found["recommendation"]["label"] == "steps"


def test_a_model_that_likes_the_first_place_finds_no_winner_among_equals(
    example: ModuleType, tmp_path: Path
) -> None:
    """A comparison of equals is decided with probability 0.05 at most, here with a fixed seed."""
    equals = [{"name": name, "prompt": "Answer the question."} for name in ("a", "b")]
    items = [
        {"question": f"What is {one} times 17?", "answer": str(17 * one)} for one in range(20, 320)
    ]
    usual: dict[str, Any] = {"name": "x", "store": f"sqlite:///{tmp_path / 'store.db'}", "seed": 2}
    found = evaluate(None, equals, items, compare=example.prefer, on_failure=0, **usual)
    assert (found.outcome, found.judgements) == ("undecided", 300)
    one_order = [example.prefer(*equals, item) for item in items]
    assert one_order.count("a") > 3 * one_order.count("b")


@pytest.mark.parametrize(
    ("reply", "grade"), [("Well.\nGrade: 7\n", 0.7), ("Grade: 11", None), ("7", None), ("", None)]
)
def test_a_reply_without_a_grade_has_no_score(
    reply: str, grade: float | None, example: ModuleType
) -> None:
    assert example.read_grade(reply) == grade


def test_errors_of_the_client_are_retried_and_keep_nothing(example: ModuleType) -> None:
    def fail(prompt: str) -> str:
        raise TimeoutError("no reply within 60 s")

    example.call_model = fail  # type: ignore[attr-defined]
    with pytest.raises(TimeoutError):
        example.ask("anything")
    assert not Path("model-cache").exists()
