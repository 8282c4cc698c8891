"""Linear algebra on one thread: the workers are the parallelism, and sums keep their order."""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any


class _SharedLimit:
    """A limit of the whole process: its first holder sets it, its last holder lifts it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._limit: Any = None
        self._libraries: tuple[int, Any] = 0, None

    def __enter__(self) -> None:
        import scipy.linalg  # noqa: F401, PLC0415 - a library loaded later would escape the limit

        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._limit = self._find_libraries().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                self._limit.restore_original_limits()

    def _find_libraries(self) -> Any:
        """All libraries of linear algebra; to look for them again takes as long as many a run."""
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415

        modules, found = self._libraries
        if modules != len(sys.modules):  # else none was loaded since
            found = ThreadpoolController()
            self._libraries = len(sys.modules), found
        return found


one_thread = _SharedLimit()  # while any thread of this process is inside
