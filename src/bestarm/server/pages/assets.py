"""The files that pages are made with: style, scripts, Plotly."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources
from importlib.metadata import version

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_PLOTLY = "plotly.min.js"


class Assets(StaticFiles):
    """Files whose addresses change with their content, so that browsers may keep them for ever."""

    def __init__(self) -> None:
        super().__init__(packages=[("bestarm.server", "static"), ("plotly", "package_data")])

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or that it has not changed."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


@lru_cache(maxsize=32)
def read_asset(name: str) -> bytes:
    """The content of a file."""
    place = ("plotly", "package_data") if name == _PLOTLY else ("bestarm.server", "static")
    return resources.files(place[0]).joinpath(place[1], name).read_bytes()


@lru_cache(maxsize=32)
def address_of(name: str) -> str:
    """The address of a file, with a tag that changes with its content."""
    # Plotly's version stands for its content, so that its megabytes are not read here.
    plotly = name == _PLOTLY
    tag = version("plotly") if plotly else hashlib.sha256(read_asset(name)).hexdigest()[:12]
    return f"/static/{name}?v={tag}"
