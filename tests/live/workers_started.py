"""How tests start processes: each new one shares nothing with others but imported modules."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

__all__ = ["HANG_TIMEOUT", "processes"]

HANG_TIMEOUT = 120  # seconds after which a process that should be done is thought to hang

processes = multiprocessing.get_context("forkserver")
# One server serves all tests. It finds modules by its environment alone.
_HERE = Path(__file__).parent
_FOLDERS = (str(_HERE), str(_HERE.parent), os.environ.get("PYTHONPATH", ""))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _FOLDERS))
processes.set_forkserver_preload(["workers_preloaded"])
