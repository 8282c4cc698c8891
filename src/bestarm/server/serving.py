"""Serving the application on uvicorn: one process, or several on one socket."""

from __future__ import annotations

import errno
import socket
from functools import partial
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from bestarm.checks import whole
from bestarm.errors import InvalidInputError
from bestarm.server.app import create_app
from bestarm.server.guard import Limits

_CHECK = "Check the host and the port."
# Why an address cannot be listened on, and what to do: by the system's error.
_LISTENING: dict[int | None, tuple[str, str]] = {
    errno.EADDRINUSE: (
        "another program uses it",
        "Stop that program, or choose another port; 0 takes any that is free.",
    ),
    errno.EACCES: (
        "the system does not allow it",
        "Ports below 1024 need special rights: choose a higher one.",
    ),
    errno.EADDRNOTAVAIL: (
        "this machine does not have that address",
        "Use 127.0.0.1, or 0.0.0.0 for all addresses of this machine.",
    ),
}


def listen(host: str, port: int) -> socket.socket:
    """A socket on which connections are awaited. Raises InvalidInputError if there can be none."""
    whole(port, "port", least=0, below=65536)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        cause, remedy = _LISTENING.get(error.errno, (str(error.strerror or error), _CHECK))
        raise InvalidInputError(
            f"Cannot listen on {host} port {port}: {cause}.",
            field="port",
            value=port,
            remedy=remedy,
        ) from None


def uvicorn_config(
    url: str, *, log: dict[str, Any] | None = None, workers: int = 1, **settings: Any
) -> uvicorn.Config:
    """How the application is served; settings as for `create_app`."""
    limits = settings.setdefault("limits", Limits())
    return uvicorn.Config(
        partial(create_app, url, **settings),  # made in every process
        factory=True,
        ws="none",
        lifespan="on",
        log_config=log,
        access_log=False,  # ours leaves out the query
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=10,
        timeout_keep_alive=65,  # longer than clients and proxies keep an idle connection
        timeout_worker_healthcheck=60,
        workers=workers,
    )


def run_server(
    url: str, listener: socket.socket, *, workers: int, quiet: bool, **settings: Any
) -> None:
    """Serve until stopped by Ctrl-C or SIGTERM; log requests to stderr unless `quiet`."""
    config = uvicorn_config(url, log=_logging(quiet), workers=workers, **settings)
    if workers > 1:
        Multiprocess(config, sockets=[listener]).run()
    else:
        uvicorn.Server(config).run(sockets=[listener])


def _logging(quiet: bool) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(name)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
        "loggers": {
            "bestarm": {"handlers": ["stderr"], "level": "INFO"},
            "bestarm.access": {"level": "WARNING" if quiet else "INFO"},
            "uvicorn": {"handlers": ["stderr"], "level": "WARNING"},
        },
    }
