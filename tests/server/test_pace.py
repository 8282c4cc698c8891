"""Updates of a page wait for as long as the last one was worth, each experiment's for its own."""

from __future__ import annotations

import asyncio

import pytest

from bestarm.server.pages.pace import Pace


def test_an_update_waits_after_one_that_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    async def run() -> None:
        kept = Pace()
        await kept.wait("offer")
        kept.note("offer", 0.01)
        await kept.wait("other")
        assert rests == []
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1000.0, raising=False)
        kept.note("offer", 0.01)
        await kept.wait("offer")
        kept.note("offer", 100.0)  # as the first of all, which loads what it needs
        await kept.wait("offer")
        kept.note("other", 0.0)
        await kept.wait("other")

    monkeypatch.setattr("bestarm.server.pages.pace.asyncio.sleep", rest)
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(run())
    assert rests == pytest.approx([0.2, 3.0])
