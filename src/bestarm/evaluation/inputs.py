"""What an evaluation is given: options and items to judge, and limits on the calls of the judge."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm import checks
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError
from bestarm.evaluation.preferences import below_one

#: An option or an item: a text, or names with values.
Description = str | Mapping[str, Any]

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Question:
    """Which of these options is best on these items?

    Attributes:
        options: as the judge receives them.
        items: as the judge receives them.
        delta: the allowed probability of a wrong answer.
        bounds: the lowest and the highest score.
        tolerance: how much worse than the best the named option may be; of a gate, how much worse
            than the control an option may be.
        control: the name of the option that the others are compared with, or None.
        gate: whether the question is instead which options are not worse than the control.
        compare: whether the question is instead which option is preferred to each other one.

    Raises:
        InvalidInputError: an attribute is invalid, or options or items lack names of their own.
    """

    options: Sequence[Description]
    items: Sequence[Description]
    delta: float = DELTA
    bounds: tuple[float, float] = (0.0, 1.0)
    tolerance: float = 0.0
    control: str | None = None
    gate: bool = False
    compare: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", _checked(self.options, "options", least=2))
        object.__setattr__(self, "items", _checked(self.items, "items", least=1))
        _refuse_duplicates(self.labels, "options", "name")
        _refuse_duplicates(self.ids, "items", "id")
        for field in ("options", "items"):
            self.fingerprint(field)
        checks.probability(self.delta, "delta")
        checks.interval(self.bounds, "bounds")
        checks.not_negative(self.tolerance, "tolerance")
        if self.control is not None and self.control not in self.labels:
            near = checks.suggestion(str(self.control), self.labels)
            raise InvalidInputError(
                f"There is no option {self.control!r} to be the control.",
                field="control",
                value=self.control,
                remedy=near or f"The options are {', '.join(self.labels)}.",
            )
        if self.compare:
            self._check_compare()
        if self.gate and self.control is None:
            raise InvalidInputError(
                "A gate compares options with a control, and none is named.",
                field="control",
                remedy="Name the option in use now: `control='main'` (`--control main`).",
            )

    def _check_compare(self) -> None:
        below_one(self.tolerance)
        unused: dict[str, object] = {"control": self.control, "gate": self.gate or None}
        unused["bounds"] = None if self.bounds == (0, 1) else self.bounds
        for field, value in unused.items():
            if value is not None:
                raise InvalidInputError(
                    f"`{field}` has no meaning where options are compared with each other.",
                    field=field,
                    value=value,
                    remedy=f"Leave `{field}` out, or give a judge that returns scores.",
                )
        object.__setattr__(self, "bounds", (-1.0, 1.0))

    @cached_property
    def labels(self) -> list[str]:
        """The name of each option."""
        return [_label(option) for option in self.options]

    @cached_property
    def ids(self) -> list[str | int]:
        """What each item goes by: its `"id"`, or its number from 1."""
        return [_id(item, number) for number, item in enumerate(self.items, start=1)]

    @property
    def pairs(self) -> int:
        """The number of pairs of an option and an item: what judging everything takes.

        Where options are compared, each two of them on as many items as there are.
        """
        count = len(self.options)
        return (count * (count - 1) // 2 if self.compare else count) * len(self.items)

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
        words = _words("order", seed)
        return np.argsort(words.random_raw(len(self.items)), kind="stable").astype(np.int64)

    def drawn_item(self, seed: int, number: int) -> int:
        """The place of the item of a comparison: drawn with replacement, fixed by its number."""
        return int(_words("item", seed, counter=number).random_raw() % len(self.items))


def _words(purpose: str, seed: int, counter: int = 0) -> np.random.Philox:
    """Words under a name of their own: neither draws nor simulations share the stream."""
    digest = hashlib.sha256(f"bestarm.evaluation.{purpose} {seed}".encode()).digest()
    return np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=counter)


def _refuse_duplicates(names: Sequence[str | int], field: str, kind: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidInputError(
                f"Two {field} have the {kind} {name!r}.",
                field=field,
                value=name,
                remedy=f"Give every one {'an' if kind == 'id' else 'a'} {kind} of its own.",
            )


def _id(item: Description, number: int) -> str | int:
    if isinstance(item, str) or "id" not in item:
        return number
    name = item["id"]
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    if isinstance(name, str) and name.isprintable() and 0 < len(name.strip()) <= _LONGEST_NAME:
        return name
    raise InvalidInputError(
        f"The id of an item is a whole number, or 1 to {_LONGEST_NAME} characters in one line; got "
        f"{name!r}.",
        field="items",
        value=item,
        remedy="Leave `id` out to have items numbered from 1.",
    )


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
        question: what is judged.
        concurrency: calls of the judge at a time.
        retries: further calls after one that failed.
        price: of a call, or of a call for each option by its name.
        max_cost: of all judgements of the evaluation, of the calls of this run that fail, and of
            calls in flight when an earlier run was killed.
        on_failure: the score of a pair that cannot be judged; None if it ends the run.
    """

    question: Question
    concurrency: int
    retries: int
    price: float | Mapping[str, float]
    max_cost: float | None
    on_failure: float | None

    def __post_init__(self) -> None:
        checks.whole(self.concurrency, "concurrency", least=1)
        checks.whole(self.retries, "retries", least=0)
        if self.max_cost is not None:
            checks.not_negative(self.max_cost, "max_cost")
        read_prices(self.price, self.question.labels)
        if self.question.compare and isinstance(self.price, Mapping):
            raise InvalidInputError(
                "`price` is one number where options are compared: a call is about two of them.",
                field="price",
                value=self.price,
                remedy="Give what a comparison costs.",
            )
        if self.on_failure is None:
            return
        if self.question.compare and self.on_failure:
            raise InvalidInputError(
                f"`on_failure` must be 0 where options are compared; got {self.on_failure!r}.",
                field="on_failure",
                value=self.on_failure,
                remedy="With 0, neither option is preferred where the judge failed.",
            )
        low, high = self.question.bounds
        if not low <= checks.finite(self.on_failure, "on_failure") <= high:
            raise InvalidInputError(
                f"`on_failure` must lie within the bounds, from {low:g} to {high:g}; got "
                f"{self.on_failure!r}.",
                field="on_failure",
                value=self.on_failure,
                remedy="It is the score of a pair that cannot be judged, such as the lowest.",
            )

    @cached_property
    def prices(self) -> list[Fraction]:
        """What a call costs, by option."""
        return read_prices(self.price, self.question.labels)

    @property
    def budget(self) -> Fraction | None:
        """What may be spent; None without a cap."""
        return None if self.max_cost is None else decimal_fraction(self.max_cost)


def read_prices(price: float | Mapping[str, float], labels: Sequence[str]) -> list[Fraction]:
    """What a call costs for each of these options.

    >>> [float(each) for each in read_prices({"large": 0.1, "small": 0.01}, ["small", "large"])]
    [0.01, 0.1]
    """
    prices = price if isinstance(price, Mapping) else dict.fromkeys(labels, price)
    if prices.keys() != set(labels):
        wrong = sorted(map(str, prices.keys() ^ set(labels)))[0]
        has = "has no price" if wrong in labels else "is not an option"
        raise InvalidInputError(
            f"`price` must have one price for each option; {wrong!r} {has}.",
            field="price",
            value=price,
            remedy="Give one number for all, or a number for each option by its name.",
        )
    return [decimal_fraction(checks.positive(prices[label], "price")) for label in labels]


def decimal_fraction(amount: float) -> Fraction:
    """An amount as people write it: 0.1 is a tenth, and not the nearest binary number."""
    return Fraction(str(float(amount)))
