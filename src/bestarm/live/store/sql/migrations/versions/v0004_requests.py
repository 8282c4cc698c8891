"""Requests are bound to each other by a hash, and refused rewards are kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Requests made before are under no hash, and rewards refused before are only counted."""
    column = sa.Column("requests", sa.String(64), nullable=False, server_default="")
    op.add_column("bestarm_experiments", column)
    op.create_table(
        "bestarm_refusals",
        sa.Column(
            "experiment", sa.Integer, sa.ForeignKey("bestarm_experiments.id"), primary_key=True
        ),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("reward", sa.Float(53), nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sqlite_with_rowid=False,
    )
