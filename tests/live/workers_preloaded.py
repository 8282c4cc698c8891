"""What the server of processes imports and loads once, so that no worker has to do it again.

Without it a worker spends most of its life on imports, and is killed in the middle of them.
"""

from __future__ import annotations

import alembic.command
import alembic.config
import sqlalchemy.dialects.postgresql.psycopg
import sqlalchemy.dialects.sqlite.pysqlite
import yaml  # noqa: F401
from workers_killed import PROBLEM, reward, settings

import bestarm.live.audit
import bestarm.live.document
import bestarm.live.sql
from bestarm.live import Experiment
from bestarm.policies import POLICIES

# A short trial under each policy loads its compiled functions.
for number in range(3):
    made_with = settings(number)
    trial = Experiment(POLICIES[made_with["policy"]](PROBLEM, **made_with["options"]), seed=number)
    while not trial.finished:
        trial.tell_many((each.id, reward(each.id, each.arm)) for each in trial.ask(100))
