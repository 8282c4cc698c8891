"""A browser for tests of pages."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from needed import need_found

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["chromium"]

# The first has no window to draw, so that these tests take a quarter less of the processor.
_PROGRAMS = ("chromium-headless-shell", "chromium")
_HANG_TIMEOUT = 10.0  # seconds until Playwright's process is killed
# Parts of a window that nobody sees; each new one spends more than a second of a core on them.
_UNSEEN = "WebUIOmniboxPopup,WebUIOmniboxAimPopup,PreloadTopChromeWebUI"


class _WaitingLoop(asyncio.SelectorEventLoop):
    """An event loop that sees its processes end before it closes.

    Playwright's process may outlive the loop that started it. Its pipes then stay open, and the
    garbage collector complains about them in whatever test runs by then.
    """

    def __init__(self) -> None:
        super().__init__()
        self._processes: list[asyncio.SubprocessTransport] = []

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        transport, protocol = await super().subprocess_exec(*args, **kwargs)
        self._processes.append(transport)
        return transport, protocol

    def close(self) -> None:
        if not self.is_closed():
            self.run_until_complete(self._end())
        super().close()

    async def _end(self) -> None:
        for process in self._processes:
            until = self.time() + _HANG_TIMEOUT
            while process.get_returncode() is None:
                await asyncio.sleep(0.005)
                if self.time() > until:
                    process.kill()
            process.close()
        await asyncio.sleep(0.005)  # the pipes close in the loop's next turn


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    program = need_found(_find_program(), "Chromium", package=_PROGRAMS[0])
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only few tests need it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", _WaitingLoop)
        manager = sync_playwright()
        playwright = manager.start()
    try:
        launched = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", f"--disable-features={_UNSEEN}"],
        )
        yield launched
        launched.close()
    finally:
        playwright.stop()


def _find_program() -> str | None:
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)
