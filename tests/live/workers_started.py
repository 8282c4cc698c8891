"""How tests start processes: each new one shares nothing with others but imported modules."""

from __future__ import annotations

import multiprocessing

__all__ = ["PATIENCE", "processes"]

PATIENCE = 120  # seconds after which a process that should be done is thought to hang

processes = multiprocessing.get_context("forkserver")
# One server serves all tests, and what it imports at its start need not be imported again.
processes.set_forkserver_preload(
    [
        "alembic.command",
        "bestarm.live.audit.chain",
        "bestarm.live.spec",
        "bestarm.live.store.sql",
        "bestarm.policies.index.action_elimination",
        "bestarm.policies.anytime.rule",
        "bestarm.policies.phased.spbai",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.dialects.sqlite.pysqlite",
    ]
)
