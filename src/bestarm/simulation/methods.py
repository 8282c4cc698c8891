"""Methods: the truths that some are told, their names, and the version of a user's own code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from bestarm.environments import World
from bestarm.errors import InvalidInputError
from bestarm.policies.policy import Method, Policy
from bestarm.policies.registry import accepted
from bestarm.problem import Problem


class Oracle:
    """A method that is told truths of its world, which only a simulation knows.

    Args:
        method: makes a policy from a problem and the truths.
        truths: for each keyword of the method, the name of the attribute of the world to pass.

    Example:
        >>> from bestarm import environments
        >>> from bestarm.policies import GOpt
        >>> from bestarm.simulation import Oracle, simulate
        >>> simulate(Oracle(GOpt, gap="gap"), environments.small_gap(), runs=1).correct.tolist()
        [True]
    """

    def __init__(self, method: Callable[..., Policy], **truths: str) -> None:
        self.method = method
        self.truths = truths

    def bind(self, world: World) -> Method:
        """The method with the truths of this world bound to it."""
        try:
            truths = {key: getattr(world, name) for key, name in self.truths.items()}
        except AttributeError as error:
            raise InvalidInputError(
                f"The world has no attribute {error.name!r}.", field="truths", value=error.name
            ) from None
        return partial(self.method, **truths)


def with_mean_bound(method: Method, world: World, problem: Problem) -> Method:
    """The method, told how large |x·θ| may be in a world where the problem's scale is exceeded.

    That is, if it has an option for it; of bounded rewards it needs no other bound.
    """
    bound = getattr(world, "mean_bound", 0.0)
    bounded = isinstance(method, partial) and method.keywords.get("bounds") is not None
    if bounded or bound <= problem.scale:
        return method
    return partial(method, **accepted(method, mean_bound=bound))


def method_name(method: object) -> str:
    """The name of a method with the arguments bound to it."""
    if isinstance(method, Oracle):
        truths = [f"{key}=the world's {name}" for key, name in method.truths.items()]
        return f"{method_name(method.method)}({', '.join(truths)})"
    if isinstance(method, partial):
        bound = [repr(value) for value in method.args]
        bound += [f"{key}={value!r}" for key, value in method.keywords.items()]
        return f"{method_name(method.func)}({', '.join(bound)})"
    return str(getattr(method, "__name__", type(method).__name__))


def code_version(method: object) -> str:
    """The module of a user's own method, and a digest of its file; empty for one of bestarm's.

    A folder of runs that can be resumed keeps it, so that runs of two versions are not mixed. What
    that module imports, and what is bound to the method, is not looked at.
    """
    while isinstance(method, (Oracle, partial)):
        method = method.method if isinstance(method, Oracle) else method.func
    name = str(getattr(method, "__module__", None) or type(method).__module__)
    if name.partition(".")[0] == "bestarm":
        return ""
    return f"{name} {_digest(sys.modules.get(name))}"


@cache  # a process keeps what it has imported, even if files change
def _digest(module: ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return ""
    return sha256(Path(file).read_bytes()).hexdigest()[:16]
