"""A browser for tests of pages, and a page in it in which nothing may go wrong."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urljoin

import pytest
from needed import need_found
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, sync_playwright

__all__ = ["HANG_TIMEOUT", "chromium", "tab"]

HANG_TIMEOUT = 120_000  # milliseconds

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
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    program = need_found(found, "Chromium", package=_PROGRAMS[0])
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


@cache
def _window(browser: Browser, scripts: bool) -> tuple[Page, list[str]]:
    """A page, and what went wrong in it."""
    context = browser.new_context(java_script_enabled=scripts)
    context.set_default_timeout(HANG_TIMEOUT)
    page = context.new_page()
    wrong: list[str] = []

    def dialog(opened: Dialog) -> None:
        wrong.append(f"a dialog: {opened.message}")
        opened.dismiss()

    def console(message: ConsoleMessage) -> None:
        if message.type == "error" and "status of 4" not in message.text:  # refusals are part of it
            wrong.append(message.text)

    page.on("dialog", dialog)
    page.on("console", console)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return page, wrong


@contextmanager
def tab(browser: Browser, *, scripts: bool = True) -> Iterator[Page]:
    """A page; any dialog, any script that fails and any breach of policy is an error.

    It is the same page for all, which remembers nothing: to draw the charts in a new one takes
    Chromium four times as long.
    """
    page, wrong = _window(browser, scripts)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(color_scheme="light")
    try:
        yield page
    finally:  # nothing is left for the next test, whatever became of this one
        if scripts:
            # From where no script of the page runs that could still keep something.
            page.goto(urljoin(page.url, "/static/icon.svg"))
            page.evaluate("sessionStorage.clear(); localStorage.clear()")
        page.context.clear_cookies()
        found = list(wrong)
        wrong.clear()
    assert not found
