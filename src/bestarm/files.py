"""Files that are written whole or not at all, and locks on files.

Others may be able to write to the folder, and could leave a symbolic link where a file of ours
goes. No file here is opened through such a link.

In CSV files, a text that a spreadsheet would take for a formula is written with an apostrophe
before it, as people do who type it into one: so `=2+3` becomes `'=2+3`. A text that has such
apostrophes already gets one more. Numbers stay as they are.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["guarded", "locked", "replacing", "unguarded"]

# What begins like a formula, perhaps after apostrophes; but not a number.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_GUARDED = re.compile("'" + _FORMULA.pattern)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; its file takes the place of `path` once the block ends without an error.

    The file exists and is empty; nobody could know its name before. What is not a regular file, as
    a terminal or a pipe, is written to directly. An OSError names `path`.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    goal = path.resolve()
    part = goal.with_name(f".{goal.name}.{secrets.token_hex(8)}.part")
    try:
        part.touch(exist_ok=False)
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

    The file is made if necessary, never written to, and removed at the end. The lock of a process
    that dies ends with it, and its file stays. Where the system has no locks of this kind,
    everybody has it.

    Raises:
        OSError: the file cannot be opened, or it is not one to lock: a symbolic link, not a regular
            file, or the file of a stranger. A stranger is, in a folder that everybody may write
            to, whoever is not this user, root or the owner of the folder.
    """
    try:
        import fcntl  # noqa: PLC0415 - not everywhere
    except ImportError:
        yield True
        return
    while True:
        file = _open_lock(path)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if not _is_at(path, file):
                continue  # whoever held it has removed it since
            try:
                yield True
            finally:
                with suppress(OSError):  # of another user, in a folder of everybody
                    path.unlink()
            return
        finally:
            os.close(file)


def _open_lock(path: Path) -> int:
    """Open a file to lock, and make it if necessary; it is not changed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(path, "a symbolic link") from None
        raise
    found, folder = os.fstat(file), path.parent.stat()
    trusted = {os.geteuid(), 0, folder.st_uid}
    if not stat.S_ISREG(found.st_mode):
        wrong = "not a regular file"
    elif folder.st_mode & stat.S_IWOTH and found.st_uid not in trusted:
        wrong = "the file of another user in a folder that everybody may write to"
    else:
        return file
    os.close(file)
    raise _refused(path, wrong)


def _refused(path: Path, what: str) -> OSError:
    return OSError(errno.EPERM, f"It is {what} in the place of a lock file: remove it", str(path))


def _is_at(path: Path, file: int) -> bool:
    """Whether an open file is the one of this name."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(file))
    except FileNotFoundError:
        return False


def guarded(text: str) -> str:
    """A text that no spreadsheet takes for a formula, for a CSV file.

    >>> guarded("=2+3"), guarded("-1.5")
    ("'=2+3", '-1.5')
    """
    formula = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if formula else text


def unguarded(text: str) -> str:
    """A text of a CSV file as it was before it was guarded from spreadsheets.

    >>> unguarded("'=2+3"), unguarded("'tis")
    ('=2+3', "'tis")
    """
    return text[1:] if _GUARDED.match(text) else text
