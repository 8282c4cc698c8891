"""All policies by name: those of `catalog`, then those of other installed packages.

The command line, the server, planning, the documentation and the contract tests read them. Another
package adds a policy through the entry-point group `bestarm.policies`, with a `PolicyInfo` of its
own:

    [project.entry-points."bestarm.policies"]
    my-rule = "my_package.rules:INFO"
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from bestarm.checks import suggestion, without_punctuation
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.policies.catalog import BUILT_IN, PolicyInfo
from bestarm.policies.policy import Method

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
        problem = f"cannot be loaded ({type(error).__name__}: {error})"
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
    module, colon, attribute = name.partition(":")
    known = ", ".join(each.name for each in policies().values() if each.live)
    if not colon:
        raise InvalidInputError(
            f"There is no policy {name!r}.",
            field="policy",
            value=name,
            remedy=f"{suggestion(name, policies())} Known are {known}; your own is named as "
            "'module:attribute'.".lstrip(),
        )
    try:
        found: Method = getattr(import_module(module), attribute)
    except BestArmError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")
        raise InvalidInputError(
            f"The policy {name!r} cannot be loaded ({reason}).",
            field="policy",
            value=name,
            remedy="Its module must be importable wherever the experiment is opened.",
        ) from None
    return found
