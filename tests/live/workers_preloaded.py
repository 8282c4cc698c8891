"""What the server of processes imports and loads once, so that no worker has to do it again.

Without it a worker spends most of its life on imports, and is killed in the middle of them.
"""

from __future__ import annotations

import gc
from importlib import import_module
from tempfile import TemporaryDirectory

# All of this stays. Looking through it for garbage takes a quarter of the time of the imports, and
# in a worker it would copy what is shared until somebody writes there.
gc.disable()

for name in (
    "shortcuts",
    "bestarm.cli.app",
    "bestarm.cli.serve",
    "bestarm.evaluation",
    "bestarm.live.audit.verify",
    "bestarm.live.spec",
    "bestarm.live.store",
    "bestarm.planning.worker",
    "bestarm.server.serving",
    "pandas",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
):
    import_module(name)
live, killed = import_module("bestarm.live"), import_module("workers_killed")

# A short experiment under each policy loads its compiled functions, and compiles its statements.
with TemporaryDirectory() as folder:
    for number in range(3):
        with live.Experiment.create(
            f"sqlite:///{folder}/store.db", str(number), killed.PROBLEM, **killed.settings(number)
        ) as made:
            while not made.finished:
                given = made.ask(100)
                made.tell_many([(each.id, killed.reward(each.id, each.arm)) for each in given])

gc.freeze()
gc.enable()
