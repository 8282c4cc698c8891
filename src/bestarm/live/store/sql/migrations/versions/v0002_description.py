"""An experiment can be described in words."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Older ones have no description."""
    column = sa.Column("description", sa.Text, nullable=False, server_default="")
    op.add_column("bestarm_experiments", column)
