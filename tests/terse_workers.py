"""Workers of pytest-xdist that say only how a test ended.

They would send six messages for every test, which takes longer than many a test does.
"""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["make_terse", "terse"]


def make_terse(config: pytest.Config) -> None:
    """Send no more than is shown, unless somebody asked for more."""
    asked = config.option
    if asked.verbose > 0 or asked.durations is not None or asked.xmlpath is not None:
        return
    plugins = config.pluginmanager
    for plugin in plugins.get_plugins():
        # By name: a worker runs the module under another one, so that there are two such classes.
        if type(plugin).__name__ == "WorkerInteractor":
            plugins.unregister(plugin)
            plugin.__class__ = terse(type(plugin))
            plugins.register(plugin)


def terse(kind: Any) -> Any:
    """The class of workers that tell how a test ended, and what else did not pass."""

    class Terse(kind):  # type: ignore[misc]
        pytest_runtest_logstart = pytest_runtest_logfinish = None

        @pytest.hookimpl
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.when == "call" or not report.passed:
                super().pytest_runtest_logreport(report)

    return Terse
