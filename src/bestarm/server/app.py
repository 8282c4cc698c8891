"""The application: the API and the pages over one store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI

from bestarm import __version__
from bestarm.live.store import Store
from bestarm.server import metrics, probes
from bestarm.server.api import plan, routes
from bestarm.server.api.schemas import describe_fields
from bestarm.server.experiments import CONNECTIONS, READING, Maintenance, OpenExperiments
from bestarm.server.guard import Guard, Limits
from bestarm.server.notifications import Notifier, Receiver
from bestarm.server.pages.routes import add_pages

_DESCRIPTION = """
Find the best of several options with a stated error probability, even while the baseline drifts.

Ask for assignments, carry them out, tell their outcomes. Send an access token as
`Authorization: Bearer …`; create one with `bestarm token create`. Every error has the same shape.
"""


class _Application(FastAPI):
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
    notify: Receiver | None = None,
    address: str = "http://127.0.0.1:8000",
    allow_modules: tuple[str, ...] = (),
) -> FastAPI:
    """An ASGI application over the experiments of a database.

    Args:
        url: the database, as for `Experiment.open`.
        local: whether only this machine can reach it: then viewing needs no token, and requests
            for other hosts are refused.
        hosts: further host names that requests may be for; if it is not local and there are none,
            names are not checked.
        limits: limits on what callers may send.
        notify: where notifications go; None for nowhere.
        address: where people find the pages; notifications link to it.
        allow_modules: modules that experiments' own policies may be imported from.
    """
    store = url if isinstance(url, Store) else Store(url, connections=CONNECTIONS)
    store.prepare()
    limits = limits or Limits()
    app = _Application(
        title="bestarm",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # a route of ours gives it, to callers of role view
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.store, app.state.local, app.state.limits = store, local, limits
    app.state.experiments = OpenExperiments(store, allow_modules)
    app.state.maintenance = Maintenance(app.state.experiments)
    app.state.notifier = notify and Notifier(app.state.experiments, notify, address)
    app.state.requests = Counter()
    app.state.token_digests = set()  # of tokens that were valid
    app.state.parsing = CapacityLimiter(1)  # of large bodies
    app.state.planner = plan.Planner(limits.planning)
    app.router.routes += routes.asking.routes  # found at once: an included router is searched twice
    further = (routes.viewing, routes.telling, routes.managing)
    for router in (*further, plan.router, metrics.router, probes.router):
        app.include_router(router)
    add_pages(app)
    counts = app.state.requests
    app.add_middleware(Guard, limits=limits, local=local, hosts=hosts, counts=counts)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    current_default_thread_limiter().total_tokens = READING
    at_work = [each for each in (app.state.maintenance, app.state.notifier) if each is not None]
    tasks = [asyncio.create_task(each.run()) for each in at_work]
    yield
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    app.state.experiments.close()
