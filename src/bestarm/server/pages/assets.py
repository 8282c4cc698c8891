"""The files that pages are made with: style, scripts, Plotly."""

from __future__ import annotations

import gzip
import hashlib
from functools import lru_cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_SMALL = 1000  # bytes that are not worth compressing
_FOR_EVER = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """Files whose addresses change with their content, so that browsers may keep them for ever."""

    def __init__(self) -> None:
        super().__init__(packages=[("bestarm.server", "static"), ("plotly", "package_data")])

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or that it has not changed."""
        response = await super().get_response(path, scope)
        gzipped = "gzip" in Headers(scope=scope).get("accept-encoding", "")
        if gzipped and int(response.headers.get("content-length", 0)) > _SMALL:
            assert isinstance(response, FileResponse)
            body = await run_in_threadpool(_compressed, str(response.path))
            kept = ("content-type", "etag", "last-modified")
            headers = {name: response.headers[name] for name in kept}
            response = Response(body, headers=headers | {"Content-Encoding": "gzip"})
        response.headers["Cache-Control"] = _FOR_EVER
        response.headers["Vary"] = "Accept-Encoding"
        return response


@lru_cache(maxsize=32)
def _compressed(path: str) -> bytes:
    """A file, compressed once: Plotly's script takes 0.14 s."""
    return gzip.compress(Path(path).read_bytes(), 6)


@lru_cache(maxsize=32)
def read_asset(name: str) -> bytes:
    """The content of a file of ours."""
    return resources.files("bestarm.server").joinpath("static", name).read_bytes()


@lru_cache(maxsize=32)
def address_of(name: str) -> str:
    """The address of a file, with a tag that changes with its content."""
    # Plotly's version stands for its content, so that its megabytes are not read here.
    plotly = name == "plotly.min.js"
    tag = version("plotly") if plotly else hashlib.sha256(read_asset(name)).hexdigest()[:12]
    return f"/static/{name}?v={tag}"
