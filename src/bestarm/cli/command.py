"""Commands from functions: parameters from their signatures, help from their docstrings."""

from __future__ import annotations

import errno
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, ParamSpec, get_args

import typer

from bestarm.cli.options import decimal, whole
from bestarm.cli.reporting import remark
from bestarm.errors import BestArmError

P = ParamSpec("P")

_PARSERS: tuple[tuple[type, Callable[[str], Any]], ...] = ((float, decimal), (int, whole))
_ENTRY = re.compile(r"(?P<name>\w+)(?: \((?P<metavar>[^)]*)\))?: (?P<help>.*)")
_REMEDIES: dict[int | None, str] = {
    errno.ENOENT: " Check its name and its folder.",
    errno.EACCES: " Check who may use it.",
    errno.EISDIR: " Name a file.",
}
# Not connections that were refused, and the like.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def command(function: Callable[P, None]) -> Callable[P, None]:
    """A command: errors a user can cause become one line on stderr and exit code 2.

    Parameters before `*` are arguments, the others options; one that is annotated for Typer stays
    as it is. The help of each is its entry under `Args:`, with its metavar in parentheses.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except BestArmError as error:
            sentence = str(error)
        except BrokenPipeError:
            raise  # the reader of our output has gone; Typer leaves quietly
        except OSError as error:
            words = error.strerror or ""
            cause = words[:1].lower() + words[1:]
            if error.filename is not None and cause:
                sentence = f"{str(error.filename)!r} cannot be read or written: {cause}."
                sentence += _REMEDIES.get(error.errno, "")
            elif error.filename is None and error.errno in _FULL:
                sentence = f"Writing failed: {cause}. What was done by then is done."
            else:
                raise  # not about a file that was named to us
        else:
            return
        _discard_output()
        remark(sentence)
        raise typer.Exit(2)

    run.__doc__, _, entries = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")
    run.__signature__ = _described(inspect.signature(function, eval_str=True), entries)  # type: ignore[attr-defined]
    return run


def _described(signature: inspect.Signature, entries: str) -> inspect.Signature:
    """A signature whose parameters Typer knows as arguments and options."""
    parameters = dict(signature.parameters)
    for entry in re.split(r"\n(?=    \w)", entries) if entries else ():
        found = _ENTRY.fullmatch(" ".join(entry.split()))
        assert found is not None, entry
        parameter = parameters[found["name"]]
        kind = parameter.annotation
        settings: dict[str, Any] = {"help": found["help"], "metavar": found["metavar"]}
        settings["parser"] = next((read for of, read in _PARSERS if of in _leaves(kind)), None)
        if parameter.kind is not parameter.KEYWORD_ONLY:
            info = typer.Argument(**settings)
        elif kind is bool:
            info = typer.Option(f"--{parameter.name.replace('_', '-')}", **settings)
        else:
            info = typer.Option(**settings)
        parameters[parameter.name] = parameter.replace(annotation=Annotated[kind, info])
    return signature.replace(parameters=list(parameters.values()))


def _leaves(kind: Any) -> set[Any]:
    """The types that a type is made of."""
    parts = get_args(kind)
    return set().union(*map(_leaves, parts)) if parts else {kind}


def _discard_output() -> None:
    """Drop what standard output did not take, so that Python does not try again at exit."""
    if sys.stdout is None:
        return  # closed from the start
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def modules_of_folder(folder: str = "") -> Iterator[None]:
    """Modules of a folder can be imported, also in processes started meanwhile.

    It is the current one unless another is named.
    """
    here = os.path.abspath(folder)
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
