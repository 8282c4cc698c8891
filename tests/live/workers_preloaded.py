"""What the server of processes imports and loads once, so that no worker has to do it again.

Without it a worker spends most of its life on imports, and is killed in the middle of them.
"""

from __future__ import annotations

import gc
from importlib import import_module
from tempfile import TemporaryDirectory

import shortcuts  # noqa: F401
from workers_killed import PROBLEM, reward, settings

from bestarm.live import Experiment

for name in (
    "alembic.command",
    "alembic.config",
    "bestarm.cli.app",
    "bestarm.cli.serve",
    "bestarm.evaluation",
    "bestarm.live.audit.chain",
    "bestarm.live.spec",
    "bestarm.live.store.sql",
    "bestarm.planning.worker",
    "bestarm.server.serving",
    "pandas",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
):
    import_module(name)

# A short experiment under each policy loads its compiled functions, and compiles its statements.
with TemporaryDirectory() as folder:
    for number in range(3):
        with Experiment.create(
            f"sqlite:///{folder}/store.db", str(number), PROBLEM, **settings(number)
        ) as made:
            while not made.finished:
                made.tell_many([(each.id, reward(each.id, each.arm)) for each in made.ask(100)])

# A collection in a worker would copy all of the above, which it shares until it writes there.
gc.collect()
gc.freeze()
