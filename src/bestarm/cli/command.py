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
from pathlib import Path
from typing import Annotated, Any, ParamSpec, get_args

import typer

from bestarm.cli.output import remark
from bestarm.defaults import STORE
from bestarm.errors import BestArmError

DEFAULT_STORE = STORE


def read_number(text: str) -> float | None:
    """A number as people write it, or None. With an underscore, 0_1 is a slip and not 1.

    >>> read_number("0.1"), read_number("0_1")
    (0.1, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def decimal(value: str) -> float:
    """Parse a number."""
    text = str(value)
    number = read_number(text)
    if number is None:
        raise typer.BadParameter(f"{text!r} is not a number.")
    return number


def whole(value: str) -> int:
    """Parse a whole number."""
    text = str(value)
    try:
        return int("none" if "_" in text else text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None


Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE.csv",
        help="Features of the arms one can pull, one row per arm. A header is optional; a first "
        "column that is not numeric holds labels; a file of names alone will do. Or a .json file.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option(
        metavar="TARGET.csv",
        help="Features of the options to choose among; the source when left out.",
    ),
]
Delta = Annotated[float, typer.Option(parser=decimal, help="The error probability allowed.")]
Noise = Annotated[
    float | None,
    typer.Option(
        parser=decimal, help="The scale of the noise; 1 if left out, or what bounds imply."
    ),
]
Baseline = Annotated[
    float | None,
    typer.Option(
        parser=decimal,
        help="A bound on the baseline's size; 1 if left out, or what bounds imply.",
    ),
]
Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option(
        parser=decimal,
        metavar="LOW HIGH",
        help="The lowest and the highest reward: 0 1 for no and yes.",
    ),
]
Runs = Annotated[int, typer.Option(parser=whole, help="Runs of each method.")]
Seed = Annotated[int, typer.Option(parser=whole, help="Results depend on it and on nothing else.")]
Workers = Annotated[
    int | None,
    typer.Option(parser=whole, metavar="N", help="Processes that share the runs; 1 if left out."),
]
Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers share the runs."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The experiment's name in the store.")]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="BESTARM_STORE",
        help="The database: sqlite:///experiments.db for a file, postgresql://user@host/name.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]


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
