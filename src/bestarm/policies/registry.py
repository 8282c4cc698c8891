"""All policies by name: those of `catalog`, then those of other installed packages.

The command line, the server, planning, the documentation and the contract tests read them. Another
package adds a policy through the entry-point group `bestarm.policies`, with a `PolicyInfo` of its
own:

    [project.entry-points."bestarm.policies"]
    my-rule = "my_package.rules:INFO"
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from bestarm.checks import suggestion, without_punctuation
from bestarm.errors import BestArmError, InvalidInputError, describe_error
from bestarm.policies.catalog import BUILT_IN, PolicyInfo
from bestarm.policies.policy import Method
from bestarm.problem import Problem

GROUP = "bestarm.policies"


@lru_cache(maxsize=1)
def policies() -> Mapping[str, PolicyInfo]:
    """All policies by name: those of bestarm, then those of other installed packages."""
    table = {each.name: each for each in BUILT_IN}
    for entry in entry_points(group=GROUP):
        info = _load_entry_point(entry)
        if info is not None and info.name in table:
            warnings.warn(
                f"The policy {info.name!r} of {entry.value!r} is left out: the name is taken.",
                stacklevel=2,
            )
        elif info is not None:
            table[info.name] = info
    return MappingProxyType(table)


def _load_entry_point(entry: EntryPoint) -> PolicyInfo | None:
    """What another package registers, or None, with a warning, if it cannot be used."""
    try:
        found = entry.load()
    except Exception as error:
        problem = f"cannot be loaded ({describe_error(error)})"
    else:
        if isinstance(found, PolicyInfo):
            return found
        problem = f"is not a PolicyInfo but {type(found).__name__}"
    warnings.warn(f"The entry point {entry.value!r} of {GROUP} {problem}.", stacklevel=3)
    return None


def find(name: str) -> PolicyInfo | None:
    """The policy of this name; case and punctuation do not matter, and its class's name will do."""
    table = policies()
    return table.get(name) or table.get(spelling().get(without_punctuation(name), ""))


def spelling() -> Mapping[str, str]:
    """The name of every policy, by name and class, each without case and punctuation."""
    plain = [each for each in policies().values() if not each.options]
    classes = {each.import_path.partition(":")[2]: each.name for each in plain}
    known = classes | {name: name for name in policies()}
    return {without_punctuation(key): name for key, name in known.items()}


def accepted(
    method: Callable[..., Any],
    *,
    seed: int | None = None,
    max_pulls: int | None = None,
    bounds: tuple[float, float] | None = None,
    block: int | None = None,
    mean_bound: float | None = None,
    budget: int | None = None,
    changes: bool | None = None,
) -> dict[str, Any]:
    """Those of the options that every method understands alike, if this one takes them.

    What is None, or is bound already, is left out.
    """
    offered = {
        "seed": seed,
        "max_pulls": max_pulls,
        "bounds": bounds,
        "block": block,
        "mean_bound": mean_bound,
        "budget": budget,
        "changes": changes,
    }
    taken = options_of(method)
    bound = method.keywords if isinstance(method, partial) else {}
    return {
        name: value
        for name, value in offered.items()
        if value is not None and name in taken and name not in bound
    }


def make_policy(method: Callable[..., Any], problem: Problem, *, seed: int = 0) -> Any:
    """What a method makes for a problem: with a seed, if it takes one."""
    return method(problem, **accepted(method, seed=seed))


def options_of(method: Callable[..., Any]) -> Collection[str]:
    """The names of what a method takes, bound or not; empty where Python cannot tell."""
    try:
        return inspect.signature(method).parameters.keys()
    except (TypeError, ValueError):  # of something compiled
        return ()


def free_options(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """The options of a method: all it takes besides the problem and the seed.

    None where it takes any, or Python cannot tell.
    """
    try:
        taken = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):  # of something compiled
        return None
    if any(each.kind is each.VAR_KEYWORD for each in taken):
        return None
    return {each.name: each for each in taken[1:] if each.name != "seed"}


def unknown_option(option: str, known: Collection[str]) -> str:
    """The remedy for an option that is not known."""
    near = suggestion(option, known)
    return near or (f"Its options are {', '.join(known)}." if known else "It has no options.")


def load(name: str) -> Method:
    """The method of this name, or of one's own as `module:attribute`.

    Raises:
        InvalidInputError: there is no such policy, or it cannot be loaded.
    """
    info = policies().get(name)
    if info is not None:
        return info.method
    if ":" in name:
        found: Method = load_own(name, "policy")
        return found
    known = ", ".join(each.name for each in policies().values() if each.live)
    raise InvalidInputError(
        f"There is no policy {name!r}.",
        field="policy",
        value=name,
        remedy=f"{suggestion(name, policies())} Known are {known}; your own is named as "
        "'module:attribute'.".lstrip(),
    )


def load_own(name: str, field: str) -> Any:
    """What `module:attribute` names, which is imported.

    Raises:
        InvalidInputError: it is not there, or its module cannot be imported.
    """
    module, _, attribute = name.partition(":")

    def wrong(message: str, remedy: str) -> InvalidInputError:
        return InvalidInputError(message, field=field, value=name, remedy=remedy)

    if module.endswith(".py") or os.sep in module:
        stem = os.path.basename(module).removesuffix(".py")
        raise wrong(f"{module!r} is a file.", f"Go to its folder and give {stem}:{attribute}.")
    if not module or not is_path(attribute):
        which = f"{name!r} does not say what of which module it is."
        raise wrong(which, f"Try {module or 'module'}:Name, the name of what is there.")
    try:
        home = import_module(module)
    except BestArmError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):  # itself or a parent
            where = f"There is no module {missing!r} in {os.getcwd()!r}, nor is one installed."
            raise wrong(where, "Go to its folder, or install it; leave out its .py.") from None
        raised = f"Importing {module!r} raised {describe_error(error, module)}."
        raise wrong(raised, "Correct it first.") from error
    try:
        return attrgetter(attribute)(home)
    except AttributeError:
        names = [key for key in vars(home) if not key.startswith("_")]
        message = f"The module {module!r} has no {attribute!r}."
        raise wrong(message, suggestion(attribute, names)) from None


def is_path(text: str) -> bool:
    """Whether a text is a name of Python, or names with points between them."""
    return all(part.isidentifier() for part in text.split("."))
