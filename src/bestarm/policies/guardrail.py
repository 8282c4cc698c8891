"""What is promised of a second outcome of the same assignments, and how it is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from bestarm.checks import (
    choice,
    duration,
    finite,
    interval,
    not_negative,
    probability,
    suggestion,
)
from bestarm.errors import InvalidInputError


@dataclass(frozen=True)
class Guardrail:
    """What is promised of a second outcome.

    Attributes:
        name: its name, under which values are told.
        bounds: the lowest and the highest value.
        worse_by: how much worse than the control an option may be.
        alpha: the probability with which an option that is never worse by more is found worse, at
            any look, for all options together.
        action: what happens to an option that is found worse: it is retired, or an alert is logged.
        worse: whether higher values are worse, as of refunds, or lower ones, as of revenue.
        window: how long after its assignment a value may be told, in seconds; None for any time.
        otherwise: the value where none was told within the window.
    """

    name: str
    bounds: tuple[float, float]
    worse_by: float
    alpha: float = 0.05
    action: Literal["retire", "alert"] = "retire"
    worse: Literal["higher", "lower"] = "higher"
    window: float | None = None
    otherwise: float | None = None

    @property
    def center(self) -> float:
        """The middle of the bounds, which is subtracted from values before they are added up."""
        return (self.bounds[0] + self.bounds[1]) / 2


_NAMES = [each.name for each in fields(Guardrail) if each.name != "name"]


def read_guardrails(given: object, *, reserved: Collection[str] = ()) -> tuple[Guardrail, ...]:
    """Guardrails from plain data: names with what is promised of each.

    Args:
        given: a mapping of names to mappings of the attributes of `Guardrail`; None for none.
        reserved: names that mean something else.
    """
    if given is None:
        return ()
    example = 'For example {"refund": {"bounds": [0, 1], "worse_by": 0.01, "alpha": 0.05}}.'
    if not isinstance(given, Mapping):
        message = f"`guardrails` must be names with what is promised of each; got {given!r}."
        raise InvalidInputError(message, field="guardrails", value=given, remedy=example)
    found = []
    for name, promise in given.items():
        if not isinstance(name, str) or not name.isidentifier() or name in reserved:
            message = f"A guardrail cannot be called {name!r}."
            remedy = "Use letters, digits and underscores, and no name of a column of exports."
            raise InvalidInputError(message, field="guardrails", value=name, remedy=remedy)
        if not isinstance(promise, Mapping) or not {"bounds", "worse_by"} <= promise.keys():
            message = f"The guardrail {name!r} needs `bounds` and `worse_by`; got {promise!r}."
            raise InvalidInputError(message, field="guardrails", value=promise, remedy=example)
        found.append(_read_guardrail(name, promise))
    return tuple(found)


def _read_guardrail(name: str, promise: Mapping[str, Any]) -> Guardrail:
    unknown = next((key for key in promise if key not in _NAMES), None)
    if unknown is not None:
        message = f"The guardrail {name!r} has {unknown!r}, which is not known."
        remedy = suggestion(str(unknown), _NAMES) or f"Known are {', '.join(_NAMES)}."
        raise InvalidInputError(message, field="guardrails", value=unknown, remedy=remedy)
    bounds = interval(promise["bounds"], "bounds")
    worse_by = not_negative(promise["worse_by"], "worse_by")
    if worse_by >= bounds[1] - bounds[0]:
        message = f"No option of {name!r} can be worse by {worse_by:g} within its bounds."
        remedy = "Give a smaller `worse_by`, in the units of the bounds."
        raise InvalidInputError(message, field="worse_by", value=worse_by, remedy=remedy)
    action, worse = promise.get("action", "retire"), promise.get("worse", "higher")
    choice(action, ("retire", "alert"), "action")
    choice(worse, ("higher", "lower"), "worse")
    alpha = probability(promise.get("alpha", 0.05), "alpha")
    window, otherwise = promise.get("window"), promise.get("otherwise")
    if (window is None) != (otherwise is None):
        lacking = "otherwise" if otherwise is None else "window"
        message = f"The guardrail {name!r} lacks `{lacking}`."
        remedy = 'Give both, for example "window": "14d", "otherwise": 0, or neither.'
        raise InvalidInputError(message, field=lacking, value=None, remedy=remedy)
    if otherwise is not None:
        window, otherwise = duration(window, "window"), finite(otherwise, "otherwise")
        if not bounds[0] <= otherwise <= bounds[1]:
            message = f"`otherwise` of {name!r} must lie between {bounds[0]:g} and {bounds[1]:g}."
            remedy = "It is a value like any other."
            raise InvalidInputError(message, field="otherwise", value=otherwise, remedy=remedy)
    return Guardrail(name, bounds, worse_by, alpha, action, worse, window, otherwise)
