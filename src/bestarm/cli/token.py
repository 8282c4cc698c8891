"""`bestarm token`: who may do what on a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.command import command
from bestarm.cli.options import DEFAULT_STORE, AsJson, StoreUrl
from bestarm.cli.reporting import console, need_server, print_json, print_result

if TYPE_CHECKING:
    from bestarm.server.security.tokens import Token

token = typer.Typer(
    name="token", no_args_is_help=True, help="Create, list and revoke access tokens of a server."
)


@token.command()
@command
def create(name: str, *, role: str, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Create a token and print it, this once: only its digest is stored.

    Args:
        name (NAME): Who uses it, or what it is for.
        role (view|tell|manage): What it allows; each role may also do what those before it may.
    """
    need_server()
    from bestarm.live.store.sql import Store
    from bestarm.server.security.tokens import Role, create_token

    level = Role.named(role)
    text = create_token(Store(store), name, level)
    number = int(text.split("-")[1])
    data = {"id": number, "name": name, "role": level.word, "token": text}
    print_result(data, text, as_json=json)
    if not json:
        typer.echo(
            f"Role: {level.word}. Keep the token: only its digest is stored, so it cannot be shown "
            "again.",
            err=True,
        )


@token.command("list")
@command
def list_(*, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Show all tokens ever created, without their secrets."""
    need_server()
    from rich.table import Table

    from bestarm.live.store.sql import Store
    from bestarm.server.security.tokens import list_tokens

    tokens = list_tokens(Store(store))
    if json:
        print_json([_data(each) for each in tokens])
        return
    if not tokens:
        typer.echo("There are no tokens yet. Create one: bestarm token create NAME --role manage")
        return
    table = Table("id", "name", "role", "created", "revoked", box=None)
    for each in tokens:
        times = ["" if at is None else _time(at) for at in (each.created, each.revoked)]
        table.add_row(str(each.id), each.name, each.role.word, *times)
    console().print(table)


@token.command()
@command
def revoke(number: int, *, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Revoke a token: from the next request on it allows nothing.

    Args:
        number (ID): Its number, as listed.
    """
    need_server()
    from bestarm.live.store.sql import Store
    from bestarm.server.security.tokens import revoke_token

    revoked = revoke_token(Store(store), number)
    words = f"Token {revoked.id} ({revoked.name}) is revoked and no longer allows anything."
    print_result(_data(revoked), words, as_json=json)


def _data(token: Token) -> dict[str, Any]:
    return {**vars(token), "role": token.role.word}


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
