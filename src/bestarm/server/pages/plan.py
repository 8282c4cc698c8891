"""The planning page."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from bestarm.server.api.dependencies import VIEW
from bestarm.server.api.plan import PLANNABLE
from bestarm.server.pages.panels import render
from bestarm.server.pages.routes import PageRoute
from bestarm.server.security.roles import COOKIE

__all__ = ["router"]

_CHECKED = {"anytime", "sp-bai-sharp"}  # ticked at first
_DRIFTS = (
    ("none", "stays", False),
    ("sine", "a slow wave", True),
    ("walk", "a random walk", False),
    ("switches", "sudden jumps", False),
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/plan", dependencies=[VIEW])
async def page(request: Request) -> HTMLResponse:
    """The form."""
    words = render(
        "plan.html",
        signed_in=COOKIE in request.cookies,
        seconds=request.app.state.planner.seconds,
        policies=[(each.name, each.summary, each.name in _CHECKED) for each in PLANNABLE],
        drifts=_DRIFTS,
    )
    return HTMLResponse(words)
