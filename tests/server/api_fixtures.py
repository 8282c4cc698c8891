"""A server with a client of role manage, for tests of the API: a plugin of their modules."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from served import Served, create, in_thread


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with in_thread(f"sqlite:///{tmp_path_factory.mktemp('api') / 'store.db'}") as running:
        yield running


@pytest.fixture(scope="module")
def api(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


@pytest.fixture
def experiment(api: httpx.Client, request: pytest.FixtureRequest) -> str:
    """The path of a new experiment."""
    return create(api, request.node.name[:200].replace("/", "-"))
