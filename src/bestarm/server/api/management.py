"""The routes that manage an experiment: pause, resume, lease, stop."""

from __future__ import annotations

from fastapi import APIRouter

from bestarm.live import Experiment
from bestarm.server.api import bodies
from bestarm.server.api import schemas as io
from bestarm.server.api.dependencies import (
    ANYWHERE,
    MANAGE,
    WITH_BODY,
    Experiments,
    Name,
    then_status,
)
from bestarm.server.api.errors import error_responses
from bestarm.server.api.requests import StrictRoute

__all__ = ["router"]

router = APIRouter(
    prefix="/api/v1",
    dependencies=[MANAGE],
    responses=error_responses(*ANYWHERE, 404),
    route_class=StrictRoute,
)


@router.post("/experiments/{name}/pause", summary="Pause")
async def pause(name: Name, experiments: Experiments) -> io.StatusOut:
    """Make no assignments until the experiment is resumed. Repeating it is harmless."""
    return await experiments.write(name, then_status(Experiment.pause))


@router.post("/experiments/{name}/resume", summary="Resume")
async def resume(name: Name, experiments: Experiments) -> io.StatusOut:
    """Continue after a pause. Repeating it is harmless."""
    return await experiments.write(name, then_status(Experiment.resume))


@router.post(
    "/experiments/{name}/lease",
    summary="Change how long outcomes may take",
    responses=error_responses(*WITH_BODY),
)
async def change_lease(
    name: Name, body: bodies.LeaseBody, experiments: Experiments
) -> io.StatusOut:
    """Set it from now on; what is lost stays lost. Repeating it is harmless."""
    return await experiments.write(name, then_status(lambda each: each.change_lease(body.lease)))


@router.post(
    "/experiments/{name}/stop",
    summary="Stop for good",
    responses=error_responses(*WITH_BODY),
)
async def stop(
    name: Name, experiments: Experiments, body: bodies.StopBody | None = None
) -> io.StatusOut:
    """End the experiment. Outcomes that come later are kept and flagged."""
    reason = "" if body is None else body.reason
    return await experiments.write(name, then_status(lambda each: each.stop(reason)))
