"""The tables of the first version."""

from __future__ import annotations

from alembic import op

from bestarm.live.store.sql.schema import metadata

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make them as they are declared. The second version must write out here what they were."""
    metadata.create_all(op.get_bind(), checkfirst=False)
