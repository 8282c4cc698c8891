"""Versions that results may depend on besides their seed."""

from __future__ import annotations

import platform
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path


@lru_cache(maxsize=1)  # a process keeps what it has loaded, even if files change
def installed() -> tuple[str, ...]:
    """The versions that results may depend on, in this process."""
    source = sha256()
    for file in sorted(Path(__file__).parent.parent.rglob("*.py")):
        source.update(file.read_bytes())
    packages = [f"{name} {version(name)}" for name in ("numpy", "scipy", "numba")]
    return (
        f"Python {'.'.join(platform.python_version_tuple()[:2])}",
        *packages,
        f"bestarm {version('bestarm')} with source {source.hexdigest()[:8]}",
    )
