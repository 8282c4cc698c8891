"""Every route, called with whatever its description allows and does not: never a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from plan_processes import begin
from served import HANG_TIMEOUT, PATIENT, PROBLEM, Served, create, in_thread

from bestarm.server import create_app
from bestarm.server.tokens import Role

if TYPE_CHECKING:
    import schemathesis


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'store.db'}"
    # Where nothing is allowed without a token, and no plan is simulated for long.
    with (
        pytest.MonkeyPatch.context() as patch,
        in_thread(url, local=False, limits=replace(PATIENT, planning=0.5)) as running,
    ):
        patch.setattr(asyncio, "create_subprocess_exec", begin)
        with running.client() as client:
            client.post(f"{create(client, 'checkout')}/ask", json={"count": 10})
        yield running


@pytest.fixture(scope="module")
def described(served: Served) -> Any:
    """The API, as it describes itself to programs."""
    import schemathesis  # noqa: PLC0415

    schema = schemathesis.openapi.from_dict(create_app(served.url).openapi())
    schema.config.update(base_url=served.base)
    return schema.include(path_regex="^/api/")


def wrong_body(case: schemathesis.Case[Any]) -> bool:
    """Whether the body breaks its description. What else does may be put right before sending."""
    from schemathesis.core.parameters import ParameterLocation  # noqa: PLC0415

    assert case.meta is not None
    body = case.meta.components.get(ParameterLocation.BODY)
    return body is not None and body.mode.is_negative


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_the_api_keeps_what_its_description_promises(
    described: Any, served: Served, mode: str
) -> None:
    """No failure, no status and no content that is not described, and nothing let in that is not
    allowed for; Schemathesis lists what it checks."""
    from schemathesis import GenerationMode  # noqa: PLC0415
    from schemathesis.checks import (  # noqa: PLC0415
        negative_data_rejection,
        positive_data_acceptance,
    )

    tried: set[str] = set()
    turn = count()
    headers = {"Authorization": f"Bearer {served.token(Role.MANAGE)}"}
    for found in described.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=2 if operation.path.endswith("/plan") else 8,  # a plan takes seconds
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
        def call(case: schemathesis.Case[Any]) -> None:
            if "name" in (case.path_parameters or {}) and next(turn) % 3:
                case.path_parameters["name"] = "checkout"  # which is there
            # A name that nobody has is a good name, and 404 is the right answer to it. What is
            # added to a query and not known is passed over.
            left_out = [positive_data_acceptance, negative_data_rejection]
            response = case.call_and_validate(
                headers=headers, excluded_checks=left_out, timeout=HANG_TIMEOUT
            )
            assert response.status_code >= 400 or case.method == "GET" or not wrong_body(case)
            if response.status_code >= 400:
                error = response.json()
                assert set(error) == PROBLEM
            tried.add(case.operation.label)

        try:
            call()
        except Unsatisfiable:  # there is nothing wrong that could be sent
            assert mode == "negative"
    assert len(tried) >= (12 if mode == "positive" else 8), tried
