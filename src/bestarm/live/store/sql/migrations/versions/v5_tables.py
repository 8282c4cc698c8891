"""The tables of the first version that is read; those before it were never released."""

from __future__ import annotations

from alembic import op

from bestarm.live.store.sql.schema import metadata

revision = "5"
down_revision = None


def upgrade() -> None:
    """Make them as they are declared. The next version must write out here what they were."""
    metadata.create_all(op.get_bind(), checkfirst=False)
