"""Judges that never answer, by score and by preference: the warning, and how it goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from bestarm import Experiment, evaluate
from bestarm.evaluation import evaluate_async, run

OPTIONS, ITEMS = ["good", "poor"], [f"item {number}" for number in range(60)]


class Hanging:
    """Answers at once, or never."""

    def __init__(self) -> None:
        self.hangs = True
        self.started = 0

    async def judge(self, option: str, item: str) -> float:
        """A score."""
        await self._hang()
        return float(option == "good")

    async def prefer(self, first: str, second: str, item: str) -> str:
        """The better one."""
        await self._hang()
        return "good"

    async def _hang(self) -> None:
        self.started += 1
        if self.hangs:
            await asyncio.Event().wait()


def asked(judge: Hanging, compare: bool) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    return (None, {"compare": judge.prefer}) if compare else (judge.judge, {})


@pytest.mark.parametrize("compare", [False, True])
def test_a_call_that_hangs_is_named_in_a_sentence_and_leaving_it_loses_nothing(
    compare: bool, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_SLOW", 0.01)
    judge, warned = Hanging(), asyncio.Event()
    messages: list[str] = []
    usual: dict[str, Any] = {"name": "x", "store": sqlite_url, "concurrency": 2, "seed": 1}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())
            warned.set()

    async def leave() -> None:
        call, other = asked(judge, compare)
        task = asyncio.create_task(evaluate_async(call, OPTIONS, ITEMS, **usual, **other))
        await warned.wait()
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)

    listener = Listener()
    logger = logging.getLogger("bestarm.evaluation")
    logger.addHandler(listener)
    try:
        asyncio.run(leave())
    finally:
        logger.removeHandler(listener)
    assert messages[0].startswith("On the option")
    assert "the judge has not answered for 0.01 s. Set a time limit in your client" in messages[0]
    judge.hangs = False
    call, other = asked(judge, compare)
    found = evaluate(call, OPTIONS, ITEMS, **usual, **other)
    assert (found.recommendation.label, found.lost) == ("good", 2)
    with Experiment.open(sqlite_url, "x") as experiment:
        assert experiment.verify().sound


def test_of_many_pairs_that_cannot_be_judged_the_first_few_are_mentioned(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    usual: dict[str, Any] = {"name": "x", "store": sqlite_url, "on_failure": 0, "seed": 1}
    found = evaluate(lambda option, item: None, OPTIONS, ITEMS, **usual)
    assert found.unjudged == 120
    warnings = [
        record.getMessage() for record in caplog.records if record.name.endswith("evaluation")
    ]
    assert len(warnings) == 6
    assert all("It counts as 0." in each for each in warnings[:5])
    assert warnings[5].startswith("Further warnings are left out")
