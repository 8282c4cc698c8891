"""`bestarm token`: who may do what on a server."""

from __future__ import annotations

import time
from typing import Any

import typer

from bestarm.cli.reporting import console, print_json
from bestarm.live.store.sql import Store
from bestarm.server.security.tokens import Role, Token, create_token, list_tokens, revoke_token

__all__ = ["run_create", "run_list", "run_revoke"]


def run_create(name: str, *, role: str, store: str, as_json: bool) -> None:
    """Make a token and print it, this once."""
    level = Role.named(role)
    text = create_token(Store(store), name, level)
    if as_json:
        number = int(text.split("-")[1])
        print_json({"id": number, "name": name, "role": level.word, "token": text})
        return
    typer.echo(text)
    typer.echo(
        f"It may {level.word}. Keep it: it is stored as a digest and cannot be shown again.",
        err=True,
    )


def run_list(*, store: str, as_json: bool) -> None:
    """Print all tokens, without their secrets."""
    from rich.table import Table  # noqa: PLC0415

    tokens = list_tokens(Store(store))
    if as_json:
        print_json([_data(token) for token in tokens])
        return
    if not tokens:
        typer.echo("There is no token yet. To make one: bestarm token create NAME --role manage")
        return
    table = Table("id", "name", "role", "created", "revoked", box=None)
    for token in tokens:
        times = ["" if at is None else _time(at) for at in (token.created, token.revoked)]
        table.add_row(str(token.id), token.name, token.role.word, *times)
    console().print(table)


def run_revoke(number: int, *, store: str, as_json: bool) -> None:
    """End a token."""
    token = revoke_token(Store(store), number)
    if as_json:
        print_json(_data(token))
    else:
        typer.echo(f"Token {token.id} ({token.name}) is revoked and allows nothing any more.")


def _data(token: Token) -> dict[str, Any]:
    return {**vars(token), "role": token.role.word}


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
