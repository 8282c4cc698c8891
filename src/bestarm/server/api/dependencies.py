"""What routes share: names of experiments, roles, the open experiments."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request
from pydantic import AfterValidator

from bestarm.live.inputs import normal_form
from bestarm.server.experiments import OpenExperiments
from bestarm.server.security.roles import needs
from bestarm.server.security.tokens import Role

__all__ = ["ANYWHERE", "MANAGE", "TELL", "VIEW", "WITH_BODY", "Experiments", "Name"]

ANYWHERE = (400, 401, 403, 421, 422, 429, 500, 503)  # errors of every route
WITH_BODY = (408, 413, 415)  # errors of routes that take a body
VIEW = Depends(needs(Role.VIEW))
TELL = Depends(needs(Role.TELL))
MANAGE = Depends(needs(Role.MANAGE))
Name = Annotated[
    str,
    Path(description="The experiment's name.", min_length=1, max_length=200, examples=["checkout"]),
    AfterValidator(normal_form),
]


async def _experiments(request: Request) -> OpenExperiments:
    experiments: OpenExperiments = request.app.state.experiments
    return experiments


Experiments = Annotated[OpenExperiments, Depends(_experiments)]
