"""What an evaluation is given: options and items to judge, and limits on the calls of the judge."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm import checks
from bestarm.errors import InvalidInputError

#: An option or an item: a text, or names with values.
Description = str | Mapping[str, Any]

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Question:
    """Which of these options is best on these items? Both are as the judge receives them.

    Raises:
        InvalidInputError: they are not texts or names with values, there are too few, or options
            have no names of their own.
    """

    options: Sequence[Description]
    items: Sequence[Description]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", _checked(self.options, "options", least=2))
        object.__setattr__(self, "items", _checked(self.items, "items", least=1))
        for place, label in enumerate(self.labels):
            if label in self.labels[:place]:
                raise InvalidInputError(
                    f"Two options have the name {label!r}.",
                    field="options",
                    value=label,
                    remedy="Give every option a name of its own.",
                )
        for field in ("options", "items"):
            self.fingerprint(field)

    @cached_property
    def labels(self) -> list[str]:
        """The name of each option."""
        return [_label(option) for option in self.options]

    @property
    def pairs(self) -> int:
        """The number of pairs of an option and an item: what judging everything takes."""
        return len(self.options) * len(self.items)

    def fingerprint(self, field: str) -> int:
        """A number that differs if the options, or the items, differ in any letter."""
        values = [
            value if isinstance(value, str) else dict(value) for value in getattr(self, field)
        ]
        try:
            text = json.dumps(values, sort_keys=True, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"`{field}` must hold texts, numbers, truth values, lists and mappings ({error}).",
                field=field,
                remedy="Look up anything else by its name, in the judge.",
            ) from None
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:6], "big")  # exact in JSON, whoever reads it

    def order(self, seed: int) -> NDArray[np.int64]:
        """The place of the item of each round: every order is equally likely.

        It is the order of Philox-4×64's raw words, which is the same under every version of NumPy.
        """
        # Under a name of its own: neither draws nor simulations share the stream.
        digest = hashlib.sha256(f"bestarm.evaluation.order {seed}".encode()).digest()
        words = np.random.Philox(key=int.from_bytes(digest[:16], "little"))
        return np.argsort(words.random_raw(len(self.items)), kind="stable").astype(np.int64)


def _checked(values: object, field: str, *, least: int) -> tuple[Description, ...]:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Sequence):
        problem = f"must be a list of texts or of mappings; got {type(values).__name__!r}"
    elif wrong := [i for i, each in enumerate(values) if not isinstance(each, (str, Mapping))]:
        problem = f"must be texts or mappings; number {wrong[0] + 1} is {values[wrong[0]]!r}"
    elif len(values) < least:
        problem = f"must be at least {least}; got {len(values)}"
    else:
        return tuple(values)
    raise InvalidInputError(
        f"`{field}` {problem}.",
        field=field,
        value=values,
        remedy='For example ["Be brief.", "Be kind."].',
    )


def _label(option: Description) -> str:
    label: Any = option if isinstance(option, str) else option.get("name")
    one_line = isinstance(label, str) and label.isprintable()
    if one_line and label.strip() and len(label) <= _LONGEST_NAME:
        return str(label)
    raise InvalidInputError(
        f"Every option needs a name of 1 to {_LONGEST_NAME} characters in one line; got {label!r}.",
        field="options",
        value=option,
        remedy='Give long ones as mappings: {"name": "short", "prompt": "Answer in …"}.',
    )


@dataclass(frozen=True)
class Limits:
    """What a run of an evaluation must not exceed.

    Attributes:
        bounds: the lowest and the highest score.
        concurrency: calls of the judge at a time.
        retries: further calls after one that failed.
        price: of a call.
        max_cost: of all judgements of the evaluation, of the calls of this run that fail, and of
            calls in flight when an earlier run was killed.
        on_failure: the score of a pair that cannot be judged; None if it ends the run.
    """

    bounds: tuple[float, float]
    concurrency: int
    retries: int
    price: float
    max_cost: float | None
    on_failure: float | None

    def __post_init__(self) -> None:
        checks.interval(self.bounds, "bounds")
        checks.whole(self.concurrency, "concurrency", least=1)
        checks.whole(self.retries, "retries", least=0)
        checks.positive(self.price, "price")
        if self.max_cost is not None:
            checks.not_negative(self.max_cost, "max_cost")
        if self.on_failure is None:
            return
        low, high = self.bounds
        if not low <= checks.finite(self.on_failure, "on_failure") <= high:
            raise InvalidInputError(
                f"`on_failure` must lie within the bounds, from {low:g} to {high:g}; got "
                f"{self.on_failure!r}.",
                field="on_failure",
                value=self.on_failure,
                remedy="It is the score of a pair that cannot be judged, such as the lowest.",
            )

    @property
    def calls(self) -> float:
        """How many calls are allowed."""
        if self.max_cost is None:
            return math.inf
        return _decimal(self.max_cost) // _decimal(self.price)


def cost_of(calls: int, price: float) -> float:
    """What calls cost.

    >>> cost_of(3, 0.1)
    0.3
    """
    return float(calls * _decimal(price))


def _decimal(amount: float) -> Fraction:
    """An amount as people write it: 0.1 is a tenth, and not the nearest binary number."""
    return Fraction(str(float(amount)))
