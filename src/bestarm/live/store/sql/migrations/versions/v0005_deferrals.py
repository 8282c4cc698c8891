"""Phases may close while outcomes are outstanding: which ones, and where they entered later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Phases that closed before had all their outcomes."""
    for name in ("fresh", "amended"):
        column = sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
        op.add_column("bestarm_experiments", column)
    column = sa.Column("provisional", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("bestarm_experiments", column)
    op.create_table(
        "bestarm_deferrals",
        sa.Column(
            "experiment", sa.Integer, sa.ForeignKey("bestarm_experiments.id"), primary_key=True
        ),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("entry", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("bestarm_deferrals_by_entry", "bestarm_deferrals", ["experiment", "entry"])
