"""Commands on one experiment: they all take its name and a store."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

import typer

from bestarm.cli.command import command, modules_of_folder
from bestarm.cli.output import Result
from bestarm.defaults import STORE
from bestarm.errors import BestArmError, InvalidInputError, describe_error

if TYPE_CHECKING:
    from bestarm.live import Experiment

T = TypeVar("T")


def on_experiment(function: Callable[..., Result]) -> Callable[..., None]:
    """A command of a function that takes an experiment first."""

    @wraps(function)
    def run(*, name: str, store: str, allow_module: list[str] | None, **settings: object) -> Result:
        with open_experiment(store, name, allow_module) as experiment:
            result = function(experiment, **settings)
        return result._replace(data={"experiment": name, **result.data})

    later = {"Experiment": object}  # imported when a command runs
    signature = inspect.signature(function, eval_str=True, locals=later)
    _, *own = signature.parameters.values()
    name = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str)
    store = inspect.Parameter(
        "store", inspect.Parameter.KEYWORD_ONLY, default=STORE, annotation=str
    )
    allowed = inspect.Parameter(
        "allow_module",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=list[str] | None,
    )
    parameters = [name, *own, store, allowed]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return command(run)


def read_pairs(
    pairs: Sequence[str] | None,
    field: str,
    read: Callable[[str], T],
    *,
    form: str,
    example: str,
    split: Callable[[str, str], tuple[str, str, str]] = str.partition,
) -> dict[str, T]:
    """Values by name, from an option that is repeated; `read` raises ValueError for a bad value."""
    found: dict[str, T] = {}
    for pair in pairs or ():
        name, equals, text = split(pair, "=")
        try:
            if not equals or not name.strip() or name.strip() in found:
                raise ValueError  # noqa: TRY301
            found[name.strip()] = read(text.strip())
        except ValueError:
            raise InvalidInputError(
                f"`{field}` must be {form}, each name once; got {pair!r}.",
                field=field,
                value=pair,
                remedy=f"For example --{field.replace('_', '-')} {example}.",
            ) from None
    return found


@contextmanager
def open_experiment(
    store: str, name: str, allow_module: Sequence[str] | None
) -> Iterator[Experiment]:
    """An experiment of a store; its policy may come from modules that are allowed, also of the
    current folder.

    What a user's own policy raises becomes one of our errors.
    """
    from bestarm.live import Experiment

    experiment, modules = None, allow_module or ()
    with modules_of_folder() if modules else nullcontext():
        try:
            with Experiment.open(store, name, allow_modules=modules) as experiment:
                yield experiment
        except (BestArmError, OSError, typer.Exit):
            raise
        except Exception as error:
            made_of = None if experiment is None else experiment.spec
            if made_of is None or ":" not in made_of.policy:
                raise
            raise InvalidInputError(
                f"The policy {made_of.policy!r} raised {describe_error(error)}.",
                field="policy",
                value=name,
                remedy="Recorded outcomes are kept: correct the policy and ask again.",
            ) from error
