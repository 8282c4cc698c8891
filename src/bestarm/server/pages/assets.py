"""The files that pages are made with: style, scripts, Plotly."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources
from importlib.metadata import version
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles

__all__ = ["Assets", "address_of", "read_asset"]

_PLOTLY = "plotly.min.js"
_FOR_EVER = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """Files whose addresses change with their content, so that browsers may keep them for ever."""

    def __init__(self) -> None:
        super().__init__(packages=[("bestarm.server", "static"), ("plotly", "package_data")])

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """The file, or that it has not changed."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = _FOR_EVER
        return response


@lru_cache(maxsize=32)
def read_asset(name: str) -> bytes:
    """The content of a file of ours."""
    return resources.files("bestarm.server").joinpath("static", name).read_bytes()


@lru_cache(maxsize=32)
def address_of(name: str) -> str:
    """The address of a file, with a tag that changes with its content."""
    # Plotly's version stands for its content, so that its megabytes are not read here.
    tag = version("plotly") if name == _PLOTLY else None
    tag = tag or hashlib.sha256(read_asset(name)).hexdigest()[:12]
    return f"/static/{name}?v={tag}"
