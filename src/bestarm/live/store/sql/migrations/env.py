"""Run by Alembic within the transaction that `Store.prepare` has begun."""

from alembic import context

from bestarm.live.store.sql.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
