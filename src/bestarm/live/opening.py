"""How an experiment begins, and how the place where it is kept is reached."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from bestarm.checks import duration
from bestarm.errors import MissingDependencyError
from bestarm.live.events import FORMAT, record
from bestarm.live.store.contract import Event, Head

if TYPE_CHECKING:
    from bestarm.live.store.sql import SqlLedger, Store

__all__ = ["begun", "closed_on_error", "reached"]


def begun(at: float, *, lease: float | str | None, **data: object) -> tuple[Head, Event]:
    """The counters of an experiment that begins now, and the first entry of its log.

    The entry holds the seed, and its hash may be read by those who must not know the seed: with a
    salt that they cannot read either, trying all seeds does not give it away.
    """
    head = Head(lease=None if lease is None else duration(lease, "lease"), at=at)
    made_by = {"version": version("bestarm"), "format": FORMAT, "salt": secrets.token_hex(16)}
    return head, record(head, "created", at, lease=head.lease, **made_by, **data)


def reached(url: str | Store) -> tuple[Store, type[SqlLedger]]:
    """A database by its URL, and what keeps books in it."""
    try:
        from bestarm.live.store.sql import SqlLedger, Store  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError(
            f"Keeping experiments in a database needs {error.name}.",
            field="url",
            value=url,
            remedy="Run: pip install 'bestarm[live]'.",
        ) from None
    return url if isinstance(url, Store) else Store(url), SqlLedger


@contextmanager
def closed_on_error(store: Store) -> Iterator[None]:
    """Let go of a database if what is tried there fails."""
    try:
        yield
    except BaseException:
        store.close()
        raise
