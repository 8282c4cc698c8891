"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; its file takes the place of `path` once the block ends without an error.

    What is not a regular file, as a terminal or a pipe, is written to directly. An OSError names
    `path`.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    goal = path.resolve()
    part = goal.with_name(f".{goal.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(goal)
    except OSError as error:
        if error.strerror is None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)
