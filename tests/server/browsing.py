"""A page in a browser in which nothing may go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page

__all__ = ["HANG_TIMEOUT", "tab"]

HANG_TIMEOUT = 120_000  # milliseconds


@cache
def window(browser: Browser, scripts: bool) -> tuple[Page, list[str]]:
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
    page, wrong = window(browser, scripts)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(color_scheme="light")
    try:
        yield page
    finally:  # nothing is left for the next test, whatever became of this one
        if scripts:
            page.evaluate("sessionStorage.clear(); localStorage.clear()")
        page.context.clear_cookies()
        found = list(wrong)
        wrong.clear()
    assert not found
