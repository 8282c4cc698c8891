"""The application: the API and the pages over one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from bestarm.live.store.sql import Store
from bestarm.server.api import plan, routes
from bestarm.server.api.schemas import describe_fields
from bestarm.server.api.short_way import SHORT_WAY, ShortWay
from bestarm.server.experiments import OpenExperiments
from bestarm.server.pages.routes import add_pages
from bestarm.server.security.guard import Guard
from bestarm.server.security.limits import Limits
from bestarm.server.streams import STREAMS
from bestarm.server.upkeep import Upkeep

_DESCRIPTION = """
Find the best of several options with a stated error probability, even while the baseline drifts.

Ask for assignments, carry them out, tell their outcomes. Send an access token as
`Authorization: Bearer …`; create one with `bestarm token create`. Every error has the same shape.
"""


class _Application(FastAPI):
    def protect(self, limits: Limits, *, local: bool, hosts: tuple[str, ...]) -> None:
        """Have every request checked."""
        way = _CompressedPages(super().__call__)
        self._way = Guard(way, limits=limits, local=local, hosts=hosts)
        self.state.short_way = ShortWay(self._way, self.state.experiments, limits)
        self.add_exception_handler(Exception, _pass_on)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self._way(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The API's description."""
        if self.openapi_schema is None:
            describe_fields(super().openapi())
        return super().openapi()


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
        local: whether only this machine can reach it: then viewing needs no token, and requests
            for other hosts are refused.
        hosts: further host names that requests may be for; if it is not local and there are none,
            names are not checked.
        limits: limits on what callers may send.
    """
    store = url if isinstance(url, Store) else Store(url)
    store.prepare()
    limits = limits or Limits()
    app = _Application(
        title="bestarm",
        version=version("bestarm"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # a route of ours gives it, to callers of role view
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.store, app.state.local, app.state.limits = store, local, limits
    app.state.experiments = OpenExperiments(store, limits=limits)
    app.state.upkeep = Upkeep(app.state.experiments)
    app.state.planner = plan.Planner(limits.planning)
    for router in (routes.viewing, routes.telling, routes.managing, plan.router):
        app.include_router(router)
    add_pages(app)
    app.protect(limits, local=local, hosts=hosts)
    return app


async def _pass_on(_: Request, error: Exception) -> Response:
    raise error  # the guard answers it


class _CompressedPages:
    """Compresses the pages and their files; answers of the API are small, or must be quick."""

    def __init__(self, app: ASGIApp) -> None:
        self._plain, self._compressed = app, GZipMiddleware(app, 1000, compresslevel=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        api = scope["type"] != "http" or scope["path"].startswith("/api/")
        await (self._plain if api else self._compressed)(scope, receive, send)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    upkeep = asyncio.create_task(app.state.upkeep.run())
    yield {STREAMS: app.state.experiments.streams, SHORT_WAY: app.state.short_way}
    upkeep.cancel()
    app.state.experiments.streams.stop()
    with suppress(asyncio.CancelledError):
        await upkeep
    await app.state.experiments.finish()
    app.state.store.close()
