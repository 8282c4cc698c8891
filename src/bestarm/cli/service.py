"""The commands around a server: it, its tokens, and whether its database is safe to use."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.experiment import DEFAULT_STORE, AsJson, StoreUrl
from bestarm.cli.numbers import decimal, whole
from bestarm.cli.reporting import reported
from bestarm.errors import MissingDependencyError

__all__ = ["need_server", "service"]

service = typer.Typer()


def need_server() -> None:
    """Say what to install where a server cannot be run."""
    from importlib.util import find_spec  # noqa: PLC0415

    for name in ("sqlalchemy", "fastapi", "uvicorn"):
        if find_spec(name) is None:
            raise MissingDependencyError(
                f"This needs {name}, which is not installed.",
                field=name,
                remedy="Install it with pip install 'bestarm[server]'.",
            )


@service.command()
@reported
def serve(
    store: StoreUrl = DEFAULT_STORE,
    host: Annotated[
        str, typer.Option(help="The address to listen on; other machines need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(parser=whole, help="The port; 0 for any that is free.")
    ] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A host name that requests may be for, as behind a proxy; then looking needs a "
            "token too. Repeat it for more.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(parser=whole, help="Processes; PostgreSQL only.")] = 1,
    rate: Annotated[
        float | None,
        typer.Option(
            parser=decimal,
            help="Requests a second from one caller, in each process; 1000 if left out.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log requests.")] = False,
) -> None:
    """Let programs ask and tell over HTTP, and people watch."""
    need_server()
    from bestarm.cli.serve import run_serve  # noqa: PLC0415

    run_serve(
        store=store,
        host=host,
        port=port,
        hosts=tuple(allow_host or ()),
        workers=workers,
        rate=rate,
        quiet=quiet,
    )


tokens = typer.Typer(no_args_is_help=True, help="Make, list and revoke the tokens of a server.")
service.add_typer(tokens, name="token")


@tokens.command("create")
@reported
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, or what for.")],
    role: Annotated[
        str,
        typer.Option(
            metavar="view|tell|manage", help="What it allows; each allows what is before."
        ),
    ],
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Make a token and print it: this once, as only its digest is kept."""
    need_server()
    from bestarm.cli.token import run_create  # noqa: PLC0415

    run_create(name, role=role, store=store, as_json=json)


@tokens.command("list")
@reported
def list_tokens(store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Show all tokens ever made, without their secrets."""
    need_server()
    from bestarm.cli.token import run_list  # noqa: PLC0415

    run_list(store=store, as_json=json)


@tokens.command("revoke")
@reported
def revoke_token(
    number: Annotated[
        int, typer.Argument(parser=whole, metavar="ID", help="Its number, as listed.")
    ],
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """End a token: from the next request on it allows nothing."""
    need_server()
    from bestarm.cli.token import run_revoke  # noqa: PLC0415

    run_revoke(number, store=store, as_json=json)


@service.command()
@reported
def doctor(
    url: Annotated[
        str,
        typer.Argument(
            metavar="[URL]",
            envvar="BESTARM_STORE",
            help="The database: sqlite:///trial.db for a file, postgresql://user@host/name.",
        ),
    ] = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Say whether a database is safe to keep a trial in: exit code 1 on an alarm."""
    from bestarm.cli.doctor import run_doctor  # noqa: PLC0415

    run_doctor(url, as_json=json)
