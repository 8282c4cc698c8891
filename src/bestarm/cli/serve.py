"""`bestarm serve` and `bestarm token`: experiments over HTTP, and who may use them."""

from __future__ import annotations

import ipaddress
import os
import shlex
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.command import command
from bestarm.cli.output import Result, need_server
from bestarm.defaults import STORE
from bestarm.errors import InvalidInputError
from bestarm.tables import TextTable

if TYPE_CHECKING:
    from bestarm.server.notifications import Receiver
    from bestarm.server.tokens import Token


@command
def serve(
    *,
    store: str = STORE,
    host: str = "127.0.0.1",
    port: int = 8000,
    allow_host: list[str] | None = None,
    workers: int = 1,
    notify: str | None = None,
    notify_command: str | None = None,
    notify_secret_file: Path | None = None,
    notify_private: bool = False,
    allow_module: list[str] | None = None,
    quiet: bool = False,
) -> None:
    """Serve experiments: programs ask and tell over HTTP, people watch in a browser.

    Args:
        host: The address to listen on; other machines need a token.
        port: The port; 0 for any that is free.
        allow_host (NAME): A host name that requests may be for, as behind a proxy; then viewing
            needs a token too. Repeat it for more.
        workers: Processes; PostgreSQL only.
        notify (URL): Post a signed notification to this https address when an option is out, a
            guardrail, an alarm or a stall begins, and when an experiment is decided: a sentence
            that Slack and Discord show, with a link to the page at the first `--allow-host`.
        notify_command (COMMAND): Run this program instead, with the notification as JSON on its
            standard input.
        notify_secret_file (FILE): The secret that notifications are signed with, in base64; if left
            out, the variable BESTARM_NOTIFY_SECRET has it.
        notify_private: Allow an address of this machine or of a private network, and http.
        allow_module (MODULE): An installed module that experiments' own policies may be imported
            from: this runs its code. Repeat it for more.
        quiet: Do not log requests.
    """
    need_server()
    from bestarm import checks
    from bestarm.live.store import Store
    from bestarm.server.serving import listen, run_server
    from bestarm.server.tokens import list_tokens

    checks.whole(workers, "workers", least=1, below=65)
    database = Store(store)
    if workers > 1 and database.sqlite:
        raise InvalidInputError(
            "A SQLite file is served by one process; several need PostgreSQL.",
            field="workers",
            value=workers,
            remedy="Leave `--workers` out, or give a PostgreSQL `--store`.",
        )
    alone = _only_this_machine(host)
    tokens = sum(token.revoked is None for token in list_tokens(database))
    create = f"bestarm token create NAME --role manage --store {database.place}"
    if not alone and not tokens:
        raise InvalidInputError(
            f"Listening on {host} lets other machines in, and no access token exists yet.",
            field="host",
            value=host,
            remedy=f"Create one first: {create}",
        )
    new = database.file_missing
    database.prepare()
    database.close()
    receiver = _receiver(notify, notify_command, notify_secret_file, private=notify_private)
    hosts = tuple(allow_host or ())
    local = alone and not hosts
    listener = listen(host, port)
    address, port = listener.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    typer.echo(f"Serving {database.place} at http://{shown}:{port}/ (Ctrl-C stops it).")
    if new:
        typer.echo("The file did not exist: this is a new database.")
    if local:
        typer.echo("Viewing needs no token on this machine; telling and managing do.")
    if not tokens or local:
        typer.echo(f"To create a token: {create}")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):  # an orderly stop
        app = {"local": local, "hosts": hosts, "notify": receiver}
        app["address"] = f"https://{hosts[0]}" if hosts else f"http://{shown}:{port}"
        app["allow_modules"] = tuple(allow_module or ())
        run_server(store, listener, workers=workers, quiet=quiet, **app)
    typer.echo("Stopped.", err=True)


def _receiver(
    url: str | None, command: str | None, file: Path | None, *, private: bool
) -> Receiver | None:
    """Where notifications go, or None."""
    from bestarm.server.notifications import Command, Webhook, read_secret

    if command is not None:
        arguments = tuple(shlex.split(command))
        if url is not None or not arguments:
            raise InvalidInputError(
                "Give one of `--notify` and `--notify-command`."
                if url is not None
                else "`--notify-command` is empty.",
                field="notify",
                value=command,
                remedy="One receiver can pass notifications on to others.",
            )
        return Command(arguments)
    if url is None:
        return None
    text = os.environ.get("BESTARM_NOTIFY_SECRET", "") if file is None else file.read_text("utf-8")
    webhook = Webhook(url, read_secret(text), private)
    webhook.check()
    return webhook


def _only_this_machine(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InvalidInputError(
            f"There is no address for {host!r}.",
            field="host",
            value=host,
            remedy="Use 127.0.0.1, or 0.0.0.0 for all addresses of this machine.",
        ) from None
    return bool(host) and all(
        ipaddress.ip_address(str(each[4][0]).split("%")[0]).is_loopback for each in found
    )


token = typer.Typer(
    name="token", no_args_is_help=True, help="Create, list and revoke access tokens of a server."
)


@token.command()
@command
def create(name: str, *, role: str, store: str = STORE) -> Result:
    """Create a token and print it, this once: only its digest is stored.

    Args:
        name (NAME): Who uses it, or what it is for.
        role (view|tell|manage): What it allows; each role may also do what those before it may.
    """
    need_server()
    from bestarm.live.store import Store
    from bestarm.server.tokens import Role, create_token, token_number

    level = Role.named(role)
    text = create_token(Store(store), name, level)
    data = {"id": token_number(text), "name": name, "role": level.word, "token": text}
    note = "Keep the token: only its digest is stored, so it cannot be shown again."
    return Result(data, [text], note=f"Role: {level.word}. {note}")


@token.command("list")
@command
def list_(*, store: str = STORE) -> Result:
    """Show all tokens ever created, without their secrets."""
    need_server()
    from bestarm.live.store import Store
    from bestarm.server.tokens import list_tokens

    database = Store(store)
    tokens = list_tokens(database)
    rows = [
        (str(each.id), each.name, each.role.word, _time(each.created), _time(each.revoked))
        for each in tokens
    ]
    lines: list[str | TextTable] = [
        TextTable.of(("id", "name", "role", "created", "revoked"), rows)
        if tokens
        else "There are no tokens yet. Create one: bestarm token create NAME --role manage"
    ]
    note = database.why_empty if database.file_missing else ""
    return Result([_data(each) for each in tokens], lines, note=note)


def _time(at: float | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


@token.command()
@command
def revoke(number: int, *, store: str = STORE) -> Result:
    """Revoke a token: from the next request on it allows nothing.

    Args:
        number (ID): Its number, as listed.
    """
    need_server()
    from bestarm.live.store import Store
    from bestarm.server.tokens import revoke_token

    revoked = revoke_token(Store(store), number)
    words = f"Token {revoked.id} ({revoked.name}) is revoked and no longer allows anything."
    return Result(_data(revoked), [words])


def _data(token: Token) -> dict[str, Any]:
    return {**vars(token), "role": token.role.word}
