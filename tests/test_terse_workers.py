"""A worker that says little still says everything that went wrong."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

from pytest import TestReport  # noqa: PT013 - as `pytest.TestReport` it would be collected
from terse_workers import terse

PASSED: Literal["passed"] = "passed"


class Worker:
    def __init__(self) -> None:
        self.sent: list[TestReport] = []

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        self.sent.append(report)


def test_only_that_a_test_began_and_ended_well_is_not_sent() -> None:
    whens: tuple[Any, ...] = ("setup", "call", "teardown")
    outcomes: tuple[Any, ...] = (PASSED, "failed", "skipped")
    place = ("test.py", 1, "test")
    reports = [
        TestReport("test", place, {}, outcome, None, when)
        for when, outcome in product(whens, outcomes)
    ]
    worker = terse(Worker)()
    for report in reports:
        worker.pytest_runtest_logreport(report)
    unsent = {(each.when, each.outcome) for each in reports if each not in worker.sent}
    assert unsent == {("setup", PASSED), ("teardown", PASSED)}
