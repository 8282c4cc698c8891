"""Experiments with a chained policy on every kind of store, and their clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chained_policies import PROBLEM, Chained
from clocks import Clock

from bestarm.live import Experiment


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_chained(
    request: pytest.FixtureRequest, clock: Clock
) -> Iterator[Callable[..., Experiment]]:
    """Makes an experiment with a chained policy of these options, on each kind of store."""
    opened: list[Experiment] = []
    url = None
    if request.param != "memory":
        url = request.getfixturevalue(f"{request.param}_url")

    def make(options: dict[str, Any], **settings: Any) -> Experiment:
        given: dict[str, Any] = {"seed": 3, "clock": clock} | settings
        if url is None:
            made = Experiment(Chained(PROBLEM, **options), **given)
        else:
            given |= {"policy": "chained_policies:Chained", "options": options}
            made = Experiment.create(url, f"offer {len(opened)}", PROBLEM, **given)
        opened.append(made)
        return made

    yield make
    for experiment in opened:
        experiment.close()
