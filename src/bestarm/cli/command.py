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
from typing import Annotated, Any, get_args

import typer

from bestarm.cli.output import Result, print_result, remark
from bestarm.defaults import STORE
from bestarm.errors import BestArmError
from bestarm.units import read_amount


def read_number(text: str) -> float | None:
    """A number as people write it, or None. With an underscore, 0_1 is a slip and not 1.

    >>> read_number("0.1"), read_number("0_1")
    (0.1, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


_COMMA = " Commas separate thousands, as in 20,000; decimals have a point, as in 0.5."


def decimal(value: str) -> float:
    """Parse a number; Typer also passes defaults, which are numbers."""
    amount = read_amount(str(value))
    if amount is None:
        raise typer.BadParameter(f"{value!r} is not a number.{_COMMA if ',' in value else ''}")
    return float(amount)


def whole(value: str) -> int:
    """Parse a whole number; as for `decimal`, it may be a default."""
    amount = None if "%" in str(value) else read_amount(str(value))
    number, parts = (0, 0) if amount is None else amount.as_integer_ratio()
    # Where a point separates thousands, 20.000 is not 20; 1.5k and 1.5e3 leave no doubt.
    pointed = re.search(r"\.\d*\s*$", str(value)) is not None
    if parts != 1 or pointed:
        hint = _COMMA if "," in value or pointed else ""
        raise typer.BadParameter(f"{value!r} is not a whole number.{hint}")
    return number


# What commands share; a command may explain a parameter of such a name otherwise.
_SHARED = """\
    source (SOURCE.csv): Features of the arms one can pull, one row per arm. A header is optional; a
        first column that is not numeric holds labels; a file of names alone will do. Or a .json
        file.
    target (TARGET.csv): Features of the options to choose among; the source when left out.
    delta: The error probability allowed.
    noise: The scale of the noise; 1 if left out, or what bounds imply.
    baseline: A bound on the baseline's size; 1 if left out, or what bounds imply.
    bounds (LOW HIGH): The lowest and the highest reward: 0 1 for no and yes.
    runs: Runs of each method.
    seed: Results depend on it and on nothing else.
    workers (N): Processes that share the runs; 1 if left out.
    name (NAME): The experiment's name in the store.
    store (URL): The database: sqlite:///experiments.db for a file, postgresql://user@host/name.
    allow_module (MODULE): A module, installed or of the current folder, that the experiment's own
        policy may be imported from: this runs its code. Repeat it for more.
    json: Print JSON instead of words.
"""

_JSON = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)

_ENTRY = re.compile(r"(?P<name>\w+)(?: \((?P<metavar>[^)]*)\))?: (?P<help>.*)")
_REMEDIES: dict[int | None, str] = {
    errno.ENOENT: " Check its name and its folder.",
    errno.EACCES: " Check who may use it.",
    errno.EISDIR: " Name a file.",
}
# Not connections that were refused, and the like.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def command(function: Callable[..., Result | None]) -> Callable[..., None]:
    """A command: errors a user can cause become one line on stderr and exit code 2.

    Parameters before `*` are arguments, the others options. The help of each is its entry under
    `Args:`, with its metavar in parentheses, or among those that commands share. A store that is
    not named is that of the environment. What the function returns is printed, in words or with the
    option `--json`, which it need not take itself, as JSON.
    """
    signature = inspect.signature(function, eval_str=True)
    parameters = dict(signature.parameters)
    takes_json = "json" in parameters
    if signature.return_annotation is not None:
        parameters.setdefault("json", _JSON)

    @wraps(function)
    def run(*args: Any, json: bool = False, **kwargs: Any) -> None:
        code = 0
        try:
            result = function(*args, **kwargs, **({"json": json} if takes_json else {}))
            if result is not None:
                print_result(result, as_json=json)
                code = result.code
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
            if code:
                raise typer.Exit(code)
            return
        _discard_output()
        remark(sentence)
        raise typer.Exit(2)

    run.__doc__, _, entries = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")
    known = _entries(_SHARED + entries)
    described = [_for_typer(each, **known[each.name]) for each in parameters.values()]
    run.__signature__ = signature.replace(parameters=described)  # type: ignore[attr-defined]
    return run


def _entries(text: str) -> dict[str, dict[str, Any]]:
    """The help and the metavar of parameters by name."""
    known = {}
    for entry in re.split(r"\n(?=    \w)", text):
        found = _ENTRY.fullmatch(" ".join(entry.split()))
        assert found is not None, entry
        known[found["name"]] = {"help": found["help"], "metavar": found["metavar"]}
    return known


def _for_typer(parameter: inspect.Parameter, **settings: Any) -> inspect.Parameter:
    """A parameter as an argument or option of Typer, without an underscore at its end."""
    kind = parameter.annotation
    parts = _leaves(kind)
    settings["parser"] = decimal if float in parts else whole if int in parts else None
    settings["envvar"] = "BESTARM_STORE" if parameter.default == STORE else None
    if parameter.kind is parameter.KEYWORD_ONLY:
        flag = parameter.name.rstrip("_").replace("_", "-")
        info = typer.Option(f"--{flag}", **settings)
    else:
        info = typer.Argument(**settings)
    return parameter.replace(annotation=Annotated[kind, info])


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
    """Modules of a folder, by default the current one, can be imported; in new processes too."""
    here = os.path.abspath(folder)
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
