"""The tables as they first were."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _experiment() -> sa.Column[int]:
    return sa.Column(
        "experiment", sa.Integer, sa.ForeignKey("bestarm_experiments.id"), primary_key=True
    )


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "bestarm_experiments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("lease", sa.Float(53)),
        sa.Column("given", sa.BigInteger, nullable=False),
        sa.Column("told", sa.BigInteger, nullable=False),
        sa.Column("lost", sa.BigInteger, nullable=False),
        sa.Column("late", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
        sa.Column("lowest", sa.Float(53)),
        sa.Column("highest", sa.Float(53)),
        sa.Column("phase", sa.BigInteger, nullable=False),
        sa.Column("planned", sa.Boolean, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False),
        sa.Column("pulls", sa.BigInteger, nullable=False),
        sa.Column("most", sa.BigInteger),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("phase_told", sa.BigInteger, nullable=False),
        sa.Column("phase_lost", sa.BigInteger, nullable=False),
        sa.Column("behind", sa.BigInteger, nullable=False),
        sa.Column("handed", sa.BigInteger, nullable=False),
        sa.Column("settled", sa.BigInteger, nullable=False),
        sa.Column("oldest", sa.Float(53)),
        sa.Column("summaries", sa.BigInteger, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("tip", sa.String(64), nullable=False),
        sa.Column("at", sa.Float(53)),
        sa.Column("setback", sa.Float(53), nullable=False),
    )
    op.create_table(
        "bestarm_assignments",
        _experiment(),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("phase", sa.BigInteger, nullable=False),
        sa.Column("arm", sa.Integer, nullable=False),
        sa.Column("probability", sa.Float(53), nullable=False),
        sa.Column("asked", sa.Float(53), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bestarm_outcomes",
        _experiment(),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("reward", sa.Float(53), nullable=False),
        sa.Column("told", sa.Float(53), nullable=False),
        sa.Column("late", sa.SmallInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bestarm_losses",
        _experiment(),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("phase", sa.BigInteger, nullable=False),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.UniqueConstraint("experiment", "phase", "place", name="bestarm_losses_in_order"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bestarm_requests",
        _experiment(),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("phase", sa.BigInteger, nullable=False),
        sa.Column("waiting", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bestarm_phases",
        _experiment(),
        sa.Column("phase", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
    )
    op.create_table(
        "bestarm_summaries",
        _experiment(),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("phase", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("end", sa.BigInteger, nullable=False),
        sa.Column("late", sa.Boolean, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_table(
        "bestarm_events",
        _experiment(),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
