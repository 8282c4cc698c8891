"""What a run of an evaluation must not exceed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from bestarm import checks


@dataclass(frozen=True)
class Limits:
    """What a run must not exceed.

    Attributes:
        bounds: the lowest and the highest score.
        concurrency: calls of the judge at a time.
        retries: further calls after one that failed.
        price: of a call.
        max_cost: of all judgements of the evaluation, of the calls of this run that fail, and of
            calls in flight when an earlier run was killed.
    """

    bounds: tuple[float, float]
    concurrency: int
    retries: int
    price: float
    max_cost: float | None

    def __post_init__(self) -> None:
        checks.interval(self.bounds, "bounds")
        checks.whole(self.concurrency, "concurrency", least=1)
        checks.whole(self.retries, "retries", least=0)
        checks.positive(self.price, "price")
        if self.max_cost is not None:
            checks.not_negative(self.max_cost, "max_cost")

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
