"""Races in Inspect, on the real package with a model that costs nothing, and its logs read back."""

# ruff: noqa: PLC0415 - of optional packages, which may be missing
from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needed import need_module

from bestarm.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages that Inspect uses
RATES = {"good": 0.95, "fair": 0.5, "poor": 0.1}


@pytest.fixture(autouse=True)
def _inspect() -> Iterator[None]:
    need_module("inspect_ai", extra="inspect")
    yield
    gc.collect()  # streams that Inspect leaves open would warn in a later test


def samples(count: int = 60) -> list[Any]:
    from inspect_ai.dataset import Sample

    return [Sample(input=f"question {number}", target="yes", id=number) for number in range(count)]


def task_of(race: Any, name: str, *, dataset: Any = None, rate: float | None = None) -> Any:
    from inspect_ai import Task
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match
    from inspect_ai.solver import generate

    def answer(messages: Any, *_: object) -> Any:
        digest = hashlib.sha256(messages[-1].text.encode()).digest()
        right = digest[0] / 256 < (RATES[name] if rate is None else rate)
        output = ModelOutput.from_content("mockllm", "yes" if right else "no")
        output.usage = ModelUsage()  # or it is counted with a table from the net
        return output

    return Task(
        dataset or race.dataset,
        solver=generate(),
        scorer=match(),
        name=name,
        model=get_model("mockllm/model", custom_outputs=answer, memoize=False),
        early_stopping=race.stopping(name),
    )


def run(tasks: list[Any], folder: Path, **options: Any) -> list[Any]:
    from inspect_ai import eval as run_tasks

    settings: dict[str, Any] = {"display": "none", "log_dir": str(folder), "max_tasks": len(tasks)}
    return list(run_tasks(tasks, **settings, **options))


def test_a_race_ends_once_it_is_decided_and_the_logs_say_so(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    from bestarm.inspect import Race

    race = Race(samples(), list(RATES), seed=1)
    logs = run([task_of(race, name) for name in RATES], tmp_path, max_samples=4)
    assert [log.status for log in logs] == ["success"] * 3, logs[0].error.message
    assert (race.recommendation.label, race.recommendation.final) == ("good", True)
    assert race.judged["poor"] < race.judged["good"] <= 60
    assert sum(race.judged.values()) < 150
    for log in logs:
        read: Any = read_eval_log(log.location)
        summary = read.results.early_stopping
        name = read.eval.task
        assert summary.manager == "bestarm"
        assert len(read.samples) == race.judged[name] == summary.metadata["samples"]
        assert len(summary.early_stops) == 60 - race.judged[name] == summary.metadata["skipped"]
    assert str(race).startswith("'good' is the best of 3 options.")


def test_tasks_one_after_the_other_never_hang(tmp_path: Path) -> None:
    from bestarm.inspect import Race

    race = Race(samples(20), ["good", "poor"], seed=2)
    for name in ("good", "poor"):
        [log] = run([task_of(race, name)], tmp_path, max_samples=1)
        assert log.status == "success"
    assert race.recommendation.final
    assert race.judged["good"] == 20  # there was nothing to compare it with


def test_what_is_no_race_is_refused(tmp_path: Path) -> None:
    from bestarm.inspect import Race

    race = Race(samples(9), ["good", "poor"], seed=3)
    with pytest.raises(InvalidInputError, match="There is no option 'best' in this race"):
        race.stopping("best")
    [log] = run([task_of(race, "good", dataset=samples(9))], tmp_path)
    assert log.status == "error"
    assert "other samples than the race, or another order" in log.error.message
    [log] = run([task_of(race, "good")], tmp_path, epochs=2)
    assert "has 2 epochs; a race has one" in log.error.message
    with pytest.raises(InvalidInputError, match="Two items have the id 1"):
        Race([*samples(2), samples(2)[1]], ["a", "b"])
