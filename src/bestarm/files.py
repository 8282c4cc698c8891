"""Files that are written whole or not at all, and locks on files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["locked", "replacing"]


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


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether no other process holds a lock on a file; if so, it is held until the block ends.

    The file is removed then. The lock of a process that dies ends with it, and its file stays.
    Where the system has no locks of this kind, everybody has it.
    """
    try:
        import fcntl  # noqa: PLC0415 - not everywhere
    except ImportError:
        yield True
        return
    while True:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if not _is_at(path, file.fileno()):
                continue  # whoever held it has removed it since
            try:
                yield True
            finally:
                with suppress(OSError):  # of another user, in a folder of everybody
                    path.unlink()
            return


def _is_at(path: Path, file: int) -> bool:
    """Whether an open file is the one of this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
