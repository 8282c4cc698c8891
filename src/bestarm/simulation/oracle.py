"""Methods that are told the truth: baselines for comparisons, of no use to an experiment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from bestarm.environments import World
from bestarm.errors import InvalidInputError

if TYPE_CHECKING:
    from bestarm.policies.policy import Method, Policy

__all__ = ["Oracle"]


class Oracle:
    """A method told truths of the world it runs in, which only a simulation has.

    Args:
        method: makes a policy from a problem, a seed and what it is told.
        truths: for each keyword of the method, the name of the world's attribute it is given.

    Example:
        >>> from bestarm import environments
        >>> from bestarm.policies import GOpt
        >>> from bestarm.simulation import Oracle, simulate
        >>> simulate(Oracle(GOpt, gap="gap"), environments.small_gap(), runs=1).pulls.tolist()
        [387106]
    """

    def __init__(self, method: Callable[..., Policy], **truths: str) -> None:
        if not callable(method):
            raise InvalidInputError(
                f"`method` must make a policy from a problem and a seed; got {method!r}.",
                field="method",
                value=method,
                remedy="Give a policy class, or a functools.partial of one.",
            )
        self.method = method
        self.truths = truths

    def told(self, world: World) -> Method:
        """The method, told the truths of this world."""
        try:
            told = {key: getattr(world, name) for key, name in self.truths.items()}
        except AttributeError as error:
            raise InvalidInputError(
                f"The world has no {error.name!r} to tell.", field="truths", value=error.name
            ) from None
        return partial(self.method, **told)
