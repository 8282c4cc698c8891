"""Users' own modules, which lie in the folder a command is run from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def modules_of_this_folder() -> Iterator[None]:
    """Modules of the current folder can be imported, also in processes started meanwhile."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
