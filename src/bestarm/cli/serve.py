"""`bestarm serve`: trials over HTTP."""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

import typer

from bestarm.errors import InvalidInputError
from bestarm.live.store.sql import Store
from bestarm.server import Limits
from bestarm.server.security.tokens import list_tokens
from bestarm.server.serving import Serving, listen, serve

__all__ = ["run_serve"]


def run_serve(
    *,
    store: str,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    workers: int,
    rate: float | None,
    quiet: bool,
) -> None:
    """Serve a store's trials until stopped."""
    _check(port=port, workers=workers, rate=rate)
    books = Store(store)
    books.prepare()
    if workers > 1 and books.sqlite:
        _refuse(
            "A SQLite file is served by one process; several need PostgreSQL. "
            "Leave `--workers` out, or give a PostgreSQL `--store`."
        )
    alone = _only_here(host)
    tokens = sum(token.revoked is None for token in list_tokens(books))
    make = f"bestarm token create NAME --role manage --store {books.place}"
    if not alone and not tokens:
        _refuse(
            f"Listening on {host} lets other machines in, and there is no token yet to tell who "
            f"may do what. Make one first: {make}"
        )
    books.close()
    limits = Limits()
    if rate is not None:
        limits = replace(limits, rate=rate, burst=max(1, round(2 * rate)))
    serving = Serving(store, local=alone and not hosts, hosts=hosts, limits=limits)
    try:
        listener = listen(host, port)
    except OSError as error:
        _refuse(f"Cannot listen on {host} port {port}: {error.strerror or error}.")
    _say(listener, books.place, local=serving.local, tokens=tokens, make=make)
    with suppress(KeyboardInterrupt):  # stopped in order, as was asked for
        serve(serving, listener, workers=workers, quiet=quiet)
    typer.echo("Stopped.", err=True)


def _check(*, port: int, workers: int, rate: float | None) -> None:
    for name, value, fits, span in (
        ("port", port, 0 <= port <= 65535, "from 0 to 65535"),
        ("workers", workers, 1 <= workers <= 64, "from 1 to 64"),
        ("rate", rate, rate is None or 0 < rate < 1e9, "positive"),
    ):
        if not fits:
            raise InvalidInputError(
                f"`--{name}` must be {span}; got {value}.", field=name, value=value
            )


def _only_here(host: str) -> bool:
    """Whether nobody but this machine can reach an address."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        _refuse(f"There is no address for {host!r}.")
    return bool(host) and all(
        ipaddress.ip_address(str(each[4][0]).split("%")[0]).is_loopback for each in found
    )


def _say(listener: socket.socket, place: str, *, local: bool, tokens: int, make: str) -> None:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"Serving {place} at http://{shown}:{port}/ (Ctrl-C stops it).")
    if local:
        typer.echo("Looking needs no token from this machine; telling and managing do.")
    if not tokens or local:
        typer.echo(f"To make a token: {make}")
    sys.stdout.flush()


def _refuse(sentence: str) -> NoReturn:
    typer.echo(f"bestarm: {sentence}", err=True)
    raise typer.Exit(2)
