"""Methods that are told the truth, for comparisons in simulations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from bestarm.environments import World
from bestarm.errors import InvalidInputError

if TYPE_CHECKING:
    from bestarm.policies.policy import Method, Policy


class Oracle:
    """A method that is told truths of its world, which only a simulation knows.

    Args:
        method: makes a policy from a problem, a seed and the truths.
        truths: for each keyword of the method, the name of the attribute of the world to pass.

    Example:
        >>> from bestarm import environments
        >>> from bestarm.policies import GOpt
        >>> from bestarm.simulation import Oracle, simulate
        >>> simulate(Oracle(GOpt, gap="gap"), environments.small_gap(), runs=1).pulls.tolist()
        [387106]
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
