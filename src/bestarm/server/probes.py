"""`GET /healthz` and `GET /readyz`: whether the process lives, and whether it can serve.

They need no token and answer for every host, as programs that watch containers have neither; they
say nothing of what is in the database.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from bestarm.live.store import Store

PATHS = frozenset({"/healthz", "/readyz"})

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers; a database that cannot be reached is no reason to restart it."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> dict[str, str]:
    """The database can be read: otherwise a 503."""
    await run_in_threadpool(_read, request.app.state.store)
    return {"status": "ready"}


def _read(store: Store) -> None:
    with store.snapshot() as session:
        session.raw.execute("SELECT 1").fetchall()
