"""The application: the API and the pages over one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from bestarm.live.store.sql import Store
from bestarm.server.api.errors import add_handlers, error_response
from bestarm.server.api.routes import router
from bestarm.server.background import Keeper
from bestarm.server.experiments import Trials
from bestarm.server.feeds import FEEDS
from bestarm.server.pages.plan import Planner
from bestarm.server.pages.plan import router as plans
from bestarm.server.pages.routes import mount
from bestarm.server.security.guard import Guard
from bestarm.server.security.limits import Limits
from bestarm.server.security.roles import ForbiddenError, UnauthorizedError

__all__ = ["create_app"]

_DESCRIPTION = """
Find the best of several options with a stated error probability, even while the baseline drifts.

Ask for assignments, carry them out, tell their outcomes. Send a token as
`Authorization: Bearer …`: `bestarm token create` makes one. Every error has the same shape.
"""


def create_app(
    url: str | Store,
    *,
    local: bool = True,
    hosts: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> FastAPI:
    """An ASGI application over the experiments of a database.

    Args:
        url: the database, as for `Experiment.open`.
        local: whether only this machine can reach it: then looking needs no token, and requests
            for other hosts than this one are refused.
        hosts: further host names that requests may be for; names are not checked where it is not
            local and none is given.
        limits: what it takes of callers.
    """
    store = url if isinstance(url, Store) else Store(url)
    store.prepare()
    limits = limits or Limits()
    app = FastAPI(
        title="bestarm",
        version=version("bestarm"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # a route of ours gives it, to those who may look
        redirect_slashes=False,
        lifespan=_living,
    )
    app.state.store, app.state.local, app.state.limits = store, local, limits
    app.state.trials = Trials(store, limits=limits)
    app.state.keeper = Keeper(app.state.trials)
    add_handlers(app)
    app.add_exception_handler(UnauthorizedError, _unauthorized)
    app.add_exception_handler(ForbiddenError, _forbidden)
    app.include_router(router)
    mount(app)
    app.state.planner = Planner(limits.planning)
    app.include_router(plans)
    app.add_middleware(Guard, limits=limits, local=local, hosts=hosts)
    return app


@asynccontextmanager
async def _living(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    upkeep = asyncio.create_task(app.state.keeper.run())
    yield {FEEDS: app.state.trials.feeds}
    upkeep.cancel()
    app.state.trials.feeds.stop()
    with suppress(asyncio.CancelledError):
        await upkeep
    app.state.store.close()


def _unauthorized(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UnauthorizedError)
    headers = {"WWW-Authenticate": "Bearer"}
    return error_response(
        401,
        "unauthorized",
        error.message,
        field=error.field,
        remedy=error.remedy,
        headers=headers,
    )


def _forbidden(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ForbiddenError)
    return error_response(
        403,
        "forbidden",
        error.message,
        field=error.field,
        value=error.value,
        remedy=error.remedy,
    )
