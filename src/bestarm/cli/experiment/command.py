"""Commands on one experiment: they all take its name, a store, and whether to print JSON."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from bestarm.cli.command import command, modules_of_folder
from bestarm.cli.output import print_result, remark
from bestarm.defaults import STORE
from bestarm.errors import BestArmError, InvalidInputError

if TYPE_CHECKING:
    from bestarm.live import Experiment


class Result(NamedTuple):
    """What a command found.

    Attributes:
        data: for programs.
        lines: for people.
        code: the exit code.
        note: what people should know besides.
        unprinted: what was done all the same if this cannot be printed.
    """

    data: dict[str, Any]
    lines: Sequence[str]
    code: int = 0
    note: str = ""
    unprinted: str = ""


def on_experiment(function: Callable[..., Result]) -> Callable[..., None]:
    """A command of a function that takes an experiment first, and returns what to print."""

    @wraps(function)
    def run(*, name: str, store: str, json: bool, **settings: object) -> None:
        with open_experiment(store, name) as experiment:
            result = function(experiment, **settings)
        try:
            print_result({"experiment": name, **result.data}, *result.lines, as_json=json)
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            if not result.unprinted:
                raise
            raise BestArmError(
                f"Writing failed: {error.strerror}.", field="output", remedy=result.unprinted
            ) from error
        if result.note and not json:
            remark(result.note)
        if result.code:
            raise typer.Exit(result.code)

    later = {"Experiment": object}  # imported when a command runs
    taken = inspect.signature(function, eval_str=True, locals=later)
    _, *own = taken.parameters.values()
    name = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str)
    shared = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for key, default, kind in (("store", STORE, str), ("json", False, bool))
    ]
    run.__signature__ = taken.replace(parameters=[name, *own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return command(run)


@contextmanager
def open_experiment(store: str, name: str) -> Iterator[Experiment]:
    """An experiment of a store; its policy may come from a module of the current folder.

    What a user's own policy raises becomes one of our errors.
    """
    from bestarm.live import Experiment

    experiment = None
    with modules_of_folder():
        try:
            with Experiment.open(store, name) as experiment:
                yield experiment
        except (BestArmError, OSError, typer.Exit):
            raise
        except Exception as error:
            made_of = None if experiment is None else experiment.spec
            if made_of is None or ":" not in made_of.policy:
                raise
            what = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")
            raise InvalidInputError(
                f"The policy {made_of.policy!r} raised {what}.",
                field="policy",
                value=name,
                remedy="Recorded outcomes are kept: correct the policy and ask again.",
            ) from error
