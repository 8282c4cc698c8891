"""A browser for tests of pages."""

from __future__ import annotations

import gc
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from needed import need

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["chromium"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window.

    Playwright's own process may end a little after the loop that watches it. What is left of both
    is collected here: elsewhere it would warn in whatever test runs by then.
    """
    need("chromium", package="chromium")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only few tests need it

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()
    del launched, playwright
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
